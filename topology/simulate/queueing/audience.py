"""The last part of a delivery's way, from broker to subscriber: a topic set has one for each group of subscribers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from topology.simulate.input.chance import share_of
from topology.simulate.input.workload import ClientGroup, Workload
from topology.simulate.queueing.buckets import bucket, edge

JITTER_POINTS = 8


class LatencyShare(msgspec.Struct, frozen=True, kw_only=True):
    """A latency, and the part of a topic set's deliveries that have this latency."""

    us: float
    share: float


def ways_of(workload: Workload) -> list[list[LatencyShare]]:
    """For each topic set, by the number of its first topic: the latencies between its subscribers and their brokers."""
    return [_ways(workload, name) for name in sorted(workload.topics, key=workload.topic_base.__getitem__)]


def _ways(workload: Workload, topics: str) -> list[LatencyShare]:
    weights: dict[ClientGroup, float] = {}
    count = workload.topics[topics].count
    published = [
        sum(
            each.rate * each.count * share_of(topic, count, each.popularity, each.exponent)
            for each in workload.publishers
            if each.topics == topics
        )
        for topic in range(count)
    ]
    for group, each in zip(workload.groups, workload.subscribers, strict=False):
        if each.topics == topics:
            wanted = (share_of(topic, count, each.popularity, each.exponent) for topic in range(count))
            # A client draws `each` topics, so that it has this one at least once.
            weight = sum(rate * (1 - (1 - share) ** each.each) for rate, share in zip(published, wanted, strict=True))
            weights[group] = weight * each.count
    total = sum(weights.values())
    return [
        LatencyShare(us=us, share=weight / total / len(points))
        for group, weight in weights.items()
        if total
        for points in (_points(group),)
        for us in points
    ]


def _points(group: ClientGroup) -> list[float]:
    if not group.jitter_us:
        return [group.latency_us]
    return [group.latency_us + group.jitter_us * (number + 0.5) / JITTER_POINTS for number in range(JITTER_POINTS)]


def on_their_ways(counts: Mapping[tuple[int, int], int], ways: list[list[LatencyShare]]) -> dict[int, int]:
    """Takes deliveries by audience and bucket, adds the ways to the subscribers, and returns deliveries by bucket."""
    found: dict[int, int] = {}
    for (audience, number), count in counts.items():
        begun, told = 0.0, 0
        for way, later in _moved(number, tuple(ways[audience])) or [(1.0, number)]:
            begun += way * count
            part = round(begun) - told
            told += part
            found[later] = found.get(later, 0) + part
        if told != count:
            found[number] = found.get(number, 0) + count - told
    return {number: count for number, count in sorted(found.items()) if count}


@cache
def _moved(number: int, ways: tuple[LatencyShare, ...]) -> list[tuple[float, int]]:
    middle = (edge(number) * edge(number + 1)) ** 0.5
    return [(way.share, bucket(middle + way.us)) for way in ways]
