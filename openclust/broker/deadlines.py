"""What must happen later: expiries and timeouts of queues and channels, in one heap."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol


class Waiter(Protocol):
    """Something with at most one deadline that counts; `deadline_ms` is 0 where it has none."""

    deadline_ms: int

    def on_deadline(self, now_ms: int) -> None: ...


class Deadlines:
    """A heap with lazy deletion: an entry counts only while its waiter still names the same moment."""

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiter]] = []
        self._order = 0

    def wake(self, waiter: Waiter, at_ms: int) -> None:
        """Call `waiter.on_deadline` at `at_ms`, unless an earlier call is already due."""
        if waiter.deadline_ms and waiter.deadline_ms <= at_ms:
            return
        waiter.deadline_ms = at_ms
        self._order += 1
        heappush(self._heap, (at_ms, self._order, waiter))

    def next_ms(self) -> int:
        """When `run` has work again; 0 for never."""
        heap = self._heap
        while heap and heap[0][2].deadline_ms != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else 0

    def run(self, now_ms: int) -> None:
        """Call all waiters whose moment has come; each may set itself a new one."""
        while 0 < self.next_ms() <= now_ms:
            waiter = heappop(self._heap)[2]
            waiter.deadline_ms = 0
            waiter.on_deadline(now_ms)
