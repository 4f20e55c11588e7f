"""Latencies by the bucket: `BUCKETS_PER_DECADE` of them for each factor of ten, from 1 us. Each is 6 % wide."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log, log10, pow

BUCKETS_PER_DECADE = 40

_RATIO = pow(10, 1 / BUCKETS_PER_DECADE)
_MEAN = (_RATIO - 1) / log(_RATIO)
"""Of a bucket's latencies, as a part of its lower edge, where they are as the logarithm has them: evenly."""


def bucket(us: float) -> int:
    """What takes less than 1 us is in the first."""
    return max(0, floor(BUCKETS_PER_DECADE * log10(us))) if us > 1 else 0


def edge(bucket: int) -> float:
    """Where it begins, in microseconds, and the one before it ends."""
    return pow(10, bucket / BUCKETS_PER_DECADE)


def percentile(counts: Mapping[int, int], q: float) -> float:
    """In microseconds, of deliveries by bucket: `q` of 1 took no longer. 0 where there are none."""
    total = sum(counts.values())
    before = 0
    for number in sorted(counts):
        if counts[number] and before + counts[number] >= q * total:
            within = max(0.0, q * total - before) / counts[number]
            return edge(number) * pow(_RATIO, within)
        before += counts[number]
    return 0.0


def mean(counts: Mapping[int, int]) -> float:
    """In microseconds; 0 where there are none."""
    total = sum(counts.values())
    return sum(edge(number) * _MEAN * count for number, count in counts.items()) / total if total else 0.0


def longest(counts: Mapping[int, int]) -> float:
    """In microseconds: nothing took longer. 0 where there are none."""
    there = [number for number, count in counts.items() if count]
    return edge(max(there) + 1) if there else 0.0
