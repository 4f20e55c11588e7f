"""Tallies: the few rows that a summary is made of, counted in Spark from many rows, and then brought to the driver."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from topology.simulate.input.brokers import between_us
from topology.simulate.queueing.latency import bucket_of
from topology.simulate.spark.schemas import JobKind

SPANS_MAX = 600
"""The greatest number of spans in the timeline of a run."""

SPANS_MAX_OF_MANY = 100
MANY_RUNS = 4

DELIVERY_BYTES = 90
"""The bytes of a delivery without its body: three frames, consumer tag, exchange, routing key, few properties."""

PUBLISH_BYTES = 70


class Tallies(NamedTuple):
    """Every frame has a column `run`; `span` counts spans of `span_ms` from 0."""

    span_ms: int
    spans: int
    published: pd.DataFrame
    """publications, unsent"""
    wanted: pd.DataFrame
    """span, expected, nowhere"""
    traffic: pd.DataFrame
    """broker, source, span, messages, deliveries, delivered, copies, in_bytes, out_bytes"""
    load: pd.DataFrame
    """broker, span, busy_us, backlog_us"""
    presence: pd.DataFrame
    """broker, span, clients, attaches"""
    latencies: pd.DataFrame
    """audience, bucket, deliveries: without the subscribers' links"""
    gaps: pd.DataFrame
    """from_ms, to_ms, clients: so many clients had lost their broker, and were connected nowhere in this time"""
    queues: pd.DataFrame | None = None
    """queue, bucket, messages, waiting: by the time until the consumer was done; bucket -1 means never"""


def span_of(duration_ms: int, bin_ms: int, runs: int) -> int:
    """The length of a span: whole bins, and not too many spans."""
    most = SPANS_MAX if runs <= MANY_RUNS else SPANS_MAX_OF_MANY
    bins = -(-duration_ms // bin_ms)
    return bin_ms * -(-bins // most)


def count_published(published: DataFrame) -> DataFrame:
    """Messages to topics by run."""
    ours = published.where("topic >= 0")
    is_unsent = (F.col("origin") < 0).cast("long")
    return ours.groupBy("run").agg(F.count("*").alias("publications"), F.sum(is_unsent).alias("unsent"))


def count_wanted(sent: DataFrame, brokers: int, span_ms: int) -> DataFrame:
    """The deliveries that were due, by span, and those of them to clients that were connected nowhere."""
    places = [F.coalesce(F.get("subscribers", F.lit(place)), F.lit(0)) for place in range(brokers + 1)]
    everybody = sum(places[1:], places[0])
    return sent.groupBy("run", _span(F.col("at_us"), span_ms)).agg(
        F.sum(everybody).alias("expected"), F.sum(F.col("subscribers")[brokers]).alias("nowhere")
    )


def count_traffic(jobs: DataFrame, span_ms: int) -> DataFrame:
    """The traffic into and out of each broker, by its source. `delivered` counts topics, without shared queues."""
    is_shared = F.col("kind").isin(JobKind.SHARED, JobKind.SHARED_BACKUP, JobKind.SHARED_DELIVERY)
    body = F.col("size").cast("long")
    in_bytes = F.when(F.col("source") == F.col("broker"), 0).otherwise(body + PUBLISH_BYTES)
    out_bytes = F.col("deliveries") * (body + DELIVERY_BYTES) + F.col("copies") * (body + PUBLISH_BYTES)
    return (
        jobs.where(F.col("kind") != JobKind.CHORE)
        .groupBy("run", "broker", "source", _span(F.col("sent_us"), span_ms))
        .agg(
            F.count("*").alias("messages"),
            F.sum("deliveries").alias("deliveries"),
            F.sum(F.when(is_shared, 0).otherwise(F.col("deliveries"))).alias("delivered"),
            F.sum("copies").alias("copies"),
            F.sum(in_bytes).alias("in_bytes"),
            F.sum(out_bytes).alias("out_bytes"),
        )
    )


def count_load(load: DataFrame, bin_ms: int, span_ms: int) -> DataFrame:
    """The load of each broker, by span."""
    span = F.floor(F.col("bin") * bin_ms / span_ms).cast("int").alias("span")
    # Bins come in any order, and a sum of fractions depends on their order.
    busy_us = (F.sum(F.rint(F.col("busy_us") * 1000).cast("long")) / 1000).alias("busy_us")
    return load.groupBy("run", "broker", span).agg(busy_us, F.max("backlog_us").alias("backlog_us"))


def count_presence(presence: DataFrame, bin_ms: int, span_ms: int) -> DataFrame:
    """The clients of each broker at the end of each span."""
    span = F.floor(F.col("bin") * bin_ms / span_ms).cast("int").alias("span")
    return presence.groupBy("run", "broker", span).agg(
        F.max_by("clients", "bin").alias("clients"), F.sum("attaches").alias("attaches")
    )


def count_gaps(attached: DataFrame, subscriber_groups: int) -> DataFrame:
    """The clients that lost their broker, and the time until they had one again."""
    lost = attached.where((F.col("broker") < 0) & (F.col("grp") < subscriber_groups))
    count = F.sum(F.col("last") - F.col("first") + 1).alias("clients")
    return lost.groupBy("run", "from_ms", "to_ms").agg(count)


def count_latencies(latencies: DataFrame) -> DataFrame:
    return latencies.groupBy("run", "audience", "bucket").agg(F.sum("deliveries").alias("deliveries"))


def count_queues(taken: DataFrame, worked: DataFrame, end_us: int, stack_us: float) -> DataFrame:
    """Messages by the time from a producer's send until a consumer was done; bucket -1 if it was not done by the end.

    The time that brokers on the way held a message (`worked`) is added here: the simulated queue only knows the order
    of its messages, and the consumers that are free.
    """
    kind, since = F.col("kind"), F.col("at_us")
    is_sent_on = F.col("copies") > 0
    held_us = (
        # A message that is published at the root is entered in the same turn.
        F.when((kind == JobKind.PUBLISHED) & is_sent_on, F.col("relayed_us") - since)
        .when((kind == JobKind.SHARED) & (F.col("deliveries") == 0), F.col("relayed_us") - since)
        .when(kind.isin(JobKind.SHARED, JobKind.SHARED_DELIVERY), F.col("writes_to_us") - since)
        .otherwise(0)
    )
    ours = worked.where(F.col("topic") < 0).groupBy("run", "publication").agg(F.sum(held_us).alias("held_us"))
    away_us = between_us(F.col("root"), F.col("broker"))
    done_us = F.col("done_us") + F.coalesce("held_us", F.lit(0)) + away_us + stack_us
    bucket = F.when(done_us <= end_us, bucket_of(done_us - F.col("sent_us"))).otherwise(-1)
    return (
        taken.join(ours, ["run", "publication"], "left")
        .groupBy("run", "queue", bucket.alias("bucket"))
        .agg(F.count("*").alias("messages"), F.max("waiting").alias("waiting"))
    )


def _span(at_us: Column, span_ms: int) -> Column:
    return F.floor(at_us / (span_ms * 1000)).cast("int").alias("span")


def frame_of(rows: DataFrame) -> pd.DataFrame:
    """The rows on the driver, sorted by all columns."""
    frame: Any = rows.toPandas()
    keys = ["run", "span", "broker", "source", "queue", "audience", "bucket", "from_ms", "to_ms"]
    ordered: pd.DataFrame = frame.sort_values([key for key in keys if key in frame], ignore_index=True)
    return ordered
