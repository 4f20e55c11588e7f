"""How much of what this root has taken in is not known to stay."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.model.memory_accounts import Books
    from openclust.cluster.protocol.status import Position


class Uncommitted:
    """`add` what goes into the log, and say what is `committed`. While the books have too much, publishers wait."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._batches: deque[tuple[Position, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, position: Position, size: int) -> None:
        self._batches.append((position, size))
        self._books.uncommitted_bytes += size

    def forget(self) -> None:
        """This broker is root no more: nobody here waits for any of it."""
        self._books.uncommitted_bytes -= sum(size for _, size in self._batches)
        self._batches.clear()

    def committed(self, position: Position) -> None:
        """All up to there stays."""
        batches = self._batches
        while batches and batches[0][0] <= position:
            self._books.uncommitted_bytes -= batches.popleft()[1]
