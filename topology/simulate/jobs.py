"""What each publication gives the brokers to do: the relay rules of each design.

A row of SENT meets every broker of its run once; from the subscribers at each, from who is root and from who reaches
whom follows what that broker has to do for it, if anything, and from whom it gets the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.simulate.calibration import Calibration
from topology.simulate.layout import Run
from topology.simulate.schemas import JobKind

NOBODY = -1
_BROKERS = (
    "run int, broker int, brokers int, is_replicated boolean, is_synchronous boolean, agreed_us int, "
    "is_primary boolean, primaries array<boolean>, latency_us array<int>"
)
KB = 1000.0


def brokers_of(spark: SparkSession, runs: Sequence[Run]) -> DataFrame:
    """A row for each broker of each run, with what it has to know of the others. `latency_us` has a row for each.

    `is_replicated`: every broker gets every message. In virtual synchrony (`is_synchronous`) nobody begins with one
    before all are agreed on the order: `agreed_us`, there and back between the two that are farthest.
    """
    rows = [
        (
            run.number,
            broker,
            len(run.layout.sites),
            run.layout.design in ("active-passive", "virtual-synchrony"),
            run.layout.design == "virtual-synchrony",
            2 * max(max(row) for row in run.layout.latency_us) if run.layout.design == "virtual-synchrony" else 0,
            site.is_primary,
            [each.is_primary for each in run.layout.sites],
            [each for row in run.layout.latency_us for each in row],
        )
        for run in runs
        for broker, site in enumerate(run.layout.sites)
    ]
    return spark.createDataFrame(rows, _BROKERS)


def jobs(sent: DataFrame, periods: DataFrame, brokers: DataFrame, count: int, calibration: Calibration) -> DataFrame:
    """JOBS, with `source`, the broker a message came from (-1: from its publisher), and `copies`, how many it sends on.

    `count` is the number of brokers of the largest layout.
    """
    at_ms = F.col("at_us") / 1000
    is_then = (F.col("sent.run") == F.col("periods.run")) & (at_ms >= F.col("from_ms")) & (at_ms < F.col("to_ms"))
    known = sent.alias("sent").join(F.broadcast(periods).alias("periods"), is_then)
    known = known.select("sent.*", "root", "reach")
    facts = F.broadcast(brokers.where("broker = 0").drop("broker", "is_primary"))
    counted = _counted(known.join(facts, "run"), count)
    each = F.explode(F.sequence(F.lit(0), F.col("brokers") - 1))
    met = counted.select("*", each.alias("broker")).withColumn("wanted", F.get("subscribers", F.col("broker")))
    told = met.withColumn("kind", _kind())
    done = told.where(F.col("kind") >= 0)
    done = done.withColumn("source", _source()).withColumn("copies", _copies())
    return done.select(
        "run",
        "broker",
        _arrival().cast("long").alias("at_us"),
        "publication",
        "kind",
        _base_us(calibration).cast("float").alias("base_us"),
        _deliveries().alias("deliveries"),
        "topic",
        "size",
        F.lit(0).alias("clients"),
        "source",
        "copies",
        F.col("at_us").alias("sent_us"),
        "link_us",
        _batch_us(calibration).cast("float").alias("batch_us"),
    )


def _any(columns: Sequence[Column]) -> Column:
    return reduce(lambda a, b: a + b, columns)


def _reaches(a: Column, b: Column) -> Column:
    return F.coalesce(F.get("reach", a * F.col("brokers") + b), F.lit(False))


def _is_primary(broker: Column) -> Column:
    return F.coalesce(F.get("primaries", broker), F.lit(False))


def _is_direct(broker: Column) -> Column:
    """Whether the publisher's broker itself sends it there, for the subscribers there."""
    origin = F.col("origin")
    links = _is_primary(origin) | _is_primary(broker)
    wanted = F.coalesce(F.get("subscribers", broker), F.lit(0)) > 0
    return (broker < F.col("brokers")) & (broker != origin) & wanted & links & _reaches(origin, broker)


