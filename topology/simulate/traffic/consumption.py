"""One shared queue: messages in order, and consumers that are busy with one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapreplace
from typing import NamedTuple


class Consuming(NamedTuple):
    """The consumers of a queue. Each works on a message for `work_us`, and gets the next one `round_trip_us` later."""

    consumers: int
    work_us: int
    round_trip_us: int = 0


class Consumed(NamedTuple):
    """Columns, a row for each message: the work on it began, the work ended, and how many others waited as it came."""

    begun_us: list[int]
    done_us: list[int]
    waiting: list[int]


class Consumption:
    """One queue. Give `take` the sorted times at which messages come, in chunks of any size."""

    def __init__(self, consuming: Consuming) -> None:
        if consuming.consumers < 1:
            raise ValueError("a queue without a consumer is never worked off")
        self._work_us, self._round_trip_us = consuming.work_us, consuming.round_trip_us
        self._free_us = [0] * consuming.consumers
        """A heap of times: each consumer is ready for its next message then."""
        self._to_begin: deque[int] = deque()
        """The times at which the work on the waiting messages will begin."""

    def take(self, at_us: Sequence[int]) -> Consumed:
        free, to_begin = self._free_us, self._to_begin
        work_us = self._work_us
        busy_us = work_us + self._round_trip_us
        consumed = Consumed([], [], [])
        begun_us, done_us, waiting = consumed
        for at in at_us:
            while to_begin and to_begin[0] <= at:
                to_begin.popleft()
            waiting.append(len(to_begin))
            begun = free[0]
            if begun > at:
                to_begin.append(begun)
            else:
                begun = at
            heapreplace(free, begun + busy_us)
            begun_us.append(begun)
            done_us.append(begun + work_us)
        return consumed
