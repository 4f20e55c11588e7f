"""Stage: when the consumers of each shared queue take its messages. `consumption` computes one queue."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from topology.simulate.spark.recursion import Columns, Recursion, in_order
from topology.simulate.traffic.consumption import Consuming, Consumption


def consumed(arrivals: DataFrame, consuming: Mapping[int, Consuming], partitions: int | None = None) -> DataFrame:
    """Adds `begun_us long, done_us long, waiting int` to `arrivals`: so many messages waited as this one came.

    `arrivals` has `run int, queue int, publication long, at_us long` and perhaps more columns; at `at_us` the message
    enters the queue. `consuming` names the consumers of every queue. The result has no message of a queue without
    consumers: such a message stays in its queue.
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
