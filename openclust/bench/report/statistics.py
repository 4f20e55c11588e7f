"""Medians, percentiles and ratios of figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)


def percentile(ascending: Sequence[int], percent: float) -> int:
    """The smallest of the sorted samples that at least `percent` of them do not exceed."""
    rank = math.ceil(round(len(ascending) * percent / 100, 9))
    return ascending[max(rank, 1) - 1]


def latency_percentiles_ms(samples_ns: Iterable[int]) -> dict[str, float]:
    """p50 to p99.9 and the maximum; empty without samples."""
    ascending = sorted(samples_ns)
    if not ascending:
        return {}
    return {percentile_name(percent): percentile(ascending, percent) / 1e6 for percent in PERCENTILES}


def percentile_name(percent: float) -> str:
    return "max" if percent == 100 else f"p{percent:g}"


def median(values: Iterable[float | None]) -> float | None:
    """The median of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Ours over theirs; None if one is not known, or theirs is 0."""
    if ours is None or not theirs:
        return None
    return ours / theirs


class RatioRange(msgspec.Struct, frozen=True):
    """The median of `count` ratios, the least and the largest of them."""

    value: float
    least: float
    most: float
    count: int

    @property
    def spread(self) -> str:
        """`0.96 to 1.03`; empty for one ratio."""
        return f"{self.least:.2f} to {self.most:.2f}" if self.count > 1 else ""


Pair = tuple[float | None, float | None]
"""The same figure of two brokers, measured in the same round."""


def paired_ratio(starts: Sequence[Sequence[Pair]]) -> RatioRange | None:
    """The first of each pair over the second; None where no pair is known.

    `starts` has the pairs of each start's rounds. The ratio of a start is the median of its rounds' ratios. With more
    than one start these are what the median and the range are taken of, otherwise those of the rounds.
    """
    by_start = [[found for one, other in rounds if (found := ratio(one, other)) is not None] for rounds in starts]
    known = [found for found in by_start if found]
    if not known:
        return None
    values = [statistics.median(found) for found in known] if len(known) > 1 else known[0]
    return RatioRange(statistics.median(values), min(values), max(values), len(values))
