"""The log of a follower: it asks its root for entries, not too often, and tells the root which it holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openclust.cluster.log.followers import PATIENCE_BEATS
from openclust.cluster.protocol.messages import Enlist, Held
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.log.replica import Replica
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.storage.disk_health import DiskHealth
    from openclust.cluster.storage.log_store import LogStore

ENLIST_BEATS = 50
"""A follower waits so many heartbeats for an answer before it asks again: a snapshot may take its time."""
_NEVER_MS = -(2**62)


class Following:
    """The `Feeder` of a broker that follows `root` in `epoch`. Call `enlist` when the root is met, `flush` a turn.

    `log_advanced` is called when more of the root's log is here.
    """

    takes_beyond_room = False

    def __init__(
        self,
        root: str,
        epoch: int,
        broker: Broker,
        links: Links,
        elector: Elector,
        replica: Replica,
        log_store: LogStore,
        disk_health: DiskHealth,
        log_advanced: Callable[[], None],
    ) -> None:
        self._root = root
        self._epoch = epoch
        self._broker = broker
        self._links = links
        self._elector = elector
        self._replica = replica
        self._log = replica.log
        self._log_store = log_store
        self._disk_health = disk_health
        self._log_advanced = log_advanced
        # A snapshot is being installed: the root is asked for entries when that is done.
        self._waits_to_enlist = False
        self._asked_ms = _NEVER_MS
        self._asked_all_ms = _NEVER_MS
        # The end of this log when the root was found to be ahead, and the time of that.
        self._behind = Position(), 0
        self._has_told_pledge = False

    def enlist(self) -> None:
        """Ask the root for all entries behind the end of this log."""
        if self._replica.is_installing:
            self._waits_to_enlist = True
            return
        self._replica.forget_snapshot()
        self._ask()

    def is_from(self, peer: str, epoch: int) -> bool:
        return peer == self._root and epoch == self._epoch

    def spoken(self) -> None:
        self._asked_ms = self._broker.now_ms

    def advanced(self, *, is_urgent: bool) -> None:
        self._asked_ms = _NEVER_MS
        if is_urgent or self._log_store.on_disk == self._log.last:
            self._tell_held()
        self._log_advanced()

    def missed(self) -> None:
        if self._is_due and not self._replica.is_snapshot_arriving:
            self.enlist()

    def root_is_at(self, position: Position) -> None:
        """The root's log ends there."""
        if self._misses(position) and not self._replica.is_installing:
            self.missed()

    def on_disk(self) -> None:
        self._tell_held()

    def installed(self, *, is_lost: bool) -> None:
        if is_lost or self._waits_to_enlist:
            self._waits_to_enlist = False
            self.enlist()

    def flush(self) -> None:
        if self._has_told_pledge and not self._elector.is_pledged and not self._replica.is_installing:
            # The root was told of a pledge that has ended: from now on it may count what this broker holds.
            self._tell_held()

    def _ask(self) -> None:
        self._asked_ms = self._broker.now_ms
        log = self._log
        on_disk = min(self._log_store.on_disk, log.last)
        enlist = Enlist(position=log.last, on_disk=on_disk, ends=log.ends(), is_pledged=self._look_at_vote())
        self._links.send(self._root, enlist)

    def ask_for_all(self) -> None:
        """Ask the root for a snapshot: entries alone cannot bring this log up to date."""
        self._asked_ms = self._broker.now_ms
        enlist = Enlist(position=Position(), ends=self._log.ends(), is_pledged=self._look_at_vote())
        self._links.send(self._root, enlist)

    def _tell_held(self) -> None:
        """Tell the root how much of its log is here."""
        last = self._log.last
        on_disk = min(self._log_store.on_disk, last)
        held = Held(epoch=self._epoch, position=last, on_disk=on_disk, is_pledged=self._look_at_vote())
        self._links.send(self._root, held)

    def _look_at_vote(self) -> bool:
        self._has_told_pledge = self._elector.is_pledged
        return self._has_told_pledge

    def differs(self) -> None:
        """The definitions here are not those of the log: ask for a snapshot, unless one was asked for just now."""
        now_ms = self._broker.now_ms
        if now_ms - self._asked_all_ms > PATIENCE_BEATS * self._links.heartbeat_ms:
            self._asked_all_ms = now_ms
            self.ask_for_all()

    @property
    def _is_due(self) -> bool:
        """Whether to ask again; not while the answer may be on its way, nor while the disk is full."""
        is_late = self._broker.now_ms - self._asked_ms > ENLIST_BEATS * self._links.heartbeat_ms
        return is_late and not self._disk_health.is_full

    def _misses(self, position: Position) -> bool:
        """Whether entries were lost: the root's log ends at `position`, and this one has not grown for a heartbeat."""
        last, now_ms = self._log.last, self._broker.now_ms
        if position == last:
            self._asked_ms = _NEVER_MS
            return False
        if self._behind[0] != last:
            self._behind = last, now_ms
            return False
        return now_ms - self._behind[1] >= self._links.heartbeat_ms
