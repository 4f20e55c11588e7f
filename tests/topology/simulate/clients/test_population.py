"""All clients of all runs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

from tests.support.simulate.small import BIN_MS, RUN, workload
from topology.simulate.clients.population import attached, groups_of, population
from topology.simulate.input.layout import GridCell, layout_of_counts
from topology.simulate.input.workload import Subscribers, Topics, Workload
from topology.simulate.spark.schemas import POPULATION, SESSIONS

pytestmark = pytest.mark.sockets


def test_every_member_of_every_group_is_there_once(spark: SparkSession) -> None:
    found = population(groups_of(spark, [RUN], workload()))
    assert found.schema.simpleString() == spark.createDataFrame([], POPULATION).schema.simpleString()
    rows = found.collect()
    assert sorted((row.grp, row.client) for row in rows) == [
        (group.number, client) for group in workload().groups for client in range(group.count)
    ]


def test_members_join_evenly_over_their_time(spark: SparkSession) -> None:
    rows = population(groups_of(spark, [RUN], workload())).where("grp = 0").collect()
    assert all(row.joins_ms % BIN_MS == 0 and 0 <= row.joins_ms < 2_000 for row in rows)
    counts = Counter(row.joins_ms for row in rows)
    assert len(counts) == 20
    assert set(counts.values()) <= {1, 2}


def test_few_members_join_over_all_of_their_time(spark: SparkSession) -> None:
    few = Workload(
        topics={"t": Topics(count=1)}, subscribers=(Subscribers(name="a", count=4, topics="t", join_over_s=2),)
    )
    run = GridCell(number=0, layout=RUN.layout, subscribers=4)
    rows = population(groups_of(spark, [run], few)).collect()
    assert sorted(row.joins_ms for row in rows) == [0, 500, 1_000, 1_500]
    assert len({row.contact for row in rows}) == 4


def test_members_of_one_bin_and_one_contact_are_neighbours(spark: SparkSession) -> None:
    many = Workload(
        topics={"t": Topics(count=1)}, subscribers=(Subscribers(name="a", count=25_000, topics="t", join_over_s=1),)
    )
    run = GridCell(number=0, layout=layout_of_counts(3, 4), subscribers=25_000)
    rows = sorted(population(groups_of(spark, [run], many)).collect(), key=lambda row: row.client)
    met: set[tuple[int, int]] = set()
    for before, row in pairwise(rows):
        if (row.joins_ms, row.contact) != (before.joins_ms, before.contact):
            assert (row.joins_ms, row.contact) not in met
            met.add((row.joins_ms, row.contact))
    contacts = Counter(row.contact for row in rows)
    assert max(contacts.values()) - min(contacts.values()) < 100


def test_members_try_only_the_brokers_they_know(spark: SparkSession) -> None:
    choosy = Workload(
        topics={"t": Topics(count=1)},
        subscribers=(Subscribers(name="a", count=30, topics="t", brokers=("p2", "s3")),),
    )
    rows = population(groups_of(spark, [GridCell(number=0, layout=RUN.layout, subscribers=30)], choosy)).collect()
    assert Counter(row.contact for row in rows) == {1: 15, 4: 15}


def test_a_run_with_more_subscribers_scales_every_group(spark: SparkSession) -> None:
    runs = [RUN, GridCell(number=1, layout=RUN.layout, subscribers=400)]
    counts = Counter((row.run, row.grp) for row in population(groups_of(spark, runs, workload())).collect())
    assert [counts[0, 0], counts[0, 1]] == [27, 13]
    assert [counts[1, 0], counts[1, 1]] == [270, 130]
    assert counts[1, 2] == counts[0, 2] == 3


def test_the_wait_for_the_first_attach_is_no_loss_but_every_later_one_is(spark: SparkSession) -> None:
    groups = groups_of(spark, [RUN], workload())
    joins_ms = population(groups).where("grp = 1 and client = 4").collect()[0].joins_ms
    rows = [
        (0, 1, 4, 4, -1, joins_ms, joins_ms + 100),
        (0, 1, 4, 4, 2, joins_ms + 100, joins_ms + 500),
        (0, 1, 4, 4, -1, joins_ms + 500, 6_000),
    ]
    left = attached(spark.createDataFrame(rows, SESSIONS), groups).collect()
    assert sorted((row.broker, row.from_ms) for row in left) == [(-1, joins_ms + 500), (2, joins_ms + 100)]
