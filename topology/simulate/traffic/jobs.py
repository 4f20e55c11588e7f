"""What each publication gives the brokers to do.

A row of SENT meets the ways from where it was published; from the subscribers at each broker follows which of these it
goes, and what each broker has to do for it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from topology.simulate.input.calibration import Calibration
from topology.simulate.spark.schemas import JobKind

KB = 1000.0


def jobs(sent: DataFrame, ways: DataFrame, calibration: Calibration) -> DataFrame:
    """JOBS, with `source`, the broker a message came from (-1: from its publisher), and `copies`, how many it sends on.

    `ways` are those of `relaying`.
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
    """How many of these have subscribers."""
    return F.size(F.filter(brokers, lambda broker: F.get("subscribers", broker) > 0))


def _anywhere() -> Column:
    """How many subscribers there are at any broker, where that matters: the last of the counts is of those nowhere."""
    every = F.aggregate("subscribers", F.lit(0), lambda total, each: total + each) - F.element_at("subscribers", -1)
    return F.when(F.col("is_replicated"), every).otherwise(0)


def _copies() -> Column:
    """The root gets one copy, for whatever reason."""
    to_root = (F.col("passed") > 0) & (F.get("subscribers", F.col("root")) == 0)
    return (
        F.when(F.col("kind") == JobKind.PUBLISHED, F.col("always") + F.col("direct") + to_root.cast("int"))
        .when(F.col("kind") == JobKind.PASSED_ON, F.col("passed"))
        .otherwise(0)
    )


def ways_us(costs: Calibration) -> tuple[Column, Column]:
    """What a message costs that comes from another broker, and one that goes to another."""
    kb_us = F.col("size") / KB * costs.relay_kb_us
    return costs.relay_in_us + kb_us, costs.relay_out_us + kb_us


def _base_us(costs: Calibration) -> Column:
    """All but deliveries and writes. Where queues are replicated, every broker enters the message in all of them."""
    from_another, to_another = ways_us(costs)
    from_client = costs.publish_us + F.col("size") / KB * costs.publish_kb_us
    way_in = F.when(F.col("kind") == JobKind.PUBLISHED, from_client).otherwise(from_another)
    others = F.when(F.col("is_replicated"), (F.col("anywhere") - F.col("wanted")) * costs.delivery_us).otherwise(0)
    return way_in + F.col("copies") * to_another + others
