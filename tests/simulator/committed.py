"""What roots took for committed: every root that comes later has it."""

from __future__ import annotations

from openclust.cluster.log.log import ENDS_MAX, Log
from openclust.cluster.protocol.status import Position
from tests.simulator.host import Host
from tests.simulator.invariants import Violation


class Committed:
    """`look_at` a root whenever it has had a turn. Not where what was kept in memory only has gone with its broker."""

    def __init__(self) -> None:
        # Of the newest epoch that has committed anything: up to where, and who said so.
        self._last = Position()
        self._root = ""
        self._began = 0

    def look_at(self, host: Host) -> None:
        membership = host.running.membership
        replica, epoch = membership.replica, membership.epoch
        if epoch > self._began:
            self._began = epoch
            if not _has(replica.log, self._last):
                told = f"is root of epoch {epoch} without what {self._root} had committed up to {self._last}"
                raise Violation(f"{host.name} {told}: its log has {replica.log.ends()} after {replica.log.base}")
        committed = membership.commit_index.disk
        # What it has of earlier epochs counts as soon as its own opening does.
        if committed.epoch == epoch and committed > self._last:
            self._last, self._root = committed, host.name


def _has(log: Log, place: Position) -> bool:
    ends = log.ends()
    for end in ends:
        if end.epoch == place.epoch:
            return end >= place
    # It knows of no epochs from before its snapshot, and of so many only.
    return place <= log.base or len(ends) > ENDS_MAX
