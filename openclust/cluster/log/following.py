"""What a follower says to its root: that it wants to be fed, which is not said too often, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.cluster.election.view import is_pledged
from openclust.cluster.log.followers import PATIENCE_BEATS
from openclust.cluster.protocol.messages import Enlist, Held
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.cluster.log.log import Log
    from openclust.cluster.membership.membership import Membership

ENLIST_BEATS = 50
"""For so many heartbeats a follower does not ask again for what it has asked for: a snapshot may take its time."""
_NEVER_MS = -(2**62)


class Enlisting:
    """Tell it when something has come that was asked for (`heard`), or all of it (`satisfied`)."""

    def __init__(self, membership: Membership, log: Log) -> None:
        self._cluster = membership
        self._broker = membership.broker
        self._log = log
        self._asked_ms = _NEVER_MS
        self._asked_all_ms = _NEVER_MS
        # Where the log stood when the root was found to be ahead, and when that was.
        self._behind = Position(), 0
        self._has_told_pledge = False

    def heard(self) -> None:
        self._asked_ms = self._broker.now_ms

    def satisfied(self) -> None:
        self._asked_ms = _NEVER_MS

    def ask(self) -> None:
        """Be fed from where this log ends."""
        self._asked_ms = self._broker.now_ms
        log = self._log
        on_disk = min(self._cluster.storing.on_disk, log.last)
        enlist = Enlist(position=log.last, on_disk=on_disk, ends=log.ends(), is_pledged=self._look_at_vote())
        self._cluster.send(self._cluster.root, enlist)

    def ask_for_all(self) -> None:
        """Get a snapshot: the log here cannot be made to go on."""
        self._asked_ms = self._broker.now_ms
        enlist = Enlist(position=Position(), ends=self._log.ends(), is_pledged=self._look_at_vote())
        self._cluster.send(self._cluster.root, enlist)

    def tell_held(self) -> None:
        """How much of the root's log is here."""
        last = self._log.last
        on_disk = min(self._cluster.storing.on_disk, last)
        held = Held(epoch=self._cluster.epoch, position=last, on_disk=on_disk, is_pledged=self._look_at_vote())
        self._cluster.send(self._cluster.root, held)

    @property
    def has_come_free(self) -> bool:
        """Whether the root was told of a pledge that is none any more: what is held here counts from now on."""
        return self._has_told_pledge and not self._is_pledged()

    def _look_at_vote(self) -> bool:
        self._has_told_pledge = self._is_pledged()
        return self._has_told_pledge

    def _is_pledged(self) -> bool:
        return self._cluster.is_primary and is_pledged(self._cluster.election)

    def differs(self) -> None:
        """What is here is not what the log says: get a snapshot, unless one was asked for just now."""
        now_ms = self._broker.now_ms
        if now_ms - self._asked_all_ms > PATIENCE_BEATS * self._cluster.heartbeat_ms:
            self._asked_all_ms = now_ms
            self.ask_for_all()

    @property
    def is_due(self) -> bool:
        """Whether to ask again; not while what was asked for may be on its way."""
        is_late = self._broker.now_ms - self._asked_ms > ENLIST_BEATS * self._cluster.heartbeat_ms
        return is_late and not self._cluster.storing.disk.is_full

    def misses(self, position: Position) -> bool:
        """Whether something was lost: the root's log ends there, and did not end here a heartbeat ago."""
        last, now_ms = self._log.last, self._broker.now_ms
        if position == last:
            self.satisfied()
            return False
        if self._behind[0] != last:
            self._behind = last, now_ms
            return False
        return now_ms - self._behind[1] >= self._cluster.heartbeat_ms
