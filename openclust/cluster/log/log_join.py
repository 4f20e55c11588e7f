"""Finds the last entry that this log and the root's have in common, and undoes what this log has behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.queues.queue import Queue
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.log.log import Log
    from openclust.cluster.log.rollback import Rollback
    from openclust.cluster.protocol.log_entry import LogEntry
    from openclust.cluster.protocol.messages import Append
    from openclust.cluster.protocol.status import Position
    from openclust.cluster.storage.log_store import LogStore
    from openclust.cluster.transactions.commit_registry import CommitRegistry


class CannotRollBack(Exception):
    """Only a snapshot helps."""


class LogJoin:
    """For a log that is fed. Who feeds it is root, or was: what it tells counts.

    `keep_strays` is given the messages that this broker has taken in as root, by entries that are undone.
    """

    def __init__(
        self,
        log: Log,
        log_store: LogStore,
        rollback: Rollback,
        commit_index: CommitIndex,
        registry: CommitRegistry,
        keep_strays: Callable[[list[tuple[Queue, Entry]]], None],
    ) -> None:
        self._log = log
        self._log_store = log_store
        self._rollback = rollback
        self._commit_index = commit_index
        self._registry = registry
        self._keep_strays = keep_strays

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
        adrift = self._rollback.back_to(after)
        if adrift is None:
            raise CannotRollBack
        self._log.cut(after)
        self._commit_index.cut(after)
        self._registry.cut(after)
        self._log_store.cut(after)
        self._keep_strays(adrift)
