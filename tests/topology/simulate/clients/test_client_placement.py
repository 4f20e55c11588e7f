"""The stage that places the clients of all runs."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.simulate.clients import COSTS, Placed
from tests.support.simulate.small import workload
from topology.simulate.clients.client_placement import placement
from topology.simulate.clients.cohort import Attempt, ClientSession
from topology.simulate.clients.population import groups_of, population
from topology.simulate.input.layout import GridCell, layout_of_brokers, layout_of_counts
from topology.simulate.spark.schemas import POPULATION, SESSIONS

pytestmark = pytest.mark.sockets

FAULTS = ("kill p1 at 2s", "kill s2 at 3s")
RUNS = [
    GridCell(number=3, layout=layout_of_counts(2, 3), subscribers=40),
    GridCell(number=5, layout=layout_of_brokers(3), subscribers=400),
]


def sessions_of(found: DataFrame, run: GridCell) -> list[ClientSession]:
    """As the recursion gives them, whatever order the rows came in."""
    rows = found.where(f"run = {run.number}").drop("run").collect()
    return sorted(ClientSession._make(row) for row in rows)


def test_each_run_is_placed_as_if_it_were_alone(spark: SparkSession) -> None:
    load = workload(faults=FAULTS)
    clients = population(groups_of(spark, RUNS, load)).cache()
    found = placement(clients, RUNS, load, COSTS)
    assert found.schema.simpleString() == spark.createDataFrame([], SESSIONS).schema.simpleString()
    found = found.cache()
    for run in RUNS:
        rows = clients.where(f"run = {run.number}").drop("run").collect()
        attempts = [Attempt(row.grp, row.joins_ms, row.contact, row.client, row.client) for row in rows]
        alone = Placed(run.layout, load.groups, *FAULTS, attempts=attempts, duration_ms=6_000)
        alone.check()
        assert sessions_of(found, run) == sorted(alone.sessions)
        lost = alone.at(1_999)[0]
        assert lost and alone.at(2_000)[-1] >= lost


def test_the_number_of_partitions_changes_nothing(spark: SparkSession) -> None:
    load = workload(faults=FAULTS)
    clients = population(groups_of(spark, RUNS, load)).cache()
    one, many = (placement(clients.repartition(parts), RUNS, load, COSTS) for parts in (1, 7))
    assert sorted(one.collect()) == sorted(many.collect())


def test_members_of_one_fate_must_have_consecutive_numbers(spark: SparkSession) -> None:
    rows = [(3, 0, client, 0, 1) for client in (0, 1, 3)]
    with pytest.raises(PySparkException, match="clients 0 to 3 are 3 that join at 0 ms at broker 1"):
        placement(spark.createDataFrame(rows, POPULATION), RUNS, workload(), COSTS).collect()
