"""Stage: how long deliveries took, from a publisher's send to a subscriber's receipt.

The `at_us` of a job is its arrival if its message waited nowhere before. The time that the message waited, at its
publisher's broker and at a root that passed it on, is added here to its latency, and not to its arrival at the next
broker. So under bursts the load of that next broker comes somewhat early.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from topology.simulate.queueing.buckets import BUCKETS_PER_DECADE
from topology.simulate.spark.schemas import JobKind

PUBLICATION_BITS = 40
"""So many bits of a message's number are its number within its run; the bits above are the run."""
MESSAGES_EVERYWHERE_MAX = 500_000
"""The waits of so many messages are sent to all partitions (40 MB). If there are more, Spark sorts both by message."""
POINTS = 4
"""The deliveries of a job are divided into so many parts by the time at which they are written."""


def latencies(
    worked: DataFrame, *, bin_ms: int, stack_us: float, audiences: Sequence[int] = (0,), messages: int | None = None
) -> DataFrame:
    """LATENCIES of messages to topics. `sent_us` in `worked` is the time at which the publisher sent a message.

    `audiences` are the first topics of all sets, in order. `bin`, of `bin_ms`, is that in which the message was sent;
    bins may be longer than the workload's. `messages` is the number of messages of all runs, if it is known.
    """
    kind = F.col("kind")
    held = _held(worked)
    if messages is not None and messages <= MESSAGES_EVERYWHERE_MAX:
        held = F.broadcast(held)
    of_topics = worked.where(kind.isin(JobKind.PUBLISHED, JobKind.RELAYED, JobKind.PASSED_ON, JobKind.FROM_ROOT))
    delivered = of_topics.where(F.col("deliveries") > 0).withColumn("message", _message())
    points = _points(delivered.join(held, "message", "left").withColumn("held_us", _held_before(kind)))
    took_us = F.col("written_us") - F.col("sent_us") + F.col("held_us") + stack_us
    return (
        points.select(
            "run",
            "broker",
            F.floor(F.col("sent_us") / (bin_ms * 1000)).cast("int").alias("bin"),
            _audience(audiences).alias("audience"),
            bucket_of(took_us).alias("bucket"),
            "part",
        )
        .groupBy("run", "broker", "bin", "audience", "bucket")
        .agg(F.sum("part").alias("deliveries"))
    )


def _message() -> Column:
    """One number for run and publication: with two columns Spark joins and sorts several times slower."""
    return F.shiftleft(F.col("run").cast("long"), PUBLICATION_BITS) + F.col("publication")


def _held(worked: DataFrame) -> DataFrame:
    """The time until the copies of each message left the publisher's broker, and a root that passed the message on."""
    kind, held_us = F.col("kind"), F.col("relayed_us") - F.col("at_us")
    holders = worked.where(kind.isin(JobKind.PUBLISHED, JobKind.PASSED_ON))
    return holders.groupBy(_message().alias("message")).agg(
        F.max(F.when(kind == JobKind.PUBLISHED, held_us)).alias("first_us"),
        F.max(F.when(kind == JobKind.PASSED_ON, held_us)).alias("root_us"),
    )


def _held_before(kind: Column) -> Column:
    """The time that other brokers held the message until the copy of this job left."""
    none = F.lit(0).cast("long")
    first, root = F.coalesce("first_us", none), F.coalesce("root_us", none)
    return F.when(kind == JobKind.PUBLISHED, none).when(kind == JobKind.FROM_ROOT, first + root).otherwise(first)


def _points(jobs: DataFrame) -> DataFrame:
    """The deliveries of each job in at most `POINTS` parts, with the mean time of each. The kth of n is at k / n."""
    count = F.col("deliveries")
    parts = F.least(count, F.lit(POINTS))
    points = F.array(*(F.array(*(F.lit(each) for each in range(1, some + 1))) for some in range(1, POINTS + 1)))
    cut = jobs.withColumn("parts", parts).withColumn("point", F.explode(points[parts - 1]))
    low = F.floor((F.col("point") - 1) * count.cast("long") / F.col("parts"))
    high = F.floor(F.col("point") * count.cast("long") / F.col("parts"))
    # One delivery of the part, another one for each message: over many messages all times occur.
    which = F.pmod(F.xxhash64("publication", "broker", "point"), high - low)
    place = (low + 1 + which) / count
    span_us = F.col("writes_to_us") - F.col("writes_from_us")
    return cut.select(
        "run",
        "broker",
        "topic",
        "sent_us",
        "held_us",
        (F.col("writes_from_us") + span_us * place).alias("written_us"),
        (high - low).alias("part"),
    )


def bucket_of(us: Column) -> Column:
    """As `buckets.bucket`."""
    return F.floor(F.log10(F.greatest(us, F.lit(1.0))) * BUCKETS_PER_DECADE).cast("int")


def _audience(firsts: Sequence[int]) -> Column:
    """The topic set of a topic, by the first topics of all sets."""
    number = F.lit(0)
    for place, first in enumerate(firsts):
        number = F.when(F.col("topic") >= first, place).otherwise(number)
    return number
