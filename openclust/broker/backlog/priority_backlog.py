"""A backlog by priority."""

from __future__ import annotations

from collections.abc import Iterator

from openclust.broker.backlog.backlog import Entry, FifoBacklog


class PriorityBacklog:
    """A FIFO for each priority in use, the highest first. Priorities above `max_priority` count as `max_priority`.

    Each priority has a head that can expire; in RabbitMQ an expired entry waits behind any of a higher priority.
    """

    __slots__ = ("_levels", "_live", "_max_priority", "_used")

    def __init__(self, max_priority: int) -> None:
        assert 0 <= max_priority <= 255
        self._max_priority = max_priority
        self._live = 0
        self._levels: dict[int, FifoBacklog] | None = None
        # Bit n is set while level n has entries: the highest and the lowest are found without a search.
        self._used = 0

    def __len__(self) -> int:
        return self._live

    def __iter__(self) -> Iterator[Entry]:
        return (entry for fifo in self._in_order() for entry in fifo)

    def push(self, entry: Entry, key: str | None = None) -> Entry | None:
        self._level_for(entry).push(entry)
        self._live += 1
        return None

    def put_back(self, entry: Entry) -> bool:
        if entry.gone:
            return False
        self._level_for(entry).put_back(entry)
        self._live += 1
        return True

    def settle(self, entry: Entry) -> None:
        return None

    def peek(self) -> Entry | None:
        if not self._used or self._levels is None:
            return None
        return self._levels[self._used.bit_length() - 1].peek()

    def pop(self) -> Entry | None:
        if not self._used or self._levels is None:
            return None
        level = self._used.bit_length() - 1
        fifo = self._levels[level]
        entry = fifo.pop()
        self._live -= 1
        if not fifo:
            self._drop_level(level)
        return entry

    def drop_head(self) -> Entry | None:
        # As RabbitMQ: the head in delivery order goes, so a high priority makes way for a low one.
        entry = self.pop()
        if entry is not None:
            entry.gone = True
        return entry

    def remove(self, entry: Entry) -> None:
        level = min(entry.priority, self._max_priority)
        fifo = (self._levels or {})[level]
        fifo.remove(entry)
        self._live -= 1
        if not fifo:
            self._drop_level(level)

    def find(self, seq: int) -> Entry | None:
        return next((found for fifo in self._in_order() if (found := fifo.find(seq)) is not None), None)

    def pop_expired(self, now_ms: int, limit: int = 1_000) -> list[Entry]:
        expired: list[Entry] = []
        for fifo in self._in_order():
            while len(expired) < limit:
                head = fifo.peek()
                if head is None or not 0 < head.expires_ms <= now_ms:
                    break
                expired.append(head)
                self.remove(head)
        return expired

    def next_expiry_ms(self) -> int:
        return min((head.expires_ms for head in self.heads() if head.expires_ms), default=0)

    def heads(self) -> list[Entry]:
        return [head for fifo in self._in_order() if (head := fifo.peek()) is not None]

    def clear(self) -> list[Entry]:
        cleared = [entry for fifo in self._in_order() for entry in fifo.clear()]
        self._live = self._used = 0
        self._levels = None
        return cleared

    def _in_order(self) -> list[FifoBacklog]:
        levels = self._levels or {}
        return [levels[level] for level in sorted(levels, reverse=True)]

    def _level_for(self, entry: Entry) -> FifoBacklog:
        level = min(entry.priority, self._max_priority)
        if self._levels is None:
            self._levels = {}
        fifo = self._levels.get(level)
        if fifo is None:
            fifo = self._levels[level] = FifoBacklog()
            self._used |= 1 << level
        return fifo

    def _drop_level(self, level: int) -> None:
        assert self._levels is not None
        del self._levels[level]
        self._used &= ~(1 << level)
        if not self._levels:
            self._levels = None
