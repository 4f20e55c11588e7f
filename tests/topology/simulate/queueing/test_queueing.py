"""Brokers' work in Spark: as `broker_thread` has it, wherever the rows are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from topology.simulate.input.calibration import shipped
from topology.simulate.queueing.broker_load import load
from topology.simulate.queueing.broker_thread import Jobs, SimulatedThread
from topology.simulate.queueing.queueing import costs_of, queueing
from topology.simulate.spark.schemas import JOBS, WORKED, JobKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sockets

BROKERS = ((1, 0), (1, 1), (1, 2), (2, 0), (2, 5))


def rows_of(count: int) -> list[tuple[Any, ...]]:
    """At every broker of every run other jobs, some of them at the same time."""
    chance = np.random.default_rng(11)
    rows = []
    for run, broker in BROKERS:
        at = np.cumsum(chance.integers(0, 500, count)).tolist()
        topics, wanted = chance.integers(0, 9, count).tolist(), chance.integers(0, 150, 9).tolist()
        for number, (at_us, topic) in enumerate(zip(at, topics, strict=True)):
            base = float(np.float32(1.5 + number % 7))
            is_chore = number % 10 == 0
            kind, deliveries = (JobKind.CHORE, 0) if is_chore else (JobKind.PUBLISHED, wanted[topic])
            rows.append(
                (
                    run,
                    broker,
                    at_us,
                    number,
                    kind,
                    base,
                    deliveries,
                    topic,
                    100,
                    800,
                    -1,
                    2,
                    at_us - 50,
                    float(number % 3),
                )
            )
    return rows


def worked_at(rows: list[tuple[Any, ...]], run: int, broker: int) -> list[tuple[Any, ...]]:
    """The same without Spark."""
    mine = sorted((row for row in rows if row[:2] == (run, broker)), key=lambda row: row[2:5])
    at, base, deliveries, topic, size, clients, batch = (
        np.array([row[place] for row in mine], dtype=float) for place in (2, 5, 6, 7, 8, 9, 13)
    )
    turns = SimulatedThread(costs_of(shipped()))
    parts = [turns.take(Jobs(at, base, deliveries, topic, size, clients, batch)), turns.end()]
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    times = np.rint(np.array(columns[:4])).astype(int)
    costs = columns[4].astype(np.float32)
    return [
        (*row[:5], *row[6:9], *row[10:13], *(int(t) for t in times[:, n]), float(costs[n]))
        for n, row in enumerate(mine)
    ]


def test_every_broker_of_every_run_works_for_itself(spark: SparkSession) -> None:
    rows = rows_of(400)
    frame = queueing(spark.createDataFrame(rows, JOBS), shipped())
    names = [each.split()[0] for each in WORKED.split(", ")]
    found = sorted(tuple(row) for row in frame.select(*names).collect())

    expected = sorted(row for run, broker in BROKERS for row in worked_at(rows, run, broker))

    assert found == expected


def test_the_columns_are_those_of_worked_and_the_jobs_others(spark: SparkSession) -> None:
    jobs = spark.createDataFrame([(*row, 7) for row in rows_of(3)], JOBS + ", more int")
    wanted = spark.createDataFrame([], WORKED)
    frame = queueing(jobs, shipped())

    assert sorted(frame.dtypes) == sorted([*wanted.dtypes, ("more", "int")])
    assert frame.drop("more").columns == wanted.columns
    assert {row.more for row in frame.collect()} == {7}


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_the_same_is_found_on_any_number_of_partitions_and_in_batches_of_any_size(
    spark: SparkSession, partitions: int
) -> None:
    jobs = spark.createDataFrame(rows_of(300), JOBS)
    expected = sorted(map(tuple, queueing(jobs, shipped()).collect()))
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(7 * partitions))
    try:
        frame = queueing(jobs.repartition(partitions + 1), shipped(), partitions=partitions)
        found = sorted(map(tuple, frame.collect()))
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(before))

    assert found == expected


def test_brokers_are_dealt_out_evenly_to_the_partitions(spark: SparkSession) -> None:
    first = [row for row in rows_of(10) if row[:2] == (1, 0)]
    jobs = spark.createDataFrame([(1, broker, *row[2:]) for broker in range(8) for row in first], JOBS)
    worked = queueing(jobs, shipped(), partitions=4).select(F.spark_partition_id().alias("partition"), "broker")

    assert Counter(row.partition for row in worked.distinct().collect()) == dict.fromkeys(range(4), 2)


def test_load_loses_no_work(spark: SparkSession) -> None:
    worked = queueing(spark.createDataFrame(rows_of(300), JOBS), shipped())
    bins = load(worked, 10).collect()

    assert sum(row.jobs for row in bins) == 300 * len(BROKERS)
    paid = sum(round(row.cost_us * 1000) for row in worked.collect())
    assert sum(round(row.busy_us * 1000) for row in bins) == paid
