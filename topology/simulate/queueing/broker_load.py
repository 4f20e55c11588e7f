"""Stage: how busy each broker was in each bin, and how long jobs had to wait."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_NS = 1000
"""Costs are added as whole nanoseconds: a sum of fractions would depend on the order of its parts."""


def load(worked: DataFrame, bin_ms: int) -> DataFrame:
    """`run int, broker int, bin int, busy_us double, backlog_us long, jobs long, deliveries long`.

    A job counts in the bin in which it begins. `backlog_us` is the longest wait of a job that begins in the bin. The
    cost of a job is spread evenly over the time from its begin to the last of its writes.
    """
    spans = _spans(worked, bin_ms * 1000)
    none = F.lit(0).cast("long")
    is_first = F.col("is_first")
    by_bin = spans.groupBy("run", "broker", "bin").agg(
        F.sum("part_ns").alias("part_ns"),
        F.sum("change_ns").alias("change_ns"),
        F.max(F.when(is_first, F.col("wait_us")).otherwise(none)).alias("backlog_us"),
        F.sum(F.when(is_first, 1).otherwise(none)).alias("jobs"),
        F.sum(F.when(is_first, F.col("deliveries")).otherwise(none)).alias("deliveries"),
    )
    found = _filled(by_bin).select(
        "run",
        "broker",
        F.col("bin").cast("int").alias("bin"),
        ((F.col("part_ns") + F.col("whole_ns")) / _NS).alias("busy_us"),
        "backlog_us",
        "jobs",
        "deliveries",
    )
    return found.where((F.col("busy_us") > 0) | (F.col("jobs") > 0))


def _spans(worked: DataFrame, bin_us: int) -> DataFrame:
    """The cost of each job in its first and its last bin, `part_ns`; and `change_ns`, the change of the cost from one
    of the whole bins between them to the next. So a job has three rows at most, however long it lasts."""
    begun = F.col("begun_us")
    to = F.greatest("begun_us", "writes_to_us")
    known = worked.select(
        "run",
        "broker",
        "begun_us",
        "deliveries",
        (begun - F.col("at_us")).alias("wait_us"),
        F.greatest(to - begun, F.lit(1)).alias("lasts_us"),
        F.rint(F.col("cost_us").cast("double") * _NS).cast("long").alias("cost_ns"),
        F.floor(begun / bin_us).alias("first"),
        F.floor(to / bin_us).alias("last"),
    )
    first, last, cost_ns = F.col("first"), F.col("last"), F.col("cost_ns")

    def during(us: Column) -> Column:
        return F.floor(cost_ns * (us / F.col("lasts_us")))

    none = F.lit(0).cast("long")
    first_ns = during((first + 1) * bin_us - begun)
    whole_ns = F.when(last - first > 1, during(F.lit(bin_us))).otherwise(none)
    split = known.withColumn("first_ns", first_ns).withColumn("whole_ns", whole_ns)
    # The last bin has the rest, so that nothing is lost by rounding.
    last_ns = cost_ns - F.col("first_ns") - F.col("whole_ns") * (last - first - 1)
    many = F.array(
        _row(first, F.col("first_ns"), none, is_first=True),
        _row(first + 1, none, F.col("whole_ns"), is_first=False),
        _row(last, last_ns, -F.col("whole_ns"), is_first=False),
    )
    one = F.array(_row(first, cost_ns, none, is_first=True))
    rows = F.explode(F.when(first == last, one).otherwise(many)).alias("row")
    return split.select("run", "broker", "deliveries", "wait_us", rows).select(
        "run", "broker", "deliveries", "wait_us", "row.*"
    )


def _row(bin_: Column, part_ns: Column, change_ns: Column, *, is_first: bool) -> Column:
    return F.struct(
        bin_.alias("bin"), part_ns.alias("part_ns"), change_ns.alias("change_ns"), F.lit(is_first).alias("is_first")
    )


def _filled(by_bin: DataFrame) -> DataFrame:
    """Adds `whole_ns`, the cost of jobs that last through the whole bin, and the bins that have no other cost."""
    in_order = Window.partitionBy("run", "broker").orderBy("bin")
    until_now = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    changes = by_bin.select(
        "*",
        F.sum("change_ns").over(until_now).alias("whole_ns"),
        F.lead("bin").over(in_order).alias("next"),
    ).withColumnRenamed("bin", "begin")
    end = F.when(F.col("whole_ns") > 0, F.col("next") - 1).otherwise(F.col("begin"))
    each = changes.select("*", F.explode(F.sequence(F.col("begin"), end)).alias("bin"))
    is_own = F.col("bin") == F.col("begin")
    counted = ("part_ns", "backlog_us", "jobs", "deliveries")
    own = [F.when(is_own, F.col(name)).otherwise(F.lit(0).cast("long")).alias(name) for name in counted]
    return each.select("run", "broker", "bin", "whole_ns", *own)
