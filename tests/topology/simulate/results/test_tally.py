"""What is counted of shared queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from topology.simulate.queueing.buckets import bucket
from topology.simulate.results.tally import count_queues
from topology.simulate.spark.schemas import WORKED, JobKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sockets

TAKEN = (
    "run int, queue int, publication long, sent_us long, done_us long, root int, broker int, brokers int, "
    "latency_us array<int>, waiting int"
)
SENT_US = 1_000_000


def job(kind: int, publication: int, at_us: int, relayed_us: int, to_us: int, deliveries: int, copies: int) -> Any:
    moments = (at_us, relayed_us, relayed_us, to_us)
    return (1, 0, at_us, publication, kind, deliveries, -1, 100, 0, copies, SENT_US, *moments, 1.0)


def counted(spark: SparkSession, broker: int, jobs: list[Any], end_us: int = 2_000_000) -> dict[int, int]:
    """Of one message that would be done 5 ms after it was sent, if no broker took any time."""
    taken = [(1, 0, 7, SENT_US, SENT_US + 5_000, 0, broker, 2, [0, 300, 300, 0], 0)]
    worked = spark.createDataFrame(jobs, WORKED)
    rows = count_queues(spark.createDataFrame(taken, TAKEN), worked, end_us, stack_us=40).collect()
    return {row.bucket: row.messages for row in rows}


def test_a_message_waits_for_every_broker_on_its_way(spark: SparkSession) -> None:
    at = SENT_US
    jobs = [
        job(JobKind.PUBLISHED, 7, at, at + 1_000, at + 1_500, 0, 1),
        job(JobKind.SHARED, 7, at + 300, at + 2_300, at + 2_900, 0, 1),
        job(JobKind.SHARED_BACKUP, 7, at + 600, at + 9_600, at + 9_900, 0, 0),
        job(JobKind.SHARED_DELIVERY, 7, at + 600, at + 3_600, at + 4_600, 1, 0),
        job(JobKind.SHARED, 8, at, at + 90_000, at + 90_000, 1, 0),
    ]
    assert counted(spark, 1, jobs) == {bucket(5_000 + 1_000 + 2_000 + 300 + 4_000 + 40): 1}


def test_where_all_are_at_the_root_publishing_and_entering_are_one_turn(spark: SparkSession) -> None:
    at = SENT_US
    jobs = [
        job(JobKind.PUBLISHED, 7, at, at + 1_000, at + 1_000, 0, 0),
        job(JobKind.SHARED, 7, at, at + 1_000, at + 1_200, 1, 0),
    ]
    assert counted(spark, 0, jobs) == {bucket(5_000 + 1_200 + 40): 1}


def test_what_brokers_do_not_get_done_by_the_end_is_not_done(spark: SparkSession) -> None:
    jobs = [job(JobKind.SHARED, 7, SENT_US, SENT_US, SENT_US + 10_000, 1, 0)]
    assert counted(spark, 0, jobs, end_us=SENT_US + 15_000) == {-1: 1}
