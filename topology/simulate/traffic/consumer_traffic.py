"""Stage: messages of shared queues and their consumers. See `consumption` for one queue."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from topology.simulate.spark.recursion import Columns, Recursion, in_order
from topology.simulate.traffic.consumption import Consuming, Consumption


def consumed(arrivals: DataFrame, consuming: Mapping[int, Consuming], partitions: int | None = None) -> DataFrame:
    """`arrivals`, with `begun_us long, done_us long, waiting int`, how many messages waited when this one came.

    It has `run int, queue int, publication long, at_us long`, `at_us` when a message is in the queue, and may have more
    columns. `consuming` is of every queue. Messages of those without consumers are left out: they stay where they are.
    """
    nobody = sorted(queue for queue, each in consuming.items() if each.consumers < 1)
    return in_order(
        arrivals.where(~arrivals.queue.isin(nobody)) if nobody else arrivals,
        keys=("run", "queue"),
        order=("at_us", "publication"),
        takes=("at_us",),
        begin=_BeginConsuming(dict(consuming)),
        passes=tuple(arrivals.columns),
        adds="begun_us long, done_us long, waiting int",
        partitions=partitions,
    )


class _BeginConsuming:
    def __init__(self, consuming: dict[int, Consuming]) -> None:
        self._consuming = consuming

    def __call__(self, key: tuple[int, ...]) -> Recursion:
        _, queue = key
        return _Queue(self._consuming[queue])


class _Queue:
    def __init__(self, consuming: Consuming) -> None:
        self._consumption = Consumption(consuming)

    def take(self, columns: Columns) -> Columns:
        return self._consumption.take(columns[0].tolist())

    def end(self) -> Columns:
        return [], [], []
