"""Stages: the ways of the messages that a trace follows, and the states of the brokers.

Equal messages share an id. Their events are paired by time: an event belongs to the last publish before it, and copies
arrive in the order in which they left.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from topology.simulate.queueing.buckets import BUCKETS_PER_DECADE
from topology.simulate.results.tally import DELIVERY_BYTES, PUBLISH_BYTES
from topology.simulate.trace.trace_schemas import OTHER_EVENTS


def deliveries(trace: DataFrame) -> DataFrame:
    """Returns DELIVERED: each delivery with its publish."""
    is_publish, is_delivery = F.col("event") == "publish", F.col("event") == "deliver"
    publish = F.when(is_publish, F.struct(F.col("at_us").alias("us"), "broker"))
    return (
        trace.where(is_publish | is_delivery)
        .withColumn("_of", _last_or_first(publish, ["id"]))
        .where(is_delivery)
        .select(
            "id",
            "broker",
            "queue",
            F.coalesce("count", F.lit(1)).alias("count"),
            _size(),
            "at_us",
            "written_us",
            F.col("_of.broker").alias("origin"),
            F.col("_of.us").alias("published_us"),
        )
    )


def queued(trace: DataFrame) -> DataFrame:
    """Returns QUEUED: each delivery of a shared queue with the time its message entered the queue."""
    is_entry, is_delivery = F.col("event") == "enqueue", F.col("event") == "deliver"
    entry = F.when(is_entry, F.struct(F.col("at_us").alias("us")))
    return (
        trace.where((is_entry | is_delivery) & F.col("queue").isNotNull())
        .withColumn("_of", _last_or_first(entry, ["id", "queue"]))
        .where(is_delivery)
        .select("id", "queue", "broker", "at_us", F.col("_of.us").alias("entered_us"))
    )


def _last_or_first(of: Column, by: list[str]) -> Column:
    """The last value until this row's time. If clocks differ there may be none: then the first value of all.

    The window that holds all rows has no order: Spark would search an ordered one anew for each row, and one message
    may have thousands of rows.
    """
    same = Window.partitionBy(*by)
    before = same.orderBy("at_us", of.isNull()).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return F.coalesce(F.last(of, ignorenulls=True).over(before), F.min(of).over(same))


def crossings(trace: DataFrame) -> DataFrame:
    """Returns CROSSED: each copy with the times at which it left and arrived."""
    keys = ["id", "sender", "receiver", "lane", "turn"]
    order = Window.partitionBy("id", "broker", "peer", "lane", "event").orderBy("at_us")
    numbered = trace.where(F.col("event").isin("relay", "relayed-in")).withColumn("turn", F.row_number().over(order))
    ways = ("id", "lane", "turn", _size())
    sent = numbered.where(F.col("event") == "relay").select(
        *ways, F.col("broker").alias("sender"), F.col("peer").alias("receiver"), F.col("at_us").alias("left_us")
    )
    came = numbered.where(F.col("event") == "relayed-in").select(
        *ways[:3], F.col("peer").alias("sender"), F.col("broker").alias("receiver"), F.col("at_us").alias("came_us")
    )
    return sent.join(came, keys, "full").select(
        "id", "sender", "receiver", "lane", F.coalesce("size", F.lit(0)).alias("size"), "left_us", "came_us"
    )


def links(crossed: DataFrame, began_us: int, span_us: int) -> DataFrame:
    """By sender and receiver: `copies` and `bytes` that left, `bytes_max` of a span, the `fastest_us` way.

    If one of the two brokers has no trace, the trace of the other counts for both.
    """
    size = F.col("size").cast("long") + PUBLISH_BYTES
    us = F.coalesce("left_us", "came_us")
    by_span = (
        crossed.withColumn("at_us", us)
        .groupBy("sender", "receiver", _span(began_us, span_us))
        .agg(
            F.count("*").alias("copies"),
            F.sum(size).alias("bytes"),
            F.min(F.col("came_us") - F.col("left_us")).alias("fastest_us"),
        )
    )
    return by_span.groupBy("sender", "receiver").agg(
        F.sum("copies").alias("copies"),
        F.sum("bytes").alias("bytes"),
        F.max("bytes").alias("bytes_max"),
        F.min("fastest_us").alias("fastest_us"),
    )


def latencies(delivered: DataFrame) -> DataFrame:
    """Deliveries to private queues by their time from publish until written: `bucket`, `deliveries`.

    If clocks differ by more than this time, it counts as 0.
    """
    took_us = F.coalesce("written_us", "at_us") - F.col("published_us")
    bucket = F.floor(F.log10(F.greatest(took_us, F.lit(1)).cast("double")) * BUCKETS_PER_DECADE).cast("int")
    private = delivered.where(F.col("queue").isNull() & F.col("published_us").isNotNull())
    return private.groupBy(bucket.alias("bucket")).agg(F.sum("count").cast("long").alias("deliveries"))


def flow(trace: DataFrame, began_us: int, span_us: int) -> DataFrame:
    """Returns FLOW: the traffic of each broker, by span."""
    event, size = F.col("event"), F.coalesce("size", F.lit(0)).cast("long")
    count = F.coalesce("count", F.lit(1)).cast("long")
    in_bytes = F.when(event.isin("publish", "relayed-in"), size + PUBLISH_BYTES)
    out_bytes = F.when(event == "relay", size + PUBLISH_BYTES).when(event == "deliver", count * (size + DELIVERY_BYTES))
    delivery = event == "deliver"
    sums = {
        "published": _one(event == "publish"),
        "deliveries": F.when(delivery, count),
        "private": F.when(delivery & F.col("queue").isNull(), count),
        "copies_in": _one(event == "relayed-in"),
        "copies_out": _one(event == "relay"),
        "dropped": _one(event == "drop"),
        "in_bytes": in_bytes,
        "out_bytes": out_bytes,
    }
    zero = F.lit(0).cast("long")
    held_us = F.max(F.when(delivery, F.col("written_us") - F.col("at_us")))
    return (
        trace.where(event.isin("publish", "relay", "relayed-in", "drop", "deliver"))
        .groupBy("broker", _span(began_us, span_us))
        .agg(
            *(F.coalesce(F.sum(each), zero).alias(name) for name, each in sums.items()),
            F.coalesce(held_us, zero).alias("held_us"),
        )
    )


def health(trace: DataFrame, began_us: int, span_us: int) -> DataFrame:
    """Returns HEALTH: clients and CPU of each broker, by span."""
    order = Window.partitionBy("broker").orderBy("at_us")
    told = trace.where(F.col("event") == "status")
    cpu_us, before_us = F.col("cpu_us"), F.lag("cpu_us").over(order)
    # A new process has used no CPU before its first line; but the first process may be older than the trace.
    used_us = F.when(before_us.isNull(), F.lit(0)).when(cpu_us < before_us, cpu_us).otherwise(cpu_us - before_us)
    more = F.greatest(F.col("clients") - F.coalesce(F.lag("clients").over(order), F.lit(0)), F.lit(0))
    return (
        told.withColumn("used_us", used_us)
        .withColumn("more", more)
        .groupBy("broker", _span(began_us, span_us))
        .agg(
            F.max_by("clients", "at_us").alias("clients"),
            F.max("clients").alias("clients_max"),
            F.sum("more").cast("int").alias("attaches"),
            F.sum("used_us").alias("cpu_us"),
            F.max("memory_bytes").alias("memory_bytes"),
        )
    )


def lives(trace: DataFrame) -> DataFrame:
    """Returns LIVES, from the lines that each broker writes on itself every second."""
    told = trace.where(F.col("event").isin(*OTHER_EVENTS))
    return (
        _by_life(told)
        .groupBy("broker", "life")
        .agg(
            F.min("at_us").alias("began_us"),
            F.max("at_us").alias("last_us"),
            F.max("role").alias("role"),
            F.max("why").alias("why"),
            F.max_by("clients", F.when(F.col("event") == "status", F.col("at_us"))).alias("clients"),
            F.max("published").alias("published"),
            F.coalesce(F.sum(F.when(F.col("event") == "lost", F.col("count").cast("long"))), F.lit(0)).alias("lost"),
            F.max("memory_bytes").alias("memory_bytes"),
        )
    )


def _by_life(trace: DataFrame) -> DataFrame:
    """The lines of one process in order. These are few enough to sort all lines of a broker in one place."""
    order = Window.partitionBy("broker").orderBy("at_us", F.col("event") != "begin")
    return trace.withColumn("life", F.sum(_one(F.col("event") == "begin")).over(order))


def sample_size(trace: DataFrame) -> DataFrame:
    """One row: the number of followed publishes, and the sum of the squares of the counts of each id."""
    times = trace.where(F.col("event") == "publish").groupBy("id").agg(F.count("*").alias("times"))
    return times.agg(
        F.coalesce(F.sum("times"), F.lit(0)).alias("publishes"),
        F.coalesce(F.sum(F.col("times") * F.col("times")), F.lit(0)).alias("squares"),
    )


def roots(trace: DataFrame) -> DataFrame:
    """Returns ROOTS, without the time before a process has its first root: it has only begun then."""
    told = _by_life(trace.where(F.col("event").isin("begin", "status")))
    life = Window.partitionBy("broker", "life").orderBy("at_us")
    had_one = F.max(F.when(F.col("root") != "", F.lit(1))).over(life)
    before = F.lag("root").over(life)
    return (
        told.where(F.col("event") == "status")
        .withColumn("had_one", had_one)
        .withColumn("before", F.when(F.lag("had_one").over(life).isNotNull(), before))
        .where(F.col("had_one").isNotNull() & (F.col("before").isNull() | (F.col("before") != F.col("root"))))
        .select("broker", "at_us", "root", "before")
    )


def queue_totals(trace: DataFrame, waits: DataFrame) -> DataFrame:
    """By shared queue: `entered`, `consumed`, the most that waited, and the median and the p99 of the waiting times."""
    step = F.when(F.col("event") == "enqueue", 1).when(F.col("event") == "deliver", -1)
    moves = trace.where(step.isNotNull() & F.col("queue").isNotNull()).withColumn("step", step)
    order = Window.partitionBy("queue").orderBy("at_us", F.desc("step")).rowsBetween(Window.unboundedPreceding, 0)
    totals = (
        moves.withColumn("waiting", F.sum("step").over(order))
        .groupBy("queue")
        .agg(
            F.sum(_one(F.col("step") > 0)).alias("entered"),
            F.sum(_one(F.col("step") < 0)).alias("consumed"),
            F.greatest(F.max("waiting"), F.lit(0)).alias("backlog_max"),
        )
    )
    waited_us = F.greatest(F.col("at_us") - F.col("entered_us"), F.lit(0))
    took = waits.groupBy("queue").agg(
        F.percentile_approx(waited_us, 0.5).alias("p50_us"), F.percentile_approx(waited_us, 0.99).alias("p99_us")
    )
    return totals.join(took, "queue", "left")


def _one(condition: Column) -> Column:
    return F.when(condition, F.lit(1).cast("long")).otherwise(F.lit(0).cast("long"))


def _size() -> Column:
    return F.coalesce("size", F.lit(0)).alias("size")


def _span(began_us: int, span_us: int) -> Column:
    return F.floor((F.col("at_us") - began_us) / span_us).cast("int").alias("span")
