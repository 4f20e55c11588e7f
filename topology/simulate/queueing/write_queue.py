"""The queue of a broker's connections that have something to be written.

A place in the queue is a number that only grows. The connections that get deliveries of a job are not known, only their
number: jobs of one topic deliver to the same connections, jobs of other topics to connections that are independent of
these. A connection has one place, however much is in its outbox. The connections of a job are spread evenly over the
places from `first` to `last`; these two are chosen so that the mean place is right.
"""

from __future__ import annotations

from math import ceil
from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

WRITES_A_TURN = 64
"""As `openclust.shell.net.outbox_flush.WRITES_AT_ONCE`."""
TOPICS_MAX = 10_000
"""When there are more topics, those with all connections written are forgotten."""


class WriteQueue:
    """`put` a job's deliveries, `write` until the next job comes, ask for `times` of written places, then `forget`."""

    __slots__ = ("_ends", "_from_us", "_kb_us", "_last", "_starts", "_topics", "_write_us", "_writing_us", "written")

    def __init__(self, write_us: float) -> None:
        self._write_us = write_us
        self.written = 0.0
        """Places up to here are written."""
        self._last = 0.0
        self._kb_us = 0.0
        """The cost of writing all waiting bytes, beside `write_us` for each connection."""
        self._topics: dict[float, tuple[float, float]] = {}
        # Places written without a pause: the first, the one after the last, the time of the first, the time for each.
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._from_us: list[float] = []
        self._writing_us: list[float] = []

    @property
    def is_empty(self) -> bool:
        return self._last == self.written

    def put(self, topic: float, count: float, clients: float, kb_us: float) -> tuple[float, float, float]:
        """Adds deliveries for `count` of all clients. Returns the first and last place, and the number of new ones."""
        written, end = self.written, self._last
        self._kb_us += kb_us
        if clients < count:
            clients = count
        old, old_mean = 0.0, 0.0
        known = self._topics.get(topic)
        if known is not None and known[1] > written:
            first, last = known
            if first >= written:
                return first, last, 0.0
            old, old_mean = count * (last - written) / (last - first), (written + last) / 2
        # Some connections of this topic have a place already, because of deliveries of other topics.
        other = count - old
        waiting = end - written - old
        share = waiting / (clients - old) if waiting > 0 else 0.0
        met = other * share if share < 1 else other
        new = other - met
        mean = (old * old_mean + met * (written + end) / 2 + new * (end + new / 2)) / count
        self._last = end = end + new
        first = 2 * mean - end
        if first < written:
            first = written
        self._topics[topic] = first, end
        if len(self._topics) > TOPICS_MAX:
            self._topics = {each: place for each, place in self._topics.items() if place[1] > written}
        return first, end, new

    def write(self, now_us: float, next_us: float) -> float:
        """Writes one part, and more parts until `next_us`; returns the end. The queue must not be empty."""
        written = self.written
        count = self._last - written
        each_us = self._write_us + self._kb_us / count
        self._starts.append(written)
        self._from_us.append(now_us)
        self._writing_us.append(each_us)
        if count > WRITES_A_TURN:
            part_us = WRITES_A_TURN * each_us
            wait_us = next_us - now_us
            # All parts at most: `next_us` may be infinite.
            parts = ceil(wait_us / part_us) if part_us < wait_us < count * each_us else 1 + (wait_us > part_us) * count
            some = WRITES_A_TURN * parts
            if some < count:
                self._kb_us -= some * self._kb_us / count
                self.written = written = written + some
                self._ends.append(written)
                return now_us + some * each_us
        self._kb_us = 0.0
        self.written = self._last
        self._topics.clear()
        self._ends.append(self._last)
        return now_us + count * each_us

    def times(self, first: Floats, last: Floats) -> tuple[Floats, Floats]:
        """The times at which these places were written. All of them must be written."""
        if not len(first):
            return first, last
        starts, ends = np.array(self._starts), np.array(self._ends)
        from_us, each_us = np.array(self._from_us), np.array(self._writing_us)
        # A pause is at one place. Places that begin there begin after the pause, those that end there end before it.
        begins = np.minimum(np.searchsorted(ends, first, "right"), len(ends) - 1)
        finishes = np.searchsorted(ends, last, "left")
        return (
            from_us[begins] + (first - starts[begins]) * each_us[begins],
            from_us[finishes] + (last - starts[finishes]) * each_us[finishes],
        )

    def forget(self, until: float) -> None:
        """The caller will not ask for times of places before this one."""
        count = int(np.searchsorted(np.array(self._ends), until, "left"))
        for each in (self._starts, self._ends, self._from_us, self._writing_us):
            del each[:count]
