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
    """Entries of this log cannot be undone: only a snapshot brings it up to date."""


class LogJoin:
    """For a log that another broker feeds: that one is root, or was, and its entries replace those that differ here.

    `keep_strays` is given the messages that this broker took in as root, by entries that are undone.
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
        """The entries of the message that follow the end of this log; entries here that differ are undone first.

        None where all of them are here already, or some before them are missing. CannotRollBack where entries here
        differ, and cannot be undone.
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
                # The two logs part before the oldest entry that is kept here.
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
