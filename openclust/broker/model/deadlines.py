"""Deadlines of queues and channels, for expiry and timeouts, in one heap."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Protocol

_SWEEP_MIN = 256


class DeadlineWaiter(Protocol):
    """Something with at most one deadline that counts; `deadline_ms` is 0 where it has none."""

    deadline_ms: int

    def on_deadline(self, now_ms: int) -> None: ...


class Deadlines:
    """A heap with lazy deletion: an entry counts only while `deadline_ms` of its waiter is the same."""

    __slots__ = ("_heap", "_order", "_sweep_at")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, DeadlineWaiter]] = []
        self._order = 0
        self._sweep_at = _SWEEP_MIN

    def __len__(self) -> int:
        return len(self._heap)

    def wake(self, waiter: DeadlineWaiter, at_ms: int) -> None:
        """Call `waiter.on_deadline` at `at_ms`, unless an earlier call is already due."""
        if waiter.deadline_ms and waiter.deadline_ms <= at_ms:
            return
        waiter.deadline_ms = at_ms
        self._order += 1
        heappush(self._heap, (at_ms, self._order, waiter))
        if len(self._heap) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """Drop entries that no longer count, which frees their waiters. Amortized over the calls of `wake`."""
        self._heap = [entry for entry in self._heap if entry[2].deadline_ms == entry[0]]
        heapify(self._heap)
        self._sweep_at = max(_SWEEP_MIN, 2 * len(self._heap))

    def next_ms(self) -> int:
        """The next deadline; 0 if there is none."""
        heap = self._heap
        while heap and heap[0][2].deadline_ms != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else 0

    def run(self, now_ms: int) -> None:
        """Call all waiters whose deadline has come. Each may ask for a new one."""
        while 0 < self.next_ms() <= now_ms:
            waiter = heappop(self._heap)[2]
            waiter.deadline_ms = 0
            waiter.on_deadline(now_ms)
