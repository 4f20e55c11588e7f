"""Stage: every broker does its jobs in the order in which they come. See `turns` for how it does them."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import DataFrame

from topology.simulate.calibration import Calibration
from topology.simulate.recursion import Columns, Recursion, in_order
from topology.simulate.turns import Costs, Jobs, Turns

_TAKES = Jobs._fields
_PASSES = ("run", "broker", "at_us", "publication", "kind", "deliveries")
_USED = ("base_us", "batch_us", "clients")
_ADDS = "begun_us long, relayed_us long, writes_from_us long, writes_to_us long, cost_us float"


def queueing(jobs: DataFrame, calibration: Calibration, partitions: int | None = None) -> DataFrame:
    """WORKED, and whatever other columns `jobs` has, but `base_us`, `batch_us` and `clients`."""
    others = tuple(name for name in jobs.columns if name not in (*_PASSES, *_USED))
    return in_order(
        jobs,
        keys=("run", "broker"),
        # The last three only tell chores apart: jobs that are equal in all may change places.
        order=("at_us", "publication", "kind", "topic", "deliveries", "base_us"),
        takes=_TAKES,
        begin=_Begin(costs_of(calibration)),
        passes=(*_PASSES, *others),
        adds=_ADDS,
        partitions=partitions,
    )


def costs_of(calibration: Calibration) -> Costs:
    return Costs(*(getattr(calibration, name) for name in Costs._fields))


class _Begin:
    def __init__(self, costs: Costs) -> None:
        self._costs = costs

    def __call__(self, key: tuple[Any, ...]) -> Recursion:
        return _Broker(self._costs)


class _Broker:
    def __init__(self, costs: Costs) -> None:
        self._turns = Turns(costs)

    def take(self, columns: Columns) -> Columns:
        return self._turns.take(Jobs(*(np.asarray(column, dtype=np.float64) for column in columns)))

    def end(self) -> Columns:
        return self._turns.end()
