"""Where what a root tells of its log goes on from the log here; what stands in its place here is undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.journal.store_rows import Cut

if TYPE_CHECKING:
    from openclust.cluster.log.log import Log
    from openclust.cluster.log.rollback import Rollback
    from openclust.cluster.membership.membership import Membership
    from openclust.cluster.protocol.log_entry import LogEntry
    from openclust.cluster.protocol.messages import Append
    from openclust.cluster.protocol.status import Position


class CannotRollBack(Exception):
    """Only a snapshot helps."""


class LogJoin:
    """For a log that is fed. Who feeds it is root, or was: what it tells counts."""

    def __init__(self, membership: Membership, log: Log, undo: Rollback) -> None:
        self._cluster = membership
        self._log = log
        self._undo = undo

    def new_of(self, message: Append) -> list[LogEntry] | None:
        """What is not here yet, and goes on from where the log ends now. None where it does not, or is all here.

        CannotRollBack where there are other entries here in its place, and they cannot be undone.
        """
        after, entries = message.after, message.entries
        if after == self._log.last:
            return entries
        known = next((at for at in reversed(range(len(entries))) if self._has(entries[at].position)), -1)
        if known >= 0:
            after, entries = entries[known].position, entries[known + 1 :]
        if not entries:
            return None
        if not self._has(after):
            base = self._log.base
            if after.sequence < base.sequence and entries[-1].position > base:
                # It goes on from before all that this log remembers, and not as this log did.
                raise CannotRollBack
            return None
        if after != self._log.last:
            self._cut(after)
        return entries

    def _has(self, position: Position) -> bool:
        return self._log.tail(position, 0) is not None

    def _cut(self, after: Position) -> None:
        adrift = self._undo.back_to(after)
        if adrift is None:
            raise CannotRollBack
        self._log.cut(after)
        self._cluster.commit_index.cut(after)
        self._cluster.commit_registry.cut(after)
        storing = self._cluster.storing
        storing.give(Cut(after.sequence))
        storing.log_is(after)
        # Nobody else has them.
        self._cluster.handover.keep(adrift)
