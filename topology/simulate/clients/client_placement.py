"""The broker of every client of every run over time: the loop of `attaching`, for several runs in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from topology.simulate.clients.attaching import attach
from topology.simulate.clients.cohort import Attempt, ClientSession
from topology.simulate.input.calibration import Calibration
from topology.simulate.input.fault import parse_fault
from topology.simulate.input.layout import GridCell
from topology.simulate.input.timeline import timeline
from topology.simulate.input.workload import Workload
from topology.simulate.spark.schemas import SESSIONS

PARTITIONS_PER_RUN = 4
"""Spark distributes runs by hash. With more partitions than runs, few runs share one."""
PARTITIONS_MAX = 400

_COLUMNS = ["run", *ClientSession._fields]


def placement(
    population: DataFrame, runs: Sequence[GridCell], workload: Workload, calibration: Calibration
) -> DataFrame:
    """Sessions of all clients. Python gets only a row for each run, group, time and broker.

    Members of a group with the same `joins_ms` and `contact` must have consecutive numbers; ValueError else.
    """
    attempts = population.groupBy("run", "grp", "joins_ms", "contact").agg(
        F.min("client").alias("first"), F.max("client").alias("last"), F.count("client").alias("members")
    )
    # Spark keeps an explicit number of partitions. Without one it would put so few rows into one.
    dealt = attempts.repartition(min(PARTITIONS_PER_RUN * len(runs), PARTITIONS_MAX) if len(runs) > 1 else 1, "run")
    return dealt.groupBy("run").applyInPandas(_recursion(runs, workload, calibration), SESSIONS)


def _recursion(
    runs: Sequence[GridCell], workload: Workload, calibration: Calibration
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    by_number = {run.number: run for run in runs}
    faults = [parse_fault(each) for each in workload.faults]

    def sessions_of(attempts: pd.DataFrame) -> pd.DataFrame:
        run = by_number[int(attempts["run"].iloc[0])]
        placed = attach(
            run.layout,
            workload.groups,
            _attempts(attempts),
            timeline(run.layout, faults, calibration, workload.duration_ms),
            calibration,
            workload.bin_ms,
        )
        return pd.DataFrame([(run.number, *each) for each in placed], columns=_COLUMNS)

    return sessions_of


def _attempts(rows: pd.DataFrame) -> Iterator[Attempt]:
    split = rows[rows["last"] - rows["first"] + 1 != rows["members"]]
    if len(split):
        one = split.iloc[0]
        raise ValueError(
            f"run {one['run']}, group {one['grp']}: clients {one['first']} to {one['last']} are {one['members']} that "
            f"join at {one['joins_ms']} ms at broker {one['contact']}; they must have consecutive numbers"
        )
    return map(Attempt._make, rows[["grp", "joins_ms", "contact", "first", "last"]].itertuples(index=False, name=None))
