"""The connections of a broker that got something and wait to be written, in line.

A place in the line is a number that only grows. Which connections a job gives something to is not known, only how many:
jobs of a topic give to the same ones, those of another topic are taken for independent of them. A connection has one
place however much is in its outbox. A job's connections are spread evenly over the places from `first` to `last`, which
are such that their mean is right.
"""

from __future__ import annotations

from math import ceil
from typing import Any, TypeAlias

import numpy as np

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

WRITES_A_TURN = 64
"""As `openclust.shell.net.outbox_flush.WRITES_AT_ONCE`."""
TOPICS_MAX = 10_000
"""So many topics are remembered before those whose connections are all written are forgotten."""


class WriteQueue:
    """`put` what a job delivers, `write` until the next comes, ask for `times` of what is written, then `forget`."""

    __slots__ = ("_ends", "_from_us", "_kb_us", "_last", "_starts", "_topics", "_write_us", "_writing_us", "written")

    def __init__(self, write_us: float) -> None:
        self._write_us = write_us
        self.written = 0.0
        """Places up to here are written."""
        self._last = 0.0
        self._kb_us = 0.0
        """What writing all that waits costs beside `write_us` for each."""
        self._topics: dict[float, tuple[float, float]] = {}
        # What was written at a stretch: places from and to, since when, how long for each.
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._from_us: list[float] = []
        self._writing_us: list[float] = []

    @property
    def is_empty(self) -> bool:
        return self._last == self.written

    def put(self, topic: float, count: float, clients: float, kb_us: float) -> tuple[float, float, float]:
        """Something for `count` of so many clients: between which places they are, and how many of these are new."""
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
        # Of those of this topic that do not wait because of it, some wait because of others.
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
        """At least one part, more until `next_us`; the time when it ends. Only while the line is not empty."""
        written = self.written
        count = self._last - written
        each_us = self._write_us + self._kb_us / count
        self._starts.append(written)
        self._from_us.append(now_us)
        self._writing_us.append(each_us)
        if count > WRITES_A_TURN:
            part_us = WRITES_A_TURN * each_us
            wait_us = next_us - now_us
            # More parts than there are is as good as all: `next_us` may be infinite.
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
        """When these places were written, all of which are."""
        if not len(first):
            return first, last
        starts, ends = np.array(self._starts), np.array(self._ends)
        from_us, each_us = np.array(self._from_us), np.array(self._writing_us)
        # A pause between two stretches is at one place: who begins there does so after it, who ends there before.
        begins = np.minimum(np.searchsorted(ends, first, "right"), len(ends) - 1)
        finishes = np.searchsorted(ends, last, "left")
        return (
            from_us[begins] + (first - starts[begins]) * each_us[begins],
            from_us[finishes] + (last - starts[finishes]) * each_us[finishes],
        )

    def forget(self, until: float) -> None:
        """Nobody will ask for the times of places before this one."""
        count = int(np.searchsorted(np.array(self._ends), until, "left"))
        for each in (self._starts, self._ends, self._from_us, self._writing_us):
            del each[:count]
