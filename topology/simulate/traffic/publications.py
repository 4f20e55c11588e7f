"""The messages that are published: when, by which client and under which topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.simulate.input.chance import Purpose, below, draw_topic, link_us, uniform
from topology.simulate.input.workload import Arrivals, ClientGroup, Popularity, Workload
from topology.simulate.spark.rows import rows_of
from topology.simulate.spark.schemas import PUBLICATIONS


class PublicationStream(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one group of clients. `queue` is -1, or the first of the `count` shared queues that get them."""

    group: ClientGroup
    rate: float
    burst: int
    arrivals: Arrivals
    size: int
    topic: int
    count: int
    popularity: Popularity = "uniform"
    exponent: float = 1.0
    queue: int = -1


def streams(workload: Workload) -> Iterator[PublicationStream]:
    """The streams of all groups that publish."""
    groups = iter(each for each in workload.groups if each.kind in ("publishers", "producers"))
    for each in workload.publishers:
        yield PublicationStream(
            group=next(groups),
            rate=each.rate,
            burst=each.burst,
            arrivals=each.arrivals,
            size=each.size,
            topic=workload.topic_base[each.topics],
            count=workload.topics[each.topics].count,
            popularity=each.popularity,
            exponent=each.exponent,
        )
    number = 0
    for queues in workload.queues:
        yield PublicationStream(
            group=next(groups),
            rate=queues.rate,
            burst=queues.burst,
            arrivals=queues.arrivals,
            size=queues.size,
            topic=0,
            count=queues.count,
            queue=number,
        )
        number += queues.count


def publications(spark: SparkSession, workload: Workload, rates: Sequence[float]) -> DataFrame:
    """Every message at every rate, whether or not its publisher is connected at that time."""
    empty = rows_of(spark, [], PUBLICATIONS)
    found = empty
    for pace, rate in enumerate(rates):
        base = 0
        for stream in streams(workload):
            count = message_count(stream, workload, rate)
            if count:
                found = found.unionByName(_messages(spark, stream, workload, pace, rate, base, count).to(empty.schema))
            base += count
    return found


def messages_of(workload: Workload, rate: float) -> int:
    """The number of messages of all groups."""
    return sum(message_count(each, workload, rate) for each in streams(workload))


def message_count(stream: PublicationStream, workload: Workload, rate: float) -> int:
    """The number of messages of a group. If the gaps between messages are random, their number is random too."""
    bursts = stream.group.count * stream.rate * rate * workload.duration_s / stream.burst
    if stream.arrivals == "poisson":
        chance = np.random.default_rng([workload.seed, stream.group.number, round(rate * 1_000_000)])
        return int(chance.poisson(bursts)) * stream.burst
    return _each(stream, workload, rate) * stream.group.count * stream.burst


def _each(stream: PublicationStream, workload: Workload, rate: float) -> int:
    """The number of bursts of each client, if its bursts come evenly."""
    return int(stream.rate * rate * workload.duration_s / stream.burst)


def _messages(
    spark: SparkSession, stream: PublicationStream, workload: Workload, pace: int, rate: float, base: int, count: int
) -> DataFrame:
    group, seed = stream.group, workload.seed
    number = F.col("id")
    burst = F.floor(number / stream.burst) if stream.burst > 1 else number
    duration_us = workload.duration_ms * 1000
    if stream.arrivals == "poisson":
        client = below(uniform(seed, Purpose.CLIENT, group.number, pace, burst), group.count)
        at_us = below(uniform(seed, Purpose.TIME, group.number, pace, burst), duration_us)
    else:
        each = _each(stream, workload, rate)
        client = F.floor(burst / each)
        gap_us = 1e6 * stream.burst / (stream.rate * rate)
        phase = uniform(seed, Purpose.PHASE, group.number, client)
        at_us = F.least(F.floor((burst % each + phase) * gap_us), F.lit(duration_us - 1))
    drawn = uniform(seed, Purpose.TOPIC, group.number, pace, number)
    return spark.range(count).select(
        F.lit(pace).alias("pace"),
        (number + base).alias("publication"),
        F.lit(group.number).alias("grp"),
        client.alias("client"),
        _topic(stream, client, drawn).alias("topic"),
        at_us.alias("at_us"),
        link_us(seed, group, client).alias("link_us"),
        F.lit(stream.size).alias("size"),
    )


def _topic(stream: PublicationStream, client: Column, drawn: Column) -> Column:
    if stream.queue < 0:
        return draw_topic(drawn, stream.count, stream.popularity, stream.exponent) + stream.topic
    # A producer publishes to one queue only.
    return (-1 - stream.queue - client % stream.count).cast("int")
