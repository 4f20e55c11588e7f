"""Small workloads and placements for tests of stages, and what they must give, counted one by one."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from topology.simulate.input.layout import GridCell, layout_of_counts
from topology.simulate.input.workload import Publishers, Subscribers, Topics, Workload
from topology.simulate.spark.schemas import SESSIONS

BIN_MS = 100
RUN = GridCell(number=0, layout=layout_of_counts(2, 3), subscribers=40)
BROKERS = len(RUN.layout.sites)


def workload(**changes: object) -> Workload:
    """Forty subscribers of one group and twenty of another, over two sets of topics; two groups of publishers."""
    fields: dict[str, object] = {
        "duration_s": 6,
        "seed": 7,
        "topics": {"news": Topics(count=5), "ticks": Topics(count=30)},
        "subscribers": (
            Subscribers(name="readers", count=27, topics="news", each=2, join_over_s=2),
            Subscribers(name="desks", count=13, topics="ticks", each=6, popularity="zipf", exponent=1.2),
        ),
        "publishers": (
            Publishers(name="press", count=3, rate=10, topics="news", latency_ms=0.5, jitter_ms=1),
            Publishers(
                name="feed", count=2, rate=20, burst=4, arrivals="even", topics="ticks", popularity="zipf", exponent=1.0
            ),
        ),
    }
    return Workload(**(fields | changes))  # type: ignore[arg-type]


def wandering(spark: SparkSession, population: DataFrame, run: GridCell, duration_ms: int) -> DataFrame:
    """Sessions that change by what is no rule: each client goes on twice, and is nowhere for a while in between."""
    rows = []
    brokers = len(run.layout.sites)
    for row in population.where(F.col("run") == run.number).collect():
        at_ms, client = row.joins_ms, row.client
        steps = [(row.contact, 1_300 + 100 * (client % 7)), (-1, 400), ((row.contact + 1 + client) % brokers, None)]
        for broker, lasts_ms in steps:
            to_ms = duration_ms if lasts_ms is None else min(duration_ms, at_ms + lasts_ms)
            if at_ms < to_ms:
                rows.append((run.number, row.grp, client, client, broker, at_ms, to_ms))
            at_ms = to_ms
    return spark.createDataFrame(rows, SESSIONS)


def interested(subscriptions: Iterable[Row], topic: int, at_us: int) -> Counter[int]:
    """How many subscribers of a topic were at each broker at the beginning of the bin of that moment."""
    at_ms = at_us // 1000 // BIN_MS * BIN_MS
    return Counter(
        row.broker
        for row in subscriptions
        if row.topic == topic and row.from_ms // BIN_MS * BIN_MS <= at_ms < row.to_ms
    )


def by_topic(subscriptions: DataFrame) -> dict[int, list[Row]]:
    found = defaultdict(list)
    for row in subscriptions.collect():
        found[row.topic].append(row)
    return found


def told(rows: Sequence[Row]) -> list[str]:
    """Rows in an order of their own."""
    return sorted(json.dumps(row.asDict(recursive=True), default=str) for row in rows)
