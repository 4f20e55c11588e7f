"""The brokers of all runs as rows, for other stages."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.simulate.input.layout import GridCell
from topology.simulate.spark.rows import rows_of

_BROKERS = "run int, broker int, brokers int, is_synchronous boolean, primaries array<boolean>, latency_us array<int>"


def brokers_of(spark: SparkSession, runs: Sequence[GridCell]) -> DataFrame:
    """A row for each broker of each run, with what it has to know of the others. `latency_us` has a row for each."""
    rows = [
        (
            run.number,
            broker,
            len(run.layout.sites),
            run.layout.design == "virtual-synchrony",
            [each.is_primary for each in run.layout.sites],
            [each for row in run.layout.latency_us for each in row],
        )
        for run in runs
        for broker in range(len(run.layout.sites))
    ]
    return rows_of(spark, rows, _BROKERS)


def between_us(a: Column, b: Column) -> Column:
    """The latency from one broker to another."""
    return F.get("latency_us", a * F.col("brokers") + b)
