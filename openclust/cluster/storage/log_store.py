"""The log's rows in this broker's store, and up to where the log is on this broker's disk."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from openclust.broker.journal.store_rows import Cut, Keep
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.cluster.protocol.log_entry import LogEntry
    from openclust.cluster.storage.checkpointing import Checkpointing
    from openclust.cluster.storage.store_writes import StoreWrites


class LogStore:
    """Call `keep`, `cut` and `restart` as the log changes, and `stored` when the disk has done something."""

    def __init__(self, writes: StoreWrites, checkpoints: Checkpointing) -> None:
        self._writes = writes
        self._checkpoints = checkpoints
        self.on_disk = Position()
        # The numbers of writes, and the end that the log has on disk after each.
        self._ends: deque[tuple[int, Position]] = deque()

    def keep(self, entry: LogEntry) -> None:
        """The log ends with this entry now."""
        self._writes.give(Keep(entry.kind, entry.position.epoch, entry.position.sequence, entry.body))
        self._checkpoints.kept(len(entry.body), entry)
        if self._writes.has_disk:
            self._ends.append((self._writes.given, entry.position))
        else:
            self.on_disk = entry.position

    def cut(self, end: Position) -> None:
        """The log was cut, and ends there now."""
        self._writes.give(Cut(end.sequence))
        self._end_at(end)

    def restart(self, end: Position) -> None:
        """A snapshot was installed: the store begins anew, and the log at `end`."""
        self._checkpoints.restart()
        self._end_at(end)

    def _end_at(self, end: Position) -> None:
        self._ends.clear()
        self._checkpoints.is_cut(end)
        if self._writes.has_disk:
            # The end may be ahead of the disk: then only when that write is done.
            self.on_disk = min(self.on_disk, end)
            self._ends.append((self._writes.given, end))
        else:
            self.on_disk = end

    def stored(self) -> bool:
        """More writes are on disk: whether more of the log is."""
        has_moved = False
        while self._ends and self._ends[0][0] <= self._writes.done:
            self.on_disk = self._ends.popleft()[1]
            has_moved = True
        return has_moved
