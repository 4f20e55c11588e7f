"""The relay rules of each design: to which brokers a message goes from the broker where it was published, by which way.

The ways depend on the root and on which brokers reach each other. So they are computed once for each period and broker;
from message to message only the subscribers differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from topology.simulate.input.layout import GridCell, Layout
from topology.simulate.input.period import Period
from topology.simulate.input.timeline import NOBODY
from topology.simulate.spark.rows import rows_of
from topology.simulate.spark.schemas import JobKind

_WAYS = (
    "run int, from_ms int, to_ms int, origin int, root int, is_replicated boolean, always int, direct array<int>, "
    "passed array<int>, ways array<struct<to: int, kind: int, source: int, is_always: boolean, way_us: int>>"
)


class Way(NamedTuple):
    """A way to a broker. Messages with subscribers there take it, or all messages if `is_always`.

    A message needs `way_us` for it if it waits nowhere.
    """

    to: int
    kind: int
    source: int
    is_always: bool
    way_us: int


class Ways(NamedTuple):
    """The ways of messages that are published at one broker in one period.

    `is_replicated`: every broker enters every message; beside the publisher's broker these are `always` brokers.
    To the brokers in `direct` the publisher's broker itself sends messages for their subscribers; to those in `passed`
    the root does.
    """

    is_replicated: bool
    always: int
    direct: list[int]
    passed: list[int]
    ways: list[Way]


def ways(spark: SparkSession, runs: Sequence[GridCell], periods: Sequence[Sequence[Period]]) -> DataFrame:
    """One row for each run, period and broker: these are few."""
    rows = [
        (run.number, each.from_ms, each.to_ms, origin, each.root, *ways_from(origin, run.layout, each))
        for run, of_run in zip(runs, periods, strict=True)
        for each in of_run
        for origin in range(len(run.layout.sites))
    ]
    return rows_of(spark, rows, _WAYS)


def ways_from(origin: int, layout: Layout, period: Period) -> Ways:
    others = [to for to in range(len(layout.sites)) if to != origin and _reaches(layout, period, origin, to)]
    if layout.design in ("active-passive", "virtual-synchrony"):
        agreed_us = _agreed_us(layout)
        found = [Way(origin, JobKind.PUBLISHED, NOBODY, True, agreed_us)]
        found += [Way(to, JobKind.RELAYED, origin, True, agreed_us + layout.latency_us[origin][to]) for to in others]
        return Ways(True, len(others), [], [], found)
    root, row = period.root, layout.latency_us[origin]
    direct = [to for to in others if layout.sites[origin].is_primary or layout.sites[to].is_primary]
    passed = []
    if root in direct and not layout.sites[origin].is_primary:
        passed = [
            to
            for to, site in enumerate(layout.sites)
            if not site.is_primary and to != origin and _reaches(layout, period, root, to)
        ]
    found = [Way(origin, JobKind.PUBLISHED, NOBODY, True, 0)]
    found += [Way(to, JobKind.RELAYED, origin, False, row[to]) for to in direct]
    found += [Way(to, JobKind.FROM_ROOT, root, False, row[root] + layout.latency_us[root][to]) for to in passed]
    return Ways(False, 0, direct, passed, found)


def _reaches(layout: Layout, period: Period, a: int, b: int) -> bool:
    return period.reach[a * len(layout.sites) + b]


def _agreed_us(layout: Layout) -> int:
    """In virtual synchrony no broker begins with a message before all brokers agree on its place in the order. This
    takes a round trip between the two brokers that are farthest apart."""
    return 2 * max(map(max, layout.latency_us)) if layout.design == "virtual-synchrony" else 0
