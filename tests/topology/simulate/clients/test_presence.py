"""What a broker does though nothing is published."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from pyspark.sql import SparkSession

from topology.simulate.clients.presence import chores
from topology.simulate.input.calibration import shipped
from topology.simulate.spark.schemas import PRESENCE

pytestmark = pytest.mark.sockets

COSTS = msgspec.structs.replace(
    shipped(), turn_us=40, attach_us=100, open_us=200, idle_us_per_s=0.5, member_us_per_s=3_000, peer_us_per_s=1_000
)


def work_us(
    spark: SparkSession, *rows: tuple[int, int, int, int, int, int], bin_ms: int = 1_000
) -> dict[object, float]:
    """By run, broker and bin; each part is a turn."""
    done = chores(spark.createDataFrame(list(rows), PRESENCE), bin_ms, COSTS).collect()
    found: dict[object, float] = {}
    for row in done:
        place = row.run, row.broker, row.at_us // 1000 // bin_ms
        found[place] = found.get(place, 0.0) + row.base_us + COSTS.turn_us
    return found


def test_attaching_redirecting_and_heartbeats_of_clients_are_work(spark: SparkSession) -> None:
    found = work_us(spark, (0, 0, 0, 400, 7, 3))
    assert found == {(0, 0, 0): pytest.approx(7 * 100 + 3 * 200 + 400 * 0.5 + 3_000)}


def test_each_other_broker_that_is_up_adds_its_statuses(spark: SparkSession) -> None:
    rows = [(0, broker, 0, 0, 0, 0) for broker in range(4)] + [(0, broker, 1, 0, 0, 0) for broker in range(3)]
    found = work_us(spark, *rows, (1, 0, 0, 0, 0, 0))
    assert [found[0, broker, 0] for broker in range(4)] == pytest.approx([6_000] * 4)
    assert [found[0, broker, 1] for broker in range(3)] == pytest.approx([5_000] * 3)
    assert found[1, 0, 0] == pytest.approx(3_000)


def test_a_shorter_bin_has_its_part_of_that(spark: SparkSession) -> None:
    found = work_us(spark, (0, 0, 5, 0, 0, 0), (0, 1, 5, 0, 0, 0), bin_ms=100)
    assert found == {(0, 0, 5): pytest.approx(400), (0, 1, 5): pytest.approx(400)}


def test_brokers_do_not_all_do_it_at_once(spark: SparkSession) -> None:
    rows = [(0, broker, 1, 0, 0, 0) for broker in range(5)]
    done = chores(spark.createDataFrame(rows, PRESENCE), 100, COSTS).collect()
    times = sorted(row.at_us for row in done)
    assert len(times) == 5 and times[0] >= 100_000 and times[-1] < 200_000
    assert min(b - a for a, b in pairwise(times)) > 5_000
