"""The number of clients of each broker, bin by bin, and the work that clients cause without messages."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from topology.simulate.input.calibration import Calibration
from topology.simulate.input.layout import GridCell
from topology.simulate.input.timeline import Timeline
from topology.simulate.spark.rows import rows_of, schema_of
from topology.simulate.spark.schemas import JOBS, JobKind

PART_US = 1_000
"""Work that no message causes is split into parts of this length. Messages are handled between them."""

PARTS_MAX = 50
APART = 0.618
"""The offset, in parts, between the work of one broker and that of the next. Its multiples are spread evenly."""

_UPS = "run int, broker int, up_ms int, down_ms int"


def ups_of(spark: SparkSession, runs: Sequence[GridCell], timelines: Sequence[Timeline]) -> DataFrame:
    """The times at which each broker's process runs."""
    rows = [
        (run.number, *up) for run, timeline in zip(runs, timelines, strict=True) for up in timeline.ups if up[1] < up[2]
    ]
    return rows_of(spark, rows, _UPS)


def presence(sessions: DataFrame, brokers: DataFrame, ups: DataFrame, bins: int, bin_ms: int) -> DataFrame:
    """A row for each run, broker and bin in which the broker runs, also if nothing changes in it."""
    there = sessions.where("broker >= 0").withColumn("count", F.col("last") - F.col("first") + 1)
    came = F.struct((F.col("from_ms") / bin_ms).cast("int").alias("bin"), F.col("count").alias("by"))
    went = F.struct((F.col("to_ms") / bin_ms).cast("int").alias("bin"), (-F.col("count")).alias("by"))
    steps = there.select(
        "run",
        "broker",
        (F.col("from_ms") == F.col("to_ms")).alias("is_open"),
        F.explode(F.array(came, went)).alias("step"),
    )
    by, none = F.col("step.by"), F.lit(0)
    is_gain = F.col("step.by") > 0
    changes = steps.groupBy("run", "broker", F.col("step.bin").alias("bin")).agg(
        F.sum(by).alias("change"),
        F.sum(F.when(is_gain & ~F.col("is_open"), by).otherwise(none)).alias("attaches"),
        F.sum(F.when(is_gain & F.col("is_open"), by).otherwise(none)).alias("opens"),
    )
    grid = brokers.select("run", "broker", F.explode(F.sequence(F.lit(0), F.lit(bins - 1))).alias("bin"))
    until_now = (
        Window.partitionBy("run", "broker").orderBy("bin").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    known = grid.join(changes, ["run", "broker", "bin"], "left").fillna(0)
    counted = known.select(
        "run",
        "broker",
        "bin",
        F.sum("change").over(until_now).cast("int").alias("clients"),
        F.col("attaches").cast("int"),
        F.col("opens").cast("int"),
    )
    begins_ms = F.col("bin") * bin_ms
    is_up = (
        (F.col("there.run") == F.col("ups.run"))
        & (F.col("there.broker") == F.col("ups.broker"))
        & (begins_ms + bin_ms > F.col("up_ms"))
        & (begins_ms < F.col("down_ms"))
    )
    return counted.alias("there").join(F.broadcast(ups).alias("ups"), is_up, "left_semi")


def chores(presence: DataFrame, bin_ms: int, costs: Calibration) -> DataFrame:
    """JOBS of attaching, redirecting and heartbeats, spread evenly over their bin."""
    others = F.count("*").over(Window.partitionBy("run", "bin")) - 1
    a_second_us = F.col("clients") * costs.idle_us_per_s + costs.member_us_per_s + others * costs.peer_us_per_s
    work_us = F.col("attaches") * costs.attach_us + F.col("opens") * costs.open_us + a_second_us * bin_ms / 1000
    busy = presence.withColumn("work_us", work_us).where("work_us > 0")
    busy = busy.withColumn("parts", F.least(F.ceil(F.col("work_us") / PART_US), F.lit(PARTS_MAX)))
    parts = busy.select("*", F.explode(F.sequence(F.lit(0), F.col("parts") - 1)).alias("part"))
    # Brokers do not start at the same time: on shared cores they would wait for each other.
    place = (F.col("part") + F.col("broker") * APART % 1) / F.col("parts")
    at_us = F.col("bin").cast("long") * bin_ms * 1000 + F.floor(place * bin_ms * 1000)
    nothing = {"deliveries": 0, "topic": -1, "size": 0, "copies": 0, "batch_us": 0.0}
    return parts.select(
        "run",
        "broker",
        at_us.alias("at_us"),
        F.col("part").alias("publication"),
        F.lit(JobKind.CHORE).alias("kind"),
        # The measured cost includes all turns.
        F.greatest(F.col("work_us") / F.col("parts") - costs.turn_us, F.lit(0.0)).cast("float").alias("base_us"),
        F.lit(-1).alias("source"),
        "clients",
        at_us.alias("sent_us"),
        *(F.lit(value).alias(name) for name, value in nothing.items()),
    ).to(schema_of(JOBS))
