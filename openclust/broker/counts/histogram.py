"""Counts how often values fall between bounds, as a Prometheus histogram shows them."""

from __future__ import annotations

from bisect import bisect_left


class Histogram:
    """`counts` has one number for each bound, of values up to it and above the bound before, and one for larger values.

    One thread adds, and others may read: a reader may see a value in `counts` that is not in `sum` yet.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum: float = 0

    def add(self, value: float, count: int = 1) -> None:
        """Count a value so many times."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count
