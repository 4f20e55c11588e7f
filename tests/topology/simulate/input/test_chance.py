"""Chance by identity: evenly spread, and as popular as it says."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from topology.simulate.input.chance import Purpose, below, draw_topic, link_us, share_of, uniform
from topology.simulate.input.workload import Popularity, Subscribers, Topics, Workload

pytestmark = pytest.mark.sockets

DRAWS = 40_000


def test_numbers_are_spread_evenly(spark: SparkSession) -> None:
    drawn = spark.range(DRAWS).select(below(uniform(1, Purpose.TIME, F.col("id")), 10).alias("number"))
    counts = {row.number: row["count"] for row in drawn.groupBy("number").count().collect()}
    assert sorted(counts) == list(range(10))
    # Six times the standard deviation of a binomial count.
    assert all(abs(count - DRAWS / 10) < 6 * (DRAWS * 0.1 * 0.9) ** 0.5 for count in counts.values())


def test_another_seed_purpose_or_identity_draws_another_number(spark: SparkSession) -> None:
    columns = [
        uniform(1, Purpose.TIME, 1, F.col("id")),
        uniform(2, Purpose.TIME, 1, F.col("id")),
        uniform(1, Purpose.TOPIC, 1, F.col("id")),
        uniform(1, Purpose.TIME, 2, F.col("id")),
    ]
    row = spark.range(1).select(*columns).collect()[0]
    assert len(set(row)) == 4


@pytest.mark.parametrize(("popularity", "exponent"), [("uniform", 1.0), ("zipf", 1.0), ("zipf", 0.7), ("zipf", 1.6)])
def test_topics_are_as_popular_as_their_share(spark: SparkSession, popularity: Popularity, exponent: float) -> None:
    topic = draw_topic(uniform(3, Purpose.TOPIC, F.col("id")), 20, popularity, exponent)
    drawn = spark.range(DRAWS).select(topic.alias("topic")).groupBy("topic").count().collect()
    counts = {row.topic: row["count"] for row in drawn}
    shares = [share_of(number, 20, popularity, exponent) for number in range(20)]
    assert sum(shares) == pytest.approx(1)
    for number, share in enumerate(shares):
        assert abs(counts.get(number, 0) - DRAWS * share) < 6 * (DRAWS * share * (1 - share)) ** 0.5


def test_the_hottest_of_many_topics_is_number_0_and_none_is_beyond_the_last(spark: SparkSession) -> None:
    topic = draw_topic(F.col("drawn"), 1_000, "zipf", 1.1)
    rows = spark.createDataFrame([(0.0,), (1 - 2.0**-53,)], "drawn double").select(topic.alias("topic")).collect()
    assert [row.topic for row in rows] == [0, 999]


def test_a_members_link_is_its_own_and_within_the_jitter(spark: SparkSession) -> None:
    subscribers = Subscribers(name="a", count=500, topics="t", latency_ms=2, jitter_ms=3)
    group = Workload(topics={"t": Topics(count=1)}, subscribers=(subscribers,)).groups[0]
    rows = spark.range(500).select(link_us(1, group, F.col("id")).alias("us")).collect()
    assert all(2_000 <= row.us <= 5_000 for row in rows)
    assert len({row.us for row in rows}) > 300
