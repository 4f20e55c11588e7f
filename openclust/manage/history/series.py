"""The numbers of one object over the last ten minutes: a ring of samples."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

SAMPLE_EVERY_MS = 5_000
SAMPLES_MAX = 120


class Series:
    """The last `SAMPLES_MAX` samples of a row of `width` numbers. One number takes eight bytes, no object."""

    __slots__ = ("_next", "_times_ms", "_values", "_width")

    def __init__(self, width: int) -> None:
        self._width = width
        self._times_ms = array("q", bytes(8 * SAMPLES_MAX))
        self._values = array("q", bytes(8 * SAMPLES_MAX * width))
        self._next = 0

    def add(self, at_ms: int, numbers: Sequence[int]) -> None:
        """A new sample; the oldest one goes."""
        assert len(numbers) == self._width, "all samples of a series are of the same numbers"
        at = self._next
        self._times_ms[at] = at_ms
        self._values[at * self._width : (at + 1) * self._width] = array("q", numbers)
        self._next = (at + 1) % SAMPLES_MAX

    def samples(self, column: int, times_ms: Sequence[int]) -> dict[int, int]:
        """The value of a column at each of these moments, the latest first: that of the last sample before it.

        Moments before the first sample are left out.
        """
        found: dict[int, int] = {}
        at, steps = self._next - 1, 0
        for time_ms in times_ms:
            while steps < SAMPLES_MAX and self._times_ms[at] > time_ms:
                at -= 1
                steps += 1
            if steps == SAMPLES_MAX or not self._times_ms[at]:
                break
            found[time_ms] = self._values[at % SAMPLES_MAX * self._width + column]
        return found
