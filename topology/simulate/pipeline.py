"""All stages, one after the other, for all runs at once: from a workload and layouts to the summary of each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from topology.simulate.clients.client_placement import placement
from topology.simulate.clients.interest import interest
from topology.simulate.clients.population import attached, groups_of, population
from topology.simulate.clients.presence import chores, presence, ups_of
from topology.simulate.clients.subscriptions import subscriptions
from topology.simulate.input.brokers import brokers_of
from topology.simulate.input.calibration import Calibration
from topology.simulate.input.fault import parse_fault
from topology.simulate.input.layout import GridCell
from topology.simulate.input.period import periods, periods_of
from topology.simulate.input.timeline import timeline
from topology.simulate.input.workload import Workload
from topology.simulate.queueing.broker_load import load
from topology.simulate.queueing.latency import latencies
from topology.simulate.queueing.queueing import queueing
from topology.simulate.results import tally
from topology.simulate.results.summarizing import Summarizing
from topology.simulate.results.summary import RunSummary, StageTime
from topology.simulate.traffic.jobs import jobs
from topology.simulate.traffic.publications import messages_of, publications
from topology.simulate.traffic.relaying import ways
from topology.simulate.traffic.sent import paces, published, sent
from topology.simulate.traffic.shared_queues import entered, queues_of, shared_jobs, taken

STAGES = ("placement", "publications", "interest", "deliveries", "queueing", "latency", "summary")

Progress = Callable[[str, int, int], None]
"""Called before each stage with its name, the number of stages that are done, and the number of all stages."""


class Simulated(NamedTuple):
    runs: list[RunSummary]
    stages: list[StageTime]


def simulate(
    spark: SparkSession,
    runs: Sequence[GridCell],
    workload: Workload,
    calibration: Calibration,
    *,
    out: Path | None = None,
    progress: Progress = lambda stage, done, of: None,
) -> Simulated:
    """Computes all runs, which are numbered from 0. The result of each stage is kept in `out`, if given, as Parquet."""
    return _Pipeline(spark, runs, workload, calibration, out, progress).simulated()


class _Pipeline:
    """The results of stages are kept on disk: they are used more than once, and may be larger than memory."""

    def __init__(
        self,
        spark: SparkSession,
        runs: Sequence[GridCell],
        workload: Workload,
        calibration: Calibration,
        out: Path | None,
        progress: Progress,
    ) -> None:
        self._spark, self._runs, self._workload, self._costs = spark, runs, workload, calibration
        self._out, self._progress = out, progress
        self._brokers = max(len(run.layout.sites) for run in runs)
        self._span_ms = tally.span_of(workload.duration_ms, workload.bin_ms, len(runs))
        self._bins = -(-workload.duration_ms // workload.bin_ms)
        self._faults = [parse_fault(each) for each in workload.faults]
        self._timelines = [timeline(run.layout, self._faults, calibration, workload.duration_ms) for run in runs]
        self._kept: list[DataFrame] = []
        self._stages: list[StageTime] = []
        self._began = 0.0

    def simulated(self) -> Simulated:
        try:
            tallies = self._tallies()
            self._begin("summary")
            pairs = zip(self._runs, self._timelines, strict=True)
            found = [Summarizing(run, self._workload, self._costs, reigns, tallies).summary() for run, reigns in pairs]
            self._end()
            return Simulated(found, self._stages)
        finally:
            for each in self._kept:
                each.unpersist()

    def _tallies(self) -> tally.Tallies:
        spark, workload, span_ms, bin_ms = self._spark, self._workload, self._span_ms, self._workload.bin_ms
        self._begin("placement")
        groups = groups_of(spark, self._runs, workload)
        sessions = self._keep(placement(population(groups), self._runs, workload, self._costs), "sessions")
        reached = attached(sessions, groups)
        brokers = brokers_of(spark, self._runs)
        ups = ups_of(spark, self._runs, self._timelines)
        there = self._keep(presence(sessions, brokers, ups, self._bins, bin_ms), "presence")
        self._begin("publications")
        messages = self._keep(
            published(spark, publications(spark, workload, paces(self._runs)), sessions, self._runs, workload)
        )
        self._begin("interest")
        changes = interest(subscriptions(reached, workload), self._brokers, bin_ms)
        went = self._keep(sent(messages, changes, self._brokers, bin_ms), "sent")
        self._begin("deliveries")
        spans = [list(periods_of(*each)) for each in zip(self._runs, self._timelines, strict=True)]
        to_do = jobs(went, ways(spark, self._runs, spans), self._costs)
        done = to_do.unionByName(chores(there, bin_ms, self._costs))
        queue_rows = None
        if workload.queues:
            queues = queues_of(workload)
            hop_us = max(max(row) for run in self._runs for row in run.layout.latency_us)
            came = entered(messages, periods(spark, self._runs, spans), brokers)
            worked_off = self._keep(taken(spark, came, queues, sessions, hop_us))
            done = done.unionByName(shared_jobs(worked_off, self._costs))
        self._begin("queueing")
        worked = self._keep(queueing(_with_clients(done, there, bin_ms), self._costs, self._runs))
        busy = self._keep(load(worked, bin_ms), "load")
        self._begin("latency")
        if workload.queues:
            end_us, stack_us = workload.duration_ms * 1000, self._costs.stack_us
            queue_rows = tally.frame_of(tally.count_queues(worked_off, worked, end_us, stack_us))
        by_message = latencies(
            worked,
            bin_ms=span_ms,
            stack_us=self._costs.stack_us,
            audiences=sorted(workload.topic_base.values()) or [0],
            messages=sum(messages_of(workload, run.rate) for run in self._runs),
        )
        took = self._keep(by_message, "latencies")
        return tally.Tallies(
            span_ms=span_ms,
            spans=-(-workload.duration_ms // span_ms),
            published=tally.frame_of(tally.count_published(messages)),
            wanted=tally.frame_of(tally.count_wanted(went, self._brokers, span_ms)),
            traffic=tally.frame_of(tally.count_traffic(worked, span_ms)),
            load=tally.frame_of(tally.count_load(busy, bin_ms, span_ms)),
            presence=tally.frame_of(tally.count_presence(there, bin_ms, span_ms)),
            latencies=tally.frame_of(tally.count_latencies(took)),
            gaps=tally.frame_of(tally.count_gaps(reached, len(workload.subscribers))),
            queues=queue_rows,
        )

    def _keep(self, rows: DataFrame, name: str = "") -> DataFrame:
        """Computes the rows now, once, and keeps them on disk; with a name also in the folder for the user."""
        if name and self._out is not None:
            folder = str(self._out / "parquet" / name)
            rows.write.mode("overwrite").partitionBy("run").parquet(folder)
            return self._spark.read.schema(rows.schema).parquet(folder)
        kept = rows.persist(StorageLevel.DISK_ONLY)
        kept.count()
        self._kept.append(kept)
        return kept

    def _begin(self, stage: str) -> None:
        if self._began:
            self._end()
        self._began = time.monotonic()
        self._stages.append(StageTime(name=stage, took_s=0))
        self._progress(stage, STAGES.index(stage), len(STAGES))

    def _end(self) -> None:
        self._stages[-1] = StageTime(name=self._stages[-1].name, took_s=round(time.monotonic() - self._began, 3))


def _with_clients(jobs: DataFrame, presence: DataFrame, bin_ms: int) -> DataFrame:
    """Adds the number of clients that the broker has when the job arrives."""
    known = presence.select(*_place_of(F.col("bin")), F.col("clients").alias("there"))
    bin_ = F.least(F.floor(F.col("at_us") / (bin_ms * 1000)), F.lit(2**31 - 1))
    joined = jobs.select("*", *_place_of(bin_)).join(F.broadcast(known), ["of_run", "of_broker", "bin"], "left")
    return joined.withColumn("clients", F.coalesce("there", "clients")).drop("there", "of_run", "of_broker", "bin")


def _place_of(bin_: Column) -> tuple[Column, ...]:
    """A key of eight bytes in all, which Spark treats as one number: a longer key makes joins several times slower."""
    return (
        F.col("run").cast("short").alias("of_run"),
        F.col("broker").cast("short").alias("of_broker"),
        bin_.cast("int").alias("bin"),
    )
