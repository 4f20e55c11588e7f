"""How busy a broker is, bin by bin: nothing of what jobs cost is lost, and each part is where the job was at work."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from topology.simulate.queueing.broker_load import load

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.sockets

BIN_MS = 100
BIN_US = BIN_MS * 1000
WORKED = "run int, broker int, at_us long, begun_us long, writes_to_us long, cost_us float, deliveries int"
Key = tuple[int, int, int]


class Job(NamedTuple):
    run: int
    broker: int
    at_us: int
    begun_us: int
    writes_to_us: int
    cost_us: float
    deliveries: int


def job(begun_us: int, lasts_us: int, cost_us: float, *, waited_us: int = 0, deliveries: int = 1) -> Job:
    return Job(0, 0, begun_us - waited_us, begun_us, begun_us + lasts_us, cost_us, deliveries)


def found(spark: SparkSession, jobs: list[Job]) -> dict[Key, Row]:
    rows = load(spark.createDataFrame(jobs, WORKED), BIN_MS).collect()
    by_key = {(row.run, row.broker, row.bin): row for row in rows}
    assert len(by_key) == len(rows)
    return by_key


def test_a_job_counts_where_it_began_with_how_long_it_had_waited(spark: SparkSession) -> None:
    rows = found(spark, [job(150_000, 20_000, 20.0, waited_us=70_000, deliveries=3), job(199_000, 100, 2.0)])
    assert rows.keys() == {(0, 0, 1)}
    assert rows[0, 0, 1][3:] == (22.0, 70_000, 2, 4)


def test_a_job_of_many_bins_is_at_work_in_all_of_them_evenly(spark: SparkSession) -> None:
    rows = found(spark, [job(150_000, 1_000_000, 500.0)])
    assert {key[2]: row.busy_us for key, row in rows.items()} == {
        1: 25.0,
        **dict.fromkeys(range(2, 11), 50.0),
        11: 25.0,
    }
    assert [row.jobs for row in rows.values()].count(1) == 1
    assert sum(row.deliveries for row in rows.values()) == 1


def test_what_jobs_cost_is_spread_over_the_bins_they_span(spark: SparkSession) -> None:
    long = job(100_000, 300_000, 300_000.5, waited_us=10_000, deliveries=4)
    brief = job(395_500, 1_000, 1_000.0, waited_us=500, deliveries=3)
    by_bin = {key[2]: row for key, row in found(spark, [long, brief]).items()}

    assert [by_bin[number].busy_us for number in (1, 2, 3)] == pytest.approx([100_000, 100_000, 101_000], abs=0.2)
    assert sum(each.busy_us for each in by_bin.values()) == 301_000.5
    assert [by_bin[number].jobs for number in (1, 2, 3)] == [1, 0, 1]
    assert [by_bin[number].deliveries for number in (1, 2, 3)] == [4, 0, 3]
    assert [by_bin[number].backlog_us for number in (1, 2, 3)] == [10_000, 0, 500]


def test_nothing_is_lost_whatever_jobs_there_are(spark: SparkSession) -> None:
    chance = random.Random(3)
    jobs = [
        Job(
            run=chance.randrange(2),
            broker=chance.randrange(3),
            at_us=0,
            begun_us=(begun := chance.randrange(2_000_000)),
            writes_to_us=begun + chance.choice((0, 1, 777, BIN_US, 7 * BIN_US, 3_333_333)),
            cost_us=chance.choice((0.5, 33.0, 1_024.25, 90_000.0)),
            deliveries=chance.randrange(9),
        )
        for _ in range(400)
    ]
    rows = found(spark, jobs)
    expected, worked, counted = Counter[Key](), Counter[tuple[int, int]](), Counter[Key]()
    for each in jobs:
        place = each.run, each.broker
        worked[place] += round(each.cost_us * 1000)
        counted[*place, each.begun_us // BIN_US] += 1
        lasts_us = max(1, each.writes_to_us - each.begun_us)
        for bin_ in range(each.begun_us // BIN_US, (each.begun_us + lasts_us - 1) // BIN_US + 1):
            from_us, to_us = max(each.begun_us, bin_ * BIN_US), min(each.begun_us + lasts_us, (bin_ + 1) * BIN_US)
            expected[*place, bin_] += each.cost_us * (to_us - from_us) / lasts_us  # type: ignore[assignment]
    assert {
        place: round(sum(rows[key].busy_us * 1000 for key in rows if key[:2] == place)) for place in worked
    } == worked
    assert {key: row.jobs for key, row in rows.items() if row.jobs} == counted
    # A nanosecond of each job, and the last bin has what rounding left of the others.
    assert {key: row.busy_us for key, row in rows.items()} == pytest.approx(expected, abs=0.001 * len(jobs))
