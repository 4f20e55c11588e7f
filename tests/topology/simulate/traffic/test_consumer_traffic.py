"""Shared queues in Spark: as `consumption` has each of them, wherever the rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from topology.simulate.traffic.consumer_traffic import consumed
from topology.simulate.traffic.consumption import Consuming, Consumption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sockets

ARRIVALS = "run int, queue int, publication long, at_us long"
CONSUMING = {0: Consuming(1, 100), 1: Consuming(3, 400, 20), 2: Consuming(0, 100)}


def arrivals(count: int) -> list[tuple[int, int, int, int]]:
    chance = np.random.default_rng(2)
    return [
        (run, queue, number, at)
        for run in (1, 2)
        for queue in CONSUMING
        for number, at in enumerate(np.cumsum(chance.integers(0, 250, count)).tolist())
    ]


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_every_queue_is_worked_off_for_itself_on_any_number_of_partitions(spark: SparkSession, partitions: int) -> None:
    rows = arrivals(200)
    frame = consumed(spark.createDataFrame(rows, ARRIVALS).repartition(partitions), CONSUMING, partitions)
    found = sorted(map(tuple, frame.collect()))

    expected = []
    for run in (1, 2):
        for queue in (0, 1):
            mine = [row for row in rows if row[:2] == (run, queue)]
            columns = Consumption(CONSUMING[queue]).take([row[3] for row in mine])
            expected += [(*row, *each) for row, each in zip(mine, zip(*columns, strict=True), strict=True)]
    assert found == expected
    assert frame.dtypes[-3:] == [("begun_us", "bigint"), ("done_us", "bigint"), ("waiting", "int")]
