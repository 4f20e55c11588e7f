"""What is published, when, by whom and under which topic."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

from tests.support.simulate.small import told, workload
from topology.simulate.input.workload import Publishers, Queues, Topics, Workload
from topology.simulate.spark.schemas import PUBLICATIONS
from topology.simulate.traffic.publications import message_count, publications, streams

pytestmark = pytest.mark.sockets


def busy(**changes: object) -> Workload:
    fields: dict[str, object] = {"name": "f", "count": 4, "rate": 500, "topics": "t"}
    return Workload(
        duration_s=10,
        topics={"t": Topics(count=8)},
        publishers=(Publishers(**(fields | changes)),),  # type: ignore[arg-type]
    )


def test_each_group_sends_at_its_rate(spark: SparkSession) -> None:
    counts = Counter(row.grp for row in publications(spark, workload(), [1.0]).collect())
    assert counts[3] == 2 * 20 * 6
    # Three at 10 a second for 6 s, by chance: six standard deviations.
    assert abs(counts[2] - 180) < 6 * 180**0.5


def test_gaps_by_chance_are_as_wide_as_those_of_independent_senders(spark: SparkSession) -> None:
    rows = publications(spark, busy(), [1.0]).collect()
    times = sorted(row.at_us for row in rows)
    gaps = [after - before for before, after in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(500, rel=0.05)
    # Exponential: the standard deviation is the mean.
    assert variance**0.5 == pytest.approx(mean, rel=0.05)
    assert all(0 <= row.at_us < 10_000_000 for row in rows)


def test_an_even_sender_leaves_equal_gaps(spark: SparkSession) -> None:
    rows = publications(spark, busy(arrivals="even", count=1, rate=100), [1.0]).collect()
    times = sorted(row.at_us for row in rows)
    assert len(times) == 1_000
    assert {after - before for before, after in pairwise(times)} <= {9_999, 10_000, 10_001}


def test_a_burst_comes_at_once_from_one_sender(spark: SparkSession) -> None:
    rows = publications(spark, busy(burst=5), [1.0]).collect()
    bursts = Counter((row.at_us, row.client) for row in rows)
    assert all(count % 5 == 0 for count in bursts.values())


def test_twice_the_rate_is_another_pace(spark: SparkSession) -> None:
    counts = Counter(row.pace for row in publications(spark, busy(arrivals="even"), [0.5, 1.0]).collect())
    assert counts == {0: 10_000, 1: 20_000}


def test_every_message_has_a_number_of_its_own(spark: SparkSession) -> None:
    rows = publications(spark, workload(), [1.0]).collect()
    numbers = sorted(row.publication for row in rows)
    assert numbers == list(range(sum(message_count(each, workload(), 1.0) for each in streams(workload()))))


def test_a_producer_is_of_one_queue_which_is_told_as_a_topic_below_0(spark: SparkSession) -> None:
    tasks = Workload(
        duration_s=10,
        topics={"t": Topics(count=2)},
        publishers=(Publishers(name="f", rate=1, topics="t"),),
        queues=(Queues(name="a", rate=5), Queues(name="b", count=3, producers=2, rate=5)),
    )
    rows = publications(spark, tasks, [1.0]).where("topic < 0").collect()
    assert {row.topic for row in rows} == {-1, -2, -3, -4}
    queues_of: dict[tuple[int, int], set[int]] = {}
    for row in rows:
        queues_of.setdefault((row.grp, row.client), set()).add(row.topic)
    assert all(len(queues) == 1 for queues in queues_of.values())
    assert len(queues_of) == 7


def test_the_same_seed_publishes_the_same_on_any_number_of_partitions(spark: SparkSession) -> None:
    one = publications(spark, workload(), [1.0])
    assert one.schema.simpleString() == spark.createDataFrame([], PUBLICATIONS).schema.simpleString()
    first = told(one.collect())
    assert told(publications(spark, workload(), [1.0]).repartition(7).collect()) == first
    assert told(publications(spark, workload(seed=8), [1.0]).collect()) != first
