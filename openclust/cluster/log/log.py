"""The log: what happened in which order, as far back as it is kept."""

from __future__ import annotations

from collections.abc import Sequence

from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.status import Position

ENTRIES_MAX = 100_000
BYTES_MAX = 67_108_864
ENDS_MAX = 32
"""Of so many epochs it is known where they ended."""


class Log:
    """The newest entries, bounded in number and in bytes of their bodies: the oldest are dropped.

    `last` is the position of the newest, `base` the one before the oldest that is kept. Whoever is at `base` or later
    can be given what it lacks (`tail`); whoever is not needs a snapshot, and goes on from there (`restart`).
    """

    __slots__ = ("_bytes", "_bytes_max", "_ended", "_entries", "_entries_max", "_first", "base", "last")

    def __init__(self, *, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self.base = Position()
        self.last = Position()
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        # Dropped entries before `_first` stay as None until half of the list is: dropping one costs no copy of all.
        self._entries: list[LogEntry | None] = []
        self._first = 0
        self._bytes = 0
        # Where epochs ended, the newest last; also of those whose entries are not kept any more.
        self._ended: list[Position] = []

    def __len__(self) -> int:
        return len(self._entries) - self._first

    @property
    def held_bytes(self) -> int:
        """The bodies of all kept entries."""
        return self._bytes

    def is_next(self, position: Position) -> bool:
        """Whether an entry with it follows the last one."""
        return position.sequence == self.last.sequence + 1 and position.epoch >= self.last.epoch

    def append(self, entry: LogEntry) -> None:
        """Add the entry that follows: the next sequence, in the same epoch or a later one."""
        position = entry.position
        assert position.sequence == self.last.sequence + 1, f"{position} does not follow {self.last}"
        assert position.epoch >= self.last.epoch, f"{position} is of an epoch before {self.last}"
        if position.epoch != self.last.epoch and self.last != Position():
            self._ended.append(self.last)
            del self._ended[:-ENDS_MAX]
        self._entries.append(entry)
        self._bytes += len(entry.body)
        self.last = position
        while self._bytes > self._bytes_max or len(self) > self._entries_max:
            self._drop_oldest()

    def tail(self, after: Position, at_most: int | None = None) -> list[LogEntry] | None:
        """The entries that follow `after`, or the first so many of them; None where `after` is not here.

        It is here where its sequence is, in the same epoch: whoever is there has all that came before.
        """
        index = self._first + after.sequence - self.base.sequence
        if after != self.base:
            if not self._first < index <= len(self._entries):
                return None
            entry = self._entries[index - 1]
            if entry is None or entry.position != after:
                return None
        end = None if at_most is None else index + at_most
        return [entry for entry in self._entries[index:end] if entry is not None]

    def cut(self, after: Position) -> bool:
        """Drop all entries behind that one; False where it is not here."""
        if self.tail(after, 0) is None:
            return False
        size = self._first + after.sequence - self.base.sequence
        self._bytes -= sum(len(entry.body) for entry in self._entries[size:] if entry is not None)
        del self._entries[size:]
        self.last = after
        while self._ended and self._ended[-1] >= after:
            self._ended.pop()
        return True

    def ends(self) -> list[Position]:
        """The last places of the newest epochs, the newest first."""
        return [self.last, *reversed(self._ended)]

    def common(self, ends: Sequence[Position]) -> Position:
        """The newest place that this log and one with these `ends` share, as far as is known.

        One epoch's entries are one root's: up to where both logs have some of them, they are the same.
        """
        here = {position.epoch: position for position in self._ended}
        here[self.last.epoch] = self.last
        for position in ends:
            if position.epoch in here:
                return min(position, here[position.epoch])
        return Position()

    def restart(self, at: Position) -> None:
        """Forget all: a snapshot taken at `at` has taken its place, and the next entry follows that."""
        self.base = self.last = at
        self._ended.clear()
        self._entries.clear()
        self._first = 0
        self._bytes = 0

    def _drop_oldest(self) -> None:
        entry = self._entries[self._first]
        assert entry is not None, "only what lies before the first is dropped"
        self._entries[self._first] = None
        self._first += 1
        self._bytes -= len(entry.body)
        self.base = entry.position
        if self._first * 2 > len(self._entries):
            del self._entries[: self._first]
            self._first = 0
