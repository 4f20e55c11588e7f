"""Latencies by the bucket: `BUCKETS_PER_DECADE` of them for each factor of ten, from 1 us. Each is 6 % wide."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log, log10, pow

BUCKETS_PER_DECADE = 40

_RATIO = pow(10, 1 / BUCKETS_PER_DECADE)
_MEAN = (_RATIO - 1) / log(_RATIO)
"""The mean latency of a bucket divided by its lower edge, if its latencies are even on a logarithmic axis."""


def bucket(us: float) -> int:
    """The bucket of a latency. The first bucket also has all below 1 us."""
    return max(0, floor(BUCKETS_PER_DECADE * log10(us))) if us > 1 else 0


def edge(bucket: int) -> float:
    """The lower edge of a bucket in microseconds: also the upper edge of the bucket before."""
    return pow(10, bucket / BUCKETS_PER_DECADE)


def percentile(counts: Mapping[int, int], q: float) -> float:
    """The latency in microseconds that the part `q` of the deliveries did not exceed. 0 if there are no deliveries."""
    total = sum(counts.values())
    before = 0
    for number in sorted(counts):
        if counts[number] and before + counts[number] >= q * total:
            within = max(0.0, q * total - before) / counts[number]
            return edge(number) * pow(_RATIO, within)
        before += counts[number]
    return 0.0


def mean(counts: Mapping[int, int]) -> float:
    """The mean latency in microseconds; 0 if there are no deliveries."""
    total = sum(counts.values())
    return sum(edge(number) * _MEAN * count for number, count in counts.items()) / total if total else 0.0


def longest(counts: Mapping[int, int]) -> float:
    """The longest latency in microseconds; 0 if there are no deliveries."""
    there = [number for number, count in counts.items() if count]
    return edge(max(there) + 1) if there else 0.0
