"""Latencies of deliveries, from what brokers did with a message one after the other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from topology.simulate.input.calibration import shipped
from topology.simulate.queueing.buckets import bucket, percentile
from topology.simulate.queueing.latency import latencies
from topology.simulate.queueing.queueing import queueing
from topology.simulate.spark.schemas import JOBS, LATENCIES, WORKED, JobKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.sockets

SENT_US = 1_000_000


def job(
    broker: int, kind: int, at_us: int, relayed_us: int, writes: tuple[int, int], deliveries: int, publication: int = 1
) -> tuple[Any, ...]:
    """Begun when it came."""
    return (1, broker, at_us, publication, kind, deliveries, 1, 100, 0, 0, SENT_US, at_us, relayed_us, *writes, 1.0)


def found(frame: DataFrame, broker: int | None = None) -> dict[int, int]:
    """How many by bucket."""
    counts: Counter[int] = Counter()
    for row in frame.collect():
        if broker in (None, row.broker):
            counts[row.bucket] += row.deliveries
    return dict(counts)


def of(spark: SparkSession, *jobs: tuple[Any, ...], stack_us: float = 0, bin_ms: int = 100) -> DataFrame:
    frame = spark.createDataFrame(list(jobs), WORKED)
    return latencies(frame, bin_ms=bin_ms, stack_us=stack_us)


def test_the_columns_are_those_of_latencies(spark: SparkSession) -> None:
    frame = of(spark, job(0, JobKind.PUBLISHED, SENT_US, SENT_US + 5, (SENT_US + 5, SENT_US + 9), 1))

    assert frame.dtypes == spark.createDataFrame([], LATENCIES).dtypes


def test_a_delivery_takes_both_links_the_work_and_the_stack(spark: SparkSession) -> None:
    at = SENT_US + 200
    frame = of(spark, job(0, JobKind.PUBLISHED, at, at + 50, (at + 50, at + 60), 1), stack_us=1_150, bin_ms=250)

    assert [tuple(row) for row in frame.collect()] == [(1, 0, 4, 0, bucket(200 + 60 + 150 + 1_000), 1)]


def test_a_relayed_delivery_waited_at_its_publishers_broker_too(spark: SparkSession) -> None:
    first = job(0, JobKind.PUBLISHED, SENT_US + 100, SENT_US + 100 + 7_000, (SENT_US + 7_100, SENT_US + 7_100), 0)
    then = job(1, JobKind.RELAYED, SENT_US + 600, SENT_US + 640, (SENT_US + 640, SENT_US + 650), 1)
    frame = of(spark, first, then)

    assert found(frame) == {bucket(650 + 7_000): 1}


def test_what_the_root_passed_on_waited_there_too_and_what_it_delivered_itself_did_not(spark: SparkSession) -> None:
    first = job(4, JobKind.PUBLISHED, SENT_US + 100, SENT_US + 300, (SENT_US + 300, SENT_US + 300), 0)
    root = job(0, JobKind.PASSED_ON, SENT_US + 200, SENT_US + 5_200, (SENT_US + 5_200, SENT_US + 5_210), 1)
    last = job(5, JobKind.FROM_ROOT, SENT_US + 300, SENT_US + 320, (SENT_US + 320, SENT_US + 330), 1)
    frame = of(spark, first, root, last)

    assert found(frame, 0) == {bucket(5_210 + 200): 1}
    assert found(frame, 5) == {bucket(330 + 200 + 5_000): 1}


def test_a_message_does_not_wait_because_of_another(spark: SparkSession) -> None:
    slow = job(0, JobKind.PUBLISHED, SENT_US, SENT_US + 90_000, (SENT_US + 90_000, SENT_US + 90_000), 0, publication=2)
    frame = of(spark, slow, job(1, JobKind.RELAYED, SENT_US + 100, SENT_US + 100, (SENT_US + 100, SENT_US + 110), 1))

    assert found(frame) == {bucket(110): 1}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 1_001])
def test_all_deliveries_are_counted_in_equal_steps(spark: SparkSession, count: int) -> None:
    """So wide a span that the kth of n is at k / n of it; each part of them is where one of its own is."""
    span = 1_000_000_000
    frame = of(spark, job(0, JobKind.PUBLISHED, SENT_US, SENT_US, (SENT_US, SENT_US + span), count))
    counts = found(frame)

    assert sum(counts.values()) == count
    parts = np.array_split(np.arange(1, count + 1)[::-1], min(count, 4))
    for number, part in zip(sorted(counts), parts[::-1], strict=True):
        assert counts[number] == len(part)
        assert bucket(part.min() * span / count) <= number <= bucket(part.max() * span / count)


def test_work_that_is_no_message_for_a_topic_has_no_latency(spark: SparkSession) -> None:
    others = [JobKind.SHARED, JobKind.SHARED_BACKUP, JobKind.SHARED_DELIVERY, JobKind.CHORE]
    frame = of(spark, *(job(0, kind, SENT_US, SENT_US, (SENT_US, SENT_US + 5), 3) for kind in others))

    assert found(frame) == {}


def test_fan_out_to_equal_subscribers_takes_what_its_costs_say(spark: SparkSession) -> None:
    """Lone messages for 1,000: half of them are reached when half of the writes are done."""
    ours = shipped()
    rows = [
        (1, 0, n * 1_000_000, n, JobKind.PUBLISHED, 1.25, 1_000, 1, 100, 1_000, -1, 0, n * 1_000_000, 0.0)
        for n in range(40)
    ]
    frame = queueing(spark.createDataFrame(rows, JOBS), ours)
    counts = found(latencies(frame, bin_ms=100, stack_us=0))

    before = ours.turn_us + 1.25 + 1_000 * ours.delivery_us
    writes = 1_000 * (ours.write_us + 0.1 * ours.write_kb_us)
    assert sum(counts.values()) == 40_000
    for part in (0.1, 0.5, 0.9):
        assert percentile(counts, part) == pytest.approx(before + writes * part, rel=0.15)
