"""What a simulation found, as `summary.json` has it and the report shows it. Brokers are told by name."""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT = 1


class SummaryPart(msgspec.Struct, frozen=True, kw_only=True):
    """All of a summary's parts."""


class Totals(SummaryPart, frozen=True, kw_only=True):
    """Counts of the whole run. `expected` = `delivered` + `missed`; `copies` are messages from broker to broker."""

    publications: int
    unsent: int
    """By publishers that were connected nowhere."""
    expected: int
    delivered: int
    missed: int
    copies: int
    copies_bytes: int
    delivered_bytes: int
    cpu_s: float


class BrokerSummary(SummaryPart, frozen=True, kw_only=True):
    """`cpu` is of one core: 1.0 is all it has. `backlog_ms` is how long what comes has to wait until it is begun."""

    name: str
    role: str
    """root, primary, secondary: as it began."""
    clients_max: int
    publications: int
    deliveries: int
    copies_in: int
    copies_out: int
    cpu_mean: float
    cpu_max: float
    """Over the busiest second."""
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
    """From a publisher's send to a subscriber's receipt. Edges are in microseconds, one more of them than counts."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    mean_ms: float
    edges_us: list[float]
    counts: list[int]


class FaultSummary(SummaryPart, frozen=True, kw_only=True):
    """What one fault did. None where it does not apply: who lost no root held no election."""

    fault: str
    at_s: float
    no_root_ms: float | None = None
    lost_clients: int = 0
    back_p50_ms: float | None = None
    """Until half of the lost clients were attached again."""
    back_all_ms: float | None = None
    missed: int = 0
    """Deliveries that were missed because of it: by clients on their way, or over links that were cut."""
    attaches_per_s_max: float = 0


class QueueSummary(SummaryPart, frozen=True, kw_only=True):
    """A kind of shared queues, all of them together. Latency is from publish to the end of the consumer's work."""

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
    """Who is nearest to its limit, of what, and by how much the load could grow (`room` times) until it is there."""

    broker: str
    what: str
    """cpu, out (bandwidth), memory, attach."""
    used: float
    """Of 1."""
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
    """What a sweep answers for so many subscribers and a rate: the layout of the fewest brokers that meets the goal."""

    subscribers: int
    rate: float
    run: int | None
    """None: no layout of the grid meets it."""
    why: str


class Sweep(SummaryPart, frozen=True, kw_only=True):
    grid: dict[str, list[str]]
    goal: str = ""
    cheapest: list[Cheapest] = []


class StageTime(SummaryPart, frozen=True, kw_only=True):
    name: str
    took_s: float


class ResultsSummary(SummaryPart, frozen=True, kw_only=True):
    """`kind`: "simulation", or "trace" where it was read from what brokers wrote."""

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
    """What a reader must know to believe it: limits that were reached, what was left out."""
