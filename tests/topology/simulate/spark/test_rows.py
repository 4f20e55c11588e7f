"""Rows of the driver: what Spark gets is what was given, and no worker has been asked for it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from topology.simulate.spark.rows import rows_of, schema_of
from topology.simulate.spark.schemas import JobKind

pytestmark = pytest.mark.sockets

NESTED = "run int, at_us long, share double, is_on boolean, names array<string>, ways array<struct<to:int,us:long>>"


def test_rows_are_as_they_were_given(spark: SparkSession) -> None:
    rows = [(1, 5_000_000_000, 0.5, True, ["a", "b"], [(1, 2), (3, 4)]), (2, 0, 1.0, False, [], [])]
    frame = rows_of(spark, rows, NESTED)

    assert [tuple(row) for row in frame.collect()] == rows
    assert frame.schema == schema_of(NESTED)


def test_no_rows_have_columns_all_the_same(spark: SparkSession) -> None:
    frame = rows_of(spark, [], NESTED)

    assert frame.collect() == []
    assert frame.schema == schema_of(NESTED)


def test_what_is_not_known_is_null_and_a_kind_is_a_number(spark: SparkSession) -> None:
    frame = rows_of(spark, iter([(JobKind.RELAYED, None)]), "kind int, root int")

    assert [tuple(row) for row in frame.collect()] == [(int(JobKind.RELAYED), None)]


def test_spark_knows_them_before_a_job_runs(spark: SparkSession) -> None:
    plan = rows_of(spark, [(1,), (2,)], "run int")._jdf.queryExecution().optimizedPlan().toString()

    assert "LocalRelation" in plan
