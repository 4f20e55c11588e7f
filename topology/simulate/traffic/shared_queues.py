"""Shared queues: every message goes to the root, from there to the backups, and to a consumer at any broker."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.simulate.clients.subscriptions import clients_of
from topology.simulate.input.brokers import between_us
from topology.simulate.input.calibration import Calibration
from topology.simulate.input.workload import Queues, Workload
from topology.simulate.spark.rows import rows_of, schema_of
from topology.simulate.spark.schemas import JOBS, JobKind
from topology.simulate.traffic.consumer_traffic import consumed
from topology.simulate.traffic.consumption import Consuming
from topology.simulate.traffic.jobs import KB, ways_us

_QUEUES = "queue int, consumer_grp int, place int, count int, consumers int, persistent boolean, replicated boolean"


class SharedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """One shared queue: its number, its place among the `count` of its kind, and its consumers' group."""

    number: int
    kind: Queues
    place: int
    consumer_group: int


def queues_of(workload: Workload) -> list[SharedQueue]:
    """All shared queues, in the order of their numbers."""
    consumers = [group.number for group in workload.groups if group.kind == "consumers"]
    pairs = [
        (kind, place, group)
        for kind, group in zip(workload.queues, consumers, strict=True)
        for place in range(kind.count)
    ]
    return [
        SharedQueue(number=number, kind=kind, place=place, consumer_group=group)
        for number, (kind, place, group) in enumerate(pairs)
    ]


def consuming_of(queues: Sequence[SharedQueue], hop_us: int) -> dict[int, Consuming]:
    """The consumers of each queue. The time between them and the root is part of their round trip."""
    return {
        each.number: Consuming(
            consumers=each.kind.consumers,
            work_us=round(each.kind.work_ms * 1000),
            round_trip_us=2 * (round(each.kind.latency_ms * 1000) + hop_us),
        )
        for each in queues
    }


def entered(published: DataFrame, periods: DataFrame, brokers: DataFrame) -> DataFrame:
    """Messages of shared queues. At `at_us` each is in its queue: it has reached the root, or there is a root again."""
    at_ms = (F.col("at_us") + F.col("link_us")) / 1000
    ours = published.where((F.col("topic") < 0) & (F.col("origin") >= 0)).alias("sent")
    is_then = (F.col("sent.run") == F.col("periods.run")) & (at_ms >= F.col("from_ms")) & (at_ms < F.col("to_ms"))
    known = ours.join(F.broadcast(periods).alias("periods"), is_then)
    facts = brokers.where("broker = 0").select("run", "brokers", "is_synchronous", "primaries", "latency_us")
    known = known.where("next_root >= 0").select("sent.*", F.col("next_root").alias("root"), "next_root_ms", "reach")
    known = known.join(F.broadcast(facts), "run")
    arrives = F.col("at_us") + F.col("link_us") + between_us(F.col("origin"), F.col("root"))
    return known.select(
        "run",
        (-1 - F.col("topic")).cast("int").alias("queue"),
        "publication",
        F.greatest(arrives, F.col("next_root_ms").cast("long") * 1000).cast("long").alias("at_us"),
        F.col("at_us").alias("sent_us"),
        "link_us",
        "size",
        "origin",
        "root",
        "reach",
        "brokers",
        "is_synchronous",
        "primaries",
        "latency_us",
    )


def taken(
    spark: SparkSession, entered: DataFrame, queues: Sequence[SharedQueue], sessions: DataFrame, hop_us: int
) -> DataFrame:
    """Adds when a consumer begins and ends its work on each message, and the consumer's `broker`.

    Consumers take turns. If it is the turn of one that is connected nowhere, a consumer at the root takes the message.
    """
    rows = [
        (
            each.number,
            each.consumer_group,
            each.place,
            each.kind.count,
            each.kind.consumers,
            each.kind.persistent,
            each.kind.replicate == "messages",
        )
        for each in queues
    ]
    worked = consumed(entered, consuming_of(queues, hop_us))
    known = worked.join(F.broadcast(rows_of(spark, rows, _QUEUES)), "queue")
    turn = (F.col("publication") % F.col("consumers")) * F.col("count") + F.col("place")
    known = known.withColumn("consumer", turn.cast("long"))
    groups = sorted({each.consumer_group for each in queues})
    lasting = sessions.where(F.col("grp").isin(groups) & (F.col("from_ms") < F.col("to_ms")) & (F.col("broker") >= 0))
    places = clients_of(lasting).alias("place")
    begun_ms = F.col("work.begun_us") / 1000
    is_there = (
        (F.col("work.run") == F.col("place.run"))
        & (F.col("work.consumer_grp") == F.col("place.grp"))
        & (F.col("work.consumer") == F.col("place.client"))
        & (begun_ms >= F.col("from_ms"))
        & (begun_ms < F.col("to_ms"))
    )
    joined = known.alias("work").join(places, is_there, "left")
    return joined.select("work.*", F.coalesce("place.broker", "root").alias("broker"))


