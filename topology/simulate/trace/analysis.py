"""Makes a summary from the traces of a cluster's brokers: the same figures as a simulation's, but of real traffic."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from openclust.shell.config.schema import ConfigError
from topology.simulate.results.summary import RunSummary, StageTime
from topology.simulate.results.tally import SPANS_MAX
from topology.simulate.trace import stages as stages
from topology.simulate.trace.files import TraceFiles
from topology.simulate.trace.summing import Counted, summed
from topology.simulate.trace.trace_reading import Begun, begun, count_bad, name_bad, read_lines, sound

Progress = Callable[[str, int, int], None]

QUEUES_MAX = 50
"""So many of the busiest shared queues are shown one by one."""
ROOTS_MAX = 10_000
SECOND_US = 1_000_000
STAGES = ("reading", "brokers", "copies", "deliveries", "shared queues", "summary")


class Analyzed(NamedTuple):
    """The counts from which a summary is made."""

    run: RunSummary
    begun: Begun
    duration_s: float
    notes: list[str]
    stages: list[StageTime]


def analyze(spark: SparkSession, files: TraceFiles, *, out: Path | None, progress: Progress) -> Analyzed:
    """Counts the events of traces. With `out` their lines are kept there as Parquet, which can be analyzed again.

    Raises ConfigError if the traces do not belong together.
    """
    told = _Told(progress)
    told("reading")
    # The lines stay on disk, because sorting needs the memory.
    lines = read_lines(spark, files).persist(StorageLevel.DISK_ONLY)
    try:
        bad = count_bad(lines)
        trace = sound(lines)
        about = begun(trace)
        if out is not None:
            trace.sort("broker", "at_us").write.parquet(str(out / "trace"))
        counted = _count(trace, told)
        told("summary")
        found = summed(about, counted)
        return Analyzed(found.run, about, found.duration_s, [*name_bad(bad), *found.notes], told.stages())
    finally:
        lines.unpersist()


class _Told:
    """Reports the running stage, and notes the time of each stage."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._began: list[tuple[str, float]] = []

    def __call__(self, stage: str) -> None:
        self._began.append((stage, time.monotonic()))
        self._progress(stage, STAGES.index(stage), len(STAGES))

    def stages(self) -> list[StageTime]:
        ends = [*(began for _, began in self._began[1:]), time.monotonic()]
        return [
            StageTime(name=name, took_s=round(end - began, 3))
            for (name, began), end in zip(self._began, ends, strict=True)
        ]


def _count(trace: DataFrame, told: _Told) -> Counted:
    """The few rows from which the summary is made."""
    told("brokers")
    ends = trace.agg(F.min("at_us").alias("first"), F.max("at_us").alias("last")).collect()[0]
    began_us, ended_us = int(ends["first"]), int(ends["last"])
    span_us = span_of(ended_us - began_us)
    lives = stages.lives(trace)
    flow = stages.flow(trace, began_us, span_us)
    health = stages.health(trace, began_us, span_us)
    roots = stages.roots(trace).orderBy("at_us", "broker").limit(ROOTS_MAX)
    frames = [_rows(each) for each in (lives, flow, health, roots)]
    told("copies")
    crossed = stages.crossings(trace)
    links = _rows(stages.links(crossed, began_us, span_us))
    told("deliveries")
    delivered = stages.deliveries(trace)
    latencies = _rows(stages.latencies(delivered))
    orphans = delivered.where("origin is null").agg(F.coalesce(F.sum("count"), F.lit(0)).alias("count")).collect()
    told("shared queues")
    totals = stages.queue_totals(trace, stages.queued(trace))
    queues = _rows(totals.orderBy(F.desc("entered"), "queue").limit(QUEUES_MAX + 1))
    sample = stages.sample_size(trace).collect()[0]
    return Counted(
        began_us=began_us,
        ended_us=ended_us,
        span_us=span_us,
        lives=frames[0],
        flow=frames[1],
        health=frames[2],
        roots=frames[3],
        links=links,
        latencies=latencies,
        orphans=int(orphans[0]["count"]),
        queues=queues[:QUEUES_MAX],
        has_more_queues=len(queues) > QUEUES_MAX,
        publishes=int(sample["publishes"]),
        squares=int(sample["squares"]),
    )


def span_of(duration_us: int) -> int:
    """The length of a span: whole seconds, and not too many spans."""
    seconds = -(-max(duration_us, 1) // SECOND_US)
    if seconds > 10_000_000:
        raise ConfigError("these traces are of times years apart: give those of one time")
    return SECOND_US * -(-seconds // SPANS_MAX)


def _rows(frame: DataFrame) -> pd.DataFrame:
    found: pd.DataFrame = frame.toPandas()
    return found
