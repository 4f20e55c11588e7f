"""The results of a simulation: the contents of `summary.json`, and of the report. Brokers have their names here."""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = 1


class SummaryPart(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all parts of a summary."""


class Totals(SummaryPart, frozen=True, kw_only=True):
    """Counts of the whole run. `expected` = `delivered` + `missed`; `copies` are messages from broker to broker."""

    publications: int
    unsent: int
    """Messages of publishers that were connected nowhere."""
    expected: int
    delivered: int
    missed: int
    copies: int
    copies_bytes: int
    delivered_bytes: int
    cpu_s: float


class BrokerSummary(SummaryPart, frozen=True, kw_only=True):
    """`cpu` is the used part of one core: 1.0 is all. `backlog_ms` is the time from a job's arrival to its begin."""

    name: str
    role: str
    """root, primary or secondary: the role at the begin of the run."""
    clients_max: int
    publications: int
    deliveries: int
    copies_in: int
    copies_out: int
    cpu_mean: float
    cpu_max: float
    """The mean over the busiest second."""
    in_mbit_max: float
    out_mbit_max: float
    memory_mb: float
    backlog_ms_max: float


class LinkSummary(SummaryPart, frozen=True, kw_only=True):
    from_: str = msgspec.field(name="from")
    to: str
    copies: int
    mbit_mean: float
    mbit_max: float


class Latency(SummaryPart, frozen=True, kw_only=True):
    """The time from a publisher's send to a subscriber's receipt. Edges are in microseconds, one more than counts."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    mean_ms: float
    edges_us: list[float]
    counts: list[int]


class FaultSummary(SummaryPart, frozen=True, kw_only=True):
    """The effects of one fault. A value that does not apply is None: no root was lost, so there was no election."""

    fault: str
    at_s: float
    no_root_ms: float | None = None
    lost_clients: int = 0
    back_p50_ms: float | None = None
    """The time until half of the lost clients were attached again."""
    back_all_ms: float | None = None
    missed: int = 0
    """Deliveries that were missed because of the fault: clients were not attached, or links were cut."""
    attaches_per_s_max: float = 0


class QueueSummary(SummaryPart, frozen=True, kw_only=True):
    """All shared queues of one kind together. Their latency is from publish to the end of the consumer's work."""

    name: str
    published: int
    consumed: int
    wait_p50_ms: float
    wait_p99_ms: float
    backlog_max: int
    consumers_busy: float


class Point(SummaryPart, frozen=True, kw_only=True):
    """A broker in one span of the timeline, which begins at `at_s` and lasts `RunSummary.span_s`."""

    broker: str
    at_s: float
    cpu: float
    clients: int
    attaches: int
    deliveries: int
    copies_in: int
    copies_out: int
    out_mbit: float
    backlog_ms: float
    missed: int = 0


class Bottleneck(SummaryPart, frozen=True, kw_only=True):
    """The broker nearest to a limit. The load could grow by the factor `room` until the broker is at the limit."""

    broker: str
    what: str
    """The limited resource: cpu, out (bandwidth), memory or attach."""
    used: float
    """The used part of the limit: 1 is all."""
    room: float


class RunSummary(SummaryPart, frozen=True, kw_only=True):
    run: int
    design: str
    subscribers: int
    rate: float
    primaries: int
    secondaries: int
    totals: Totals
    brokers: list[BrokerSummary]
    links: list[LinkSummary]
    latency: Latency
    faults: list[FaultSummary]
    queues: list[QueueSummary]
    bottleneck: Bottleneck | None
    span_s: float
    timeline: list[Point]


class Cheapest(SummaryPart, frozen=True, kw_only=True):
    """A sweep's answer for a number of subscribers and a rate: the smallest layout that meets the goal."""

    subscribers: int
    rate: float
    run: int | None
    """None: no layout of the grid meets the goal."""
    why: str


class Sweep(SummaryPart, frozen=True, kw_only=True):
    grid: dict[str, list[str]]
    goal: str = ""
    cheapest: list[Cheapest] = []


class StageTime(SummaryPart, frozen=True, kw_only=True):
    name: str
    took_s: float


class ResultsSummary(SummaryPart, frozen=True, kw_only=True):
    """`kind`: "simulation", or "trace" if it comes from the traces that brokers wrote."""

    format: int = FORMAT
    kind: str = "simulation"
    openclust: str
    created: str
    title: str
    topology: str
    workload: dict[str, Any]
    calibration: dict[str, Any]
    spark: dict[str, str]
    took_s: float
    stages: list[StageTime]
    runs: list[RunSummary]
    sweep: Sweep | None = None
    notes: list[str] = []
    """Remarks for the reader on how far to trust the results: limits that were reached, parts that were left out."""
