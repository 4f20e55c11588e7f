"""Periods of a run with the same root and the same reachability between brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from topology.simulate.input.layout import GridCell
from topology.simulate.input.timeline import Timeline
from topology.simulate.spark.rows import rows_of

_PERIODS = "run int, from_ms int, to_ms int, root int, next_root int, next_root_ms int, reach array<boolean>"


class Period(NamedTuple):
    """`reach` has an element for each pair of brokers, ordered by sender: whether messages get from one to the other.

    `next_root` is the root. If there is none, it is the next root (-1: none before the end), elected at `next_root_ms`.
    """

    from_ms: int
    to_ms: int
    root: int
    next_root: int
    next_root_ms: int
    reach: list[bool]


def periods(spark: SparkSession, runs: Sequence[GridCell], of_runs: Sequence[Sequence[Period]]) -> DataFrame:
    """A row for each period of each run."""
    rows = [(run.number, *each) for run, spans in zip(runs, of_runs, strict=True) for each in spans]
    return rows_of(spark, rows, _PERIODS)


def periods_of(run: GridCell, timeline: Timeline) -> Iterator[Period]:
    """The periods in order, without gaps, from the beginning of the run to its end."""
    brokers = range(len(run.layout.sites))
    for from_ms, to_ms in pairwise(_bounds(timeline)):
        reach = [_reaches(timeline, a, b, from_ms) for a in brokers for b in brokers]
        yield Period(from_ms, to_ms, timeline.root_at(from_ms), *_next_root(timeline, from_ms), reach)


def _bounds(timeline: Timeline) -> list[int]:
    spans = [(from_ms, to_ms) for _, from_ms, to_ms in timeline.ups]
    spans += [(from_ms, to_ms) for from_ms, to_ms, _ in timeline.roots]
    spans += [(from_ms, to_ms) for _, _, from_ms, to_ms in timeline.cuts]
    moments = {moment for span in spans for moment in span if 0 < moment < timeline.duration_ms}
    return sorted({0, *moments, timeline.duration_ms})


def _next_root(timeline: Timeline, at_ms: int) -> tuple[int, int]:
    ahead = ((root, max(at_ms, from_ms)) for from_ms, to_ms, root in timeline.roots if to_ms > at_ms and root >= 0)
    return next(ahead, (-1, timeline.duration_ms))


def _reaches(timeline: Timeline, a: int, b: int, at_ms: int) -> bool:
    pair = (min(a, b), max(a, b))
    is_cut = any((x, y) == pair and from_ms <= at_ms < to_ms for x, y, from_ms, to_ms in timeline.cuts)
    return timeline.is_up(a, at_ms) and timeline.is_up(b, at_ms) and not is_cut
