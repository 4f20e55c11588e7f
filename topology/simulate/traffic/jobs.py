"""The jobs of the brokers for each publication.

Each row of SENT is joined with the ways from the broker where the message was published. The number of subscribers at
each broker tells which of these ways the message takes, and what each broker has to do for it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from topology.simulate.input.calibration import Calibration
from topology.simulate.spark.schemas import JobKind

KB = 1000.0


def jobs(sent: DataFrame, ways: DataFrame, calibration: Calibration) -> DataFrame:
    """Returns JOBS with two more columns: `source`, the broker that sent the message here (-1: its publisher), and
    `copies`, the number of brokers to which this one sends it on.

    `ways` come from `relaying`.
    """
    at_ms = F.col("at_us") / 1000
    is_then = (
        (F.col("sent.run") == F.col("ways.run"))
        & (F.col("sent.origin") == F.col("ways.origin"))
        & (at_ms >= F.col("from_ms"))
        & (at_ms < F.col("to_ms"))
    )
    known = sent.alias("sent").join(F.broadcast(ways).alias("ways"), is_then)
    counted = known.select(
        "sent.*",
        "root",
        "is_replicated",
        "always",
        "ways",
        _wanting("direct").alias("direct"),
        _wanting("passed").alias("passed"),
        _anywhere().alias("anywhere"),
    )
    met = counted.select("*", F.explode("ways").alias("way")).select(
        "*", "way.*", F.get("subscribers", F.col("way.to")).alias("wanted")
    )
    is_root_between = (F.col("to") == F.col("root")) & (F.col("passed") > 0)
    going = met.where(F.col("is_always") | (F.col("wanted") > 0) | is_root_between)
    going = going.withColumn("kind", F.when(is_root_between, JobKind.PASSED_ON).otherwise(F.col("kind")))
    done = going.withColumn("copies", _copies())
    return done.select(
        "run",
        F.col("to").alias("broker"),
        (F.col("at_us") + F.col("link_us") + F.col("way_us")).cast("long").alias("at_us"),
        "publication",
        "kind",
        _base_us(calibration).cast("float").alias("base_us"),
        F.col("wanted").alias("deliveries"),
        "topic",
        "size",
        F.lit(0).alias("clients"),
        "source",
        "copies",
        F.col("at_us").alias("sent_us"),
        (F.col("copies") * calibration.link_us).cast("float").alias("batch_us"),
    )


def _wanting(brokers: str) -> Column:
    """The number of these brokers that have subscribers."""
    return F.size(F.filter(brokers, lambda broker: F.get("subscribers", broker) > 0))


def _anywhere() -> Column:
    """The number of subscribers at all brokers together. The last count is left out: those are connected nowhere."""
    every = F.aggregate("subscribers", F.lit(0), lambda total, each: total + each) - F.element_at("subscribers", -1)
    return F.when(F.col("is_replicated"), every).otherwise(0)


def _copies() -> Column:
    """The number of copies that leave a broker. The root gets one, however many reasons there are to send it one."""
    to_root = (F.col("passed") > 0) & (F.get("subscribers", F.col("root")) == 0)
    return (
        F.when(F.col("kind") == JobKind.PUBLISHED, F.col("always") + F.col("direct") + to_root.cast("int"))
        .when(F.col("kind") == JobKind.PASSED_ON, F.col("passed"))
        .otherwise(0)
    )


def ways_us(costs: Calibration) -> tuple[Column, Column]:
    """The cost of a message that comes from another broker, and of a message that goes to another."""
    kb_us = F.col("size") / KB * costs.relay_kb_us
    return costs.relay_in_us + kb_us, costs.relay_out_us + kb_us


def _base_us(costs: Calibration) -> Column:
    """The cost of a job without deliveries and writes. Where queues are replicated, all brokers enter all messages."""
    from_another, to_another = ways_us(costs)
    from_client = costs.publish_us + F.col("size") / KB * costs.publish_kb_us
    way_in = F.when(F.col("kind") == JobKind.PUBLISHED, from_client).otherwise(from_another)
    others = F.when(F.col("is_replicated"), (F.col("anywhere") - F.col("wanted")) * costs.delivery_us).otherwise(0)
    return way_in + F.col("copies") * to_another + others
