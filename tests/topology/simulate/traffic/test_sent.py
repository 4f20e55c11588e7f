"""Conservation: every publication meets exactly the subscribers of its topic, where they are at that moment."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.simulate.small import BIN_MS, BROKERS, RUN, by_topic, interested, told, wandering, workload
from topology.simulate.clients.interest import interest
from topology.simulate.clients.population import groups_of, population
from topology.simulate.clients.subscriptions import subscriptions
from topology.simulate.input.workload import Workload
from topology.simulate.spark.schemas import CHANGES, SENT, SUBSCRIPTIONS
from topology.simulate.traffic.publications import publications
from topology.simulate.traffic.sent import published, sent

pytestmark = pytest.mark.sockets


def stages(spark: SparkSession, given: Workload) -> tuple[DataFrame, DataFrame, DataFrame, DataFrame]:
    """Sessions, subscriptions, publications with their brokers, and those that were sent."""
    sessions = wandering(spark, population(groups_of(spark, [RUN], given)), RUN, given.duration_ms)
    bound = subscriptions(sessions, given)
    messages = published(spark, publications(spark, given, [1.0]), sessions, [RUN], given)
    return sessions, bound, messages, sent(messages, interest(bound, BROKERS, BIN_MS), BROKERS, BIN_MS)


def test_a_subscriber_has_its_topics_in_all_of_its_sessions(spark: SparkSession) -> None:
    sessions, bound, _, _ = stages(spark, workload())
    assert bound.schema.simpleString() == spark.createDataFrame([], SUBSCRIPTIONS).schema.simpleString()
    topics: dict[tuple[int, int], dict[tuple[int, int], set[int]]] = {}
    for row in bound.collect():
        topics.setdefault((row.grp, row.client), {}).setdefault((row.from_ms, row.to_ms), set()).add(row.topic)
    lasting = {(row.grp, row.first, row.from_ms) for row in sessions.collect() if row.grp < 2}
    assert sum(len(each) for each in topics.values()) == len(lasting)
    for (group, _), each in topics.items():
        (drawn,) = {frozenset(found) for found in each.values()}
        assert 1 <= len(drawn) <= (2, 6)[group]
        assert drawn <= set(range(5) if group == 0 else range(5, 35))


def test_every_publication_has_the_broker_at_which_its_publisher_was_then(spark: SparkSession) -> None:
    sessions, _, messages, _ = stages(spark, workload())
    known = sessions.collect()
    given = {row.publication: row for row in publications(spark, workload(), [1.0]).collect()}
    rows = messages.collect()
    assert sorted(row.publication for row in rows) == sorted(given)
    for row in rows:
        message = given[row.publication]
        at_ms = (message.at_us + message.link_us) / 1000
        there = [
            each.broker
            for each in known
            if each.grp == message.grp and each.first == message.client and each.from_ms <= at_ms < each.to_ms
        ]
        assert row.origin == (there[0] if there else -1)


def test_every_publication_meets_the_subscribers_of_its_topic_where_they_are(spark: SparkSession) -> None:
    _, bound, messages, found = stages(spark, workload())
    assert found.schema.simpleString() == spark.createDataFrame([], SENT).schema.simpleString()
    rows = found.collect()
    assert len(rows) == messages.where("origin >= 0").count()
    bindings = by_topic(bound)
    for row in rows:
        where = interested(bindings.get(row.topic, []), row.topic, row.at_us)
        assert row.subscribers == [where[broker] for broker in (*range(BROKERS), -1)]
    assert sum(sum(row.subscribers) for row in rows) > 1_000
    assert any(row.subscribers[-1] for row in rows)


def test_interest_changes_by_what_comes_less_what_goes(spark: SparkSession) -> None:
    _, bound, _, _ = stages(spark, workload())
    changes = interest(bound, BROKERS, BIN_MS)
    assert changes.schema.simpleString() == spark.createDataFrame([], CHANGES).schema.simpleString()
    rows = changes.collect()
    assert len({(row.topic, row.bin) for row in rows}) == len(rows)
    # Whoever comes goes, at the end of the run if not before.
    assert [sum(column) for column in zip(*(row.deltas for row in rows), strict=True)] == [0] * (BROKERS + 1)


def test_it_is_the_same_on_any_number_of_partitions(spark: SparkSession) -> None:
    first = told(stages(spark, workload())[3].collect())
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        for partitions in (1, 7):
            spark.conf.set("spark.sql.shuffle.partitions", partitions)
            assert told(stages(spark, workload())[3].collect()) == first
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before or 4)