def _is_passed_on(broker: Column) -> Column:
    """Whether it goes there through the root: from a secondary to a secondary."""
    origin, root = F.col("origin"), F.col("root")
    wanted = F.coalesce(F.get("subscribers", broker), F.lit(0)) > 0
    secondaries = ~_is_primary(origin) & ~_is_primary(broker)
    way = (root >= 0) & _reaches(origin, root) & _reaches(root, broker)
    return (broker < F.col("brokers")) & (broker != origin) & wanted & secondaries & way


def _counted(known: DataFrame, count: int) -> DataFrame:
    """With how many brokers get it directly, how many through the root, and how many subscribers there are anywhere."""
    every = [F.lit(number) for number in range(count)]
    reached = _any([((each < F.col("brokers")) & _reaches(F.col("origin"), each)).cast("int") for each in every])
    return known.select(
        "*",
        _any([_is_direct(each).cast("int") for each in every]).alias("direct"),
        _any([_is_passed_on(each).cast("int") for each in every]).alias("passed"),
        _any([F.coalesce(F.get("subscribers", each), F.lit(0)) for each in every]).alias("anywhere"),
        reached.alias("members"),
    )


def _kind() -> Column:
    broker, origin, root = F.col("broker"), F.col("origin"), F.col("root")
    is_root_between = (broker == root) & (F.col("passed") > 0)
    openclust = (
        F.when(broker == origin, JobKind.PUBLISHED)
        .when(is_root_between, JobKind.PASSED_ON)
        .when(_is_direct(broker), JobKind.RELAYED)
        .when(_is_passed_on(broker), JobKind.FROM_ROOT)
        .otherwise(NOBODY)
    )
    replicated = (
        F.when(broker == origin, JobKind.PUBLISHED).when(_reaches(origin, broker), JobKind.RELAYED).otherwise(NOBODY)
    )
    return F.when(F.col("is_replicated"), replicated).otherwise(openclust)


def _source() -> Column:
    return (
        F.when(F.col("kind") == JobKind.PUBLISHED, NOBODY)
        .when(F.col("kind") == JobKind.FROM_ROOT, F.col("root"))
        .otherwise(F.col("origin"))
    )


def _copies() -> Column:
    """The root gets one copy, for whatever reason."""
    to_root = (F.col("passed") > 0) & ~_is_direct(F.col("root"))
    own = F.col("direct") + to_root.cast("int")
    return (
        F.when(F.col("is_replicated"), F.when(F.col("kind") == JobKind.PUBLISHED, F.col("members") - 1).otherwise(0))
        .when(F.col("kind") == JobKind.PUBLISHED, own)
        .when(F.col("kind") == JobKind.PASSED_ON, F.col("passed"))
        .otherwise(0)
    )


def ways_us(costs: Calibration) -> tuple[Column, Column]:
    """What a message costs that comes from another broker, and one that goes to another."""
    kb_us = F.col("size") / KB * costs.relay_kb_us
    return costs.relay_in_us + kb_us, costs.relay_out_us + kb_us


def between_us(a: Column, b: Column) -> Column:
    """From one broker to another."""
    return F.get("latency_us", a * F.col("brokers") + b)


def _arrival() -> Column:
    """When it is there, if it waited nowhere."""
    origin, root, broker = F.col("origin"), F.col("root"), F.col("broker")
    at_us = F.col("at_us") + F.col("link_us")
    way = (
        F.when(F.col("kind") == JobKind.PUBLISHED, F.lit(0))
        .when(F.col("kind") == JobKind.FROM_ROOT, between_us(origin, root) + between_us(root, broker))
        .otherwise(between_us(origin, broker))
    )
    return at_us + F.col("agreed_us") + way


def _deliveries() -> Column:
    return F.col("wanted")


def _base_us(costs: Calibration) -> Column:
    """All but deliveries and writes. Where queues are replicated, every broker enters the message in all of them."""
    from_another, to_another = ways_us(costs)
    from_client = costs.publish_us + F.col("size") / KB * costs.publish_kb_us
    way_in = F.when(F.col("kind") == JobKind.PUBLISHED, from_client).otherwise(from_another)
    ways_out = F.col("copies") * to_another
    others = (F.col("anywhere") - F.col("wanted")) * costs.delivery_us
    return way_in + ways_out + F.when(F.col("is_replicated"), others).otherwise(0)


def _batch_us(costs: Calibration) -> Column:
    """What comes by the batch: giving copies to the links."""
    return F.col("copies") * costs.link_us
