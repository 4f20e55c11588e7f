"""How many bytes of messages this root has taken in that are not committed yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.model.memory_accounts import MemoryAccounts
    from openclust.cluster.protocol.status import Position


class Uncommitted:
    """Call `add` for each batch that is appended, `committed` when more is. With too many bytes, publishers wait."""

    def __init__(self, accounts: MemoryAccounts) -> None:
        self._accounts = accounts
        self._batches: deque[tuple[Position, int]] = deque()

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, position: Position, size: int) -> None:
        self._batches.append((position, size))
        self._accounts.uncommitted_bytes += size

    def forget(self) -> None:
        """This broker is root no more: no publisher here waits for the batches."""
        self._accounts.uncommitted_bytes -= sum(size for _, size in self._batches)
        self._batches.clear()

    def committed(self, position: Position) -> None:
        """All batches up to this position are committed."""
        batches = self._batches
        while batches and batches[0][0] <= position:
            self._accounts.uncommitted_bytes -= batches.popleft()[1]
