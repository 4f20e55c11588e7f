"""Stage: every broker does its jobs in the order of their arrival (`broker_thread`), or shares cores (`host_turns`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from topology.simulate.input.calibration import Calibration
from topology.simulate.input.layout import GridCell, SharedHost
from topology.simulate.queueing.broker_thread import Costs, Jobs, SimulatedThread
from topology.simulate.queueing.host_threads import HostRow
from topology.simulate.queueing.host_turns import HostTurns
from topology.simulate.spark.recursion import Columns, Recursion, in_order
from topology.simulate.spark.rows import rows_of

_PASSES = ("run", "broker", "at_us", "publication", "kind", "deliveries")
_USED = ("base_us", "batch_us", "clients")
_ADDS = "begun_us long, relayed_us long, writes_from_us long, writes_to_us long, cost_us float"
_Place = tuple[int, int]
"""A run, and the first of the brokers that share cores, which names all of them."""


def queueing(
    jobs: DataFrame, calibration: Calibration, runs: Sequence[GridCell] = (), partitions: int | None = None
) -> DataFrame:
    """WORKED, and the other columns of `jobs` except `base_us`, `batch_us` and `clients`.

    `runs` name the brokers that share cores; each of the others is computed for itself.
    """
    others = tuple(name for name in jobs.columns if name not in (*_PASSES, *_USED))
    hosts = {(run.number, host.brokers[0]): host for run in runs for host in run.layout.hosts}
    return in_order(
        _placed(jobs, hosts),
        keys=("run", "place"),
        # The three columns before the last only order chores. The order of jobs that are equal in all does not matter.
        order=("at_us", "publication", "kind", "topic", "deliveries", "base_us", "broker"),
        takes=HostRow._fields,
        begin=_BeginQueueing(hosts, costs_of(calibration)),
        passes=(*_PASSES, *others),
        adds=_ADDS,
        partitions=partitions,
    )


def costs_of(calibration: Calibration) -> Costs:
    return Costs(*(getattr(calibration, name) for name in Costs._fields))


def _placed(jobs: DataFrame, hosts: Mapping[_Place, SharedHost]) -> DataFrame:
    """Adds `place`: brokers with one place are computed together."""
    rows = [(run, broker, first) for (run, first), host in hosts.items() for broker in host.brokers]
    if not rows:
        return jobs.withColumn("place", F.col("broker"))
    shared = rows_of(jobs.sparkSession, rows, "run int, broker int, first int")
    joined = jobs.join(F.broadcast(shared), ["run", "broker"], "left")
    return joined.withColumn("place", F.coalesce("first", "broker")).drop("first")


class _BeginQueueing:
    def __init__(self, hosts: Mapping[_Place, SharedHost], costs: Costs) -> None:
        self._hosts, self._costs = hosts, costs

    def __call__(self, key: tuple[int, ...]) -> Recursion:
        run, place = key
        host = self._hosts.get((run, place))
        return _Broker(self._costs) if host is None else _Host(host, self._costs)


class _Broker:
    def __init__(self, costs: Costs) -> None:
        self._turns = SimulatedThread(costs)

    def take(self, columns: Columns) -> Columns:
        known = columns[: len(Jobs._fields)]
        return self._turns.take(Jobs(*(np.asarray(column, dtype=np.float64) for column in known)))

    def end(self) -> Columns:
        return self._turns.end()


class _Host:
    def __init__(self, host: SharedHost, costs: Costs) -> None:
        self._turns = HostTurns(host, costs)

    def take(self, columns: Columns) -> Columns:
        return self._turns.take([HostRow(*row) for row in zip(*(column.tolist() for column in columns), strict=True)])

    def end(self) -> Columns:
        return self._turns.end()
