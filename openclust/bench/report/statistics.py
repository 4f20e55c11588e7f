"""Medians, percentiles and ratios of rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

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
    """The median of what is known, None when nothing is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """How many times theirs ours is; None where it means nothing."""
    if ours is None or not theirs:
        return None
    return ours / theirs
