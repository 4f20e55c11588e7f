"""Who is subscribed to what, where and from when until when: the topics of every subscriber in each of its sessions."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from topology.simulate.clients.population import BLOCK, spread
from topology.simulate.input.chance import Purpose, draw_topic, uniform
from topology.simulate.input.workload import Subscribers, Workload


def clients_of(sessions: DataFrame) -> DataFrame:
    """One row for each client of each session: of ranges of any length, in blocks that all partitions share."""
    blocks = F.sequence(F.col("first"), F.col("last"), F.lit(BLOCK))
    ranges = spread(sessions.select("*", F.explode(blocks).alias("low")), "run", "grp", "low", "from_ms")
    clients = F.sequence(F.col("low"), F.least(F.col("low") + BLOCK - 1, F.col("last")))
    return ranges.select("run", "grp", F.explode(clients).alias("client"), "broker", "from_ms", "to_ms")


def subscriptions(sessions: DataFrame, workload: Workload) -> DataFrame:
    """The subscriptions of each session. A client draws its topics once, and keeps them at every broker."""
    lasting = sessions.where((F.col("grp") < len(workload.subscribers)) & (F.col("from_ms") < F.col("to_ms")))
    return clients_of(lasting).select(
        "run", "grp", "client", F.explode(_topics(workload)).alias("topic"), "broker", "from_ms", "to_ms"
    )


def _topics(workload: Workload) -> Column:
    """The topics of the client in this row, by its group."""
    found = [
        (F.col("grp") == number, _drawn(workload, number, subscribers))
        for number, subscribers in enumerate(workload.subscribers)
    ]
    none = F.array().cast("array<int>")
    return reduce(lambda rest, each: F.when(each[0], each[1]).otherwise(rest), reversed(found), none)


def _drawn(workload: Workload, number: int, subscribers: Subscribers) -> Column:
    base, count = workload.topic_base[subscribers.topics], workload.topics[subscribers.topics].count
    if subscribers.each >= count:
        return F.sequence(F.lit(base), F.lit(base + count - 1))
    each = [
        draw_topic(
            uniform(workload.seed, Purpose.INTEREST, number, F.col("client"), place),
            count,
            subscribers.popularity,
            subscribers.exponent,
        )
        + base
        for place in range(subscribers.each)
    ]
    return F.array_distinct(F.array(*each))