def shared_jobs(taken: DataFrame, costs: Calibration) -> DataFrame:
    """JOBS of all brokers that have work with a message of a shared queue."""
    met = taken.select(
        "*", F.explode(_parts()).alias("part"), (F.col("broker") != F.col("root")).cast("int").alias("is_away")
    ).select("*", F.col("part.kind").alias("kind"), F.col("part.at").alias("here"))
    kb = F.col("size") / KB
    kind = F.col("kind")
    is_relayed = (F.col("origin") != F.col("root")).cast("int")
    backups = _backups()
    way_in, way_out = ways_us(costs)
    disk = F.when(F.col("persistent"), F.lit(costs.persist_us)).otherwise(0)
    all_do_all = F.col("is_synchronous")
    backup = F.when(all_do_all, way_in + costs.shared_us).otherwise(F.lit(costs.replicate_us)) + disk
    at_root = costs.shared_us + disk + F.size(backups) * costs.replicate_us + F.col("is_away") * way_out
    base_us = (
        F.when(kind == JobKind.PUBLISHED, costs.publish_us + kb * costs.publish_kb_us + is_relayed * way_out)
        .when(kind == JobKind.SHARED, at_root + is_relayed * way_in)
        .when(kind == JobKind.SHARED_BACKUP, backup)
        .otherwise(way_in)
    )
    at_us = (
        F.when(kind == JobKind.PUBLISHED, F.col("sent_us") + F.col("link_us"))
        .when(kind == JobKind.SHARED, F.col("at_us"))
        .when(kind == JobKind.SHARED_BACKUP, F.col("at_us") + between_us(F.col("root"), F.col("here")))
        .otherwise(F.col("begun_us") + between_us(F.col("root"), F.col("here")))
    )
    delivers = ((kind == JobKind.SHARED) & (F.col("is_away") == 0)) | (kind == JobKind.SHARED_DELIVERY)
    copies = F.when(kind == JobKind.PUBLISHED, is_relayed).when(
        kind == JobKind.SHARED, F.size(backups) + F.col("is_away")
    )
    source = (
        F.when(kind == JobKind.PUBLISHED, -1).when(kind == JobKind.SHARED, F.col("origin")).otherwise(F.col("root"))
    )
    return met.select(
        "run",
        F.col("here").alias("broker"),
        at_us.cast("long").alias("at_us"),
        "publication",
        "kind",
        base_us.cast("float").alias("base_us"),
        _batch_us(costs).cast("float").alias("batch_us"),
        delivers.cast("int").alias("deliveries"),
        (-1 - F.col("queue")).alias("topic"),
        "size",
        F.lit(0).alias("clients"),
        source.alias("source"),
        F.coalesce(copies, F.lit(0)).cast("int").alias("copies"),
        "sent_us",
    ).to(schema_of(JOBS))


def _backups() -> Column:
    """The brokers other than the root that hold a copy of the queue, and hear the root."""

    def has_copy(broker: Column) -> Column:
        reached = F.get("reach", F.col("root") * F.col("brokers") + broker)
        is_backup = F.element_at("primaries", (broker + 1).cast("int")) & F.col("replicated")
        return (broker != F.col("root")) & reached & (is_backup | (F.col("is_synchronous")))

    return F.filter(F.sequence(F.lit(0), F.col("brokers") - 1), has_copy)


def _parts() -> Column:
    """The parts of the work on a message, each with its broker."""

    def part(kind: int, at: Column) -> Column:
        return F.struct(F.lit(kind).alias("kind"), at.cast("int").alias("at"))

    always = F.array(part(JobKind.PUBLISHED, F.col("origin")), part(JobKind.SHARED, F.col("root")))
    backups = F.transform(_backups(), lambda each: part(JobKind.SHARED_BACKUP, each))
    away = F.when(F.col("broker") != F.col("root"), F.array(part(JobKind.SHARED_DELIVERY, F.col("broker")))).otherwise(
        F.array().cast("array<struct<kind:int,at:int>>")
    )
    return F.concat(always, backups, away)


def _batch_us(costs: Calibration) -> Column:
    """The costs that a broker has once for a whole batch of messages. A message is in two batches: when it comes, and
    when it is acknowledged.

    The confirm takes a turn of the publisher's broker, the acknowledgement one of the consumer's broker and one of the
    root. If these brokers are not the root, both also cross a link.
    """
    kind, copies = F.col("kind"), F.size(_backups())
    disk = F.when(F.col("persistent"), 2 * costs.persist_batch_us).otherwise(0)
    log = 2 * costs.replicate_batch_us
    away = (F.col("broker") != F.col("root")).cast("int")
    is_relayed = (F.col("origin") != F.col("root")).cast("int")
    confirmed = is_relayed * (costs.link_us + costs.turn_us) + costs.write_us
    acknowledged = costs.turn_us + (away + is_relayed) * costs.link_us
    return (
        F.when(kind == JobKind.PUBLISHED, confirmed)
        .when(kind == JobKind.SHARED, acknowledged + disk + copies * log)
        .when(kind == JobKind.SHARED_BACKUP, disk + log)
        .otherwise(costs.turn_us + costs.link_us)
    )
