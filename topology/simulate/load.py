"""Stage: how busy each broker was in each bin, and how long what came had to wait."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_NS = 1000
"""Costs are summed as whole nanoseconds: a sum of fractions would hang on the order of its parts."""


def load(worked: DataFrame, bin_ms: int) -> DataFrame:
    """`run int, broker int, bin int, busy_us double, backlog_us long, jobs long, deliveries long`.

    A job counts in the bin in which it began, as does the longest wait until then, `backlog_us`; what it cost is spread
    evenly over the time until the last of its writes.
    """
    bin_us = bin_ms * 1000
    begun, to = F.col("begun_us"), F.greatest("begun_us", "writes_to_us")
    first = F.floor(begun / bin_us)
    spans = worked.select(
        "run",
        "broker",
        "begun_us",
        "deliveries",
        (begun - F.col("at_us")).alias("wait_us"),
        F.greatest(to - begun, F.lit(1)).alias("lasts_us"),
        F.rint(F.col("cost_us").cast("double") * _NS).cast("long").alias("cost_ns"),
        first.alias("first"),
        F.explode(F.sequence(first, F.floor(to / bin_us))).alias("bin"),
    )
    is_first = F.col("bin") == F.col("first")
    before = F.greatest(F.col("bin") * bin_us - F.col("begun_us"), F.lit(0)) / F.col("lasts_us")
    after = F.least((F.col("bin") + 1) * bin_us - F.col("begun_us"), F.col("lasts_us")) / F.col("lasts_us")
    # The end of one bin's part is the beginning of the next one's, so that nothing is lost by rounding.
    part_ns = F.floor(F.col("cost_ns") * after) - F.floor(F.col("cost_ns") * before)
    none = F.lit(0).cast("long")
    found = spans.groupBy("run", "broker", F.col("bin").cast("int").alias("bin")).agg(
        (F.sum(part_ns) / _NS).alias("busy_us"),
        F.max(F.when(is_first, F.col("wait_us")).otherwise(none)).alias("backlog_us"),
        F.sum(F.when(is_first, 1).otherwise(none)).alias("jobs"),
        F.sum(F.when(is_first, F.col("deliveries")).otherwise(none)).alias("deliveries"),
    )
    return found.where((F.col("busy_us") > 0) | (F.col("jobs") > 0))
