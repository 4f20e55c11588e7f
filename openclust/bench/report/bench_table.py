"""The rows of the table of targets, and how a measured row compares with its target."""

from __future__ import annotations

from typing import Literal

import msgspec

from openclust.bench.load.work import LoadWork
from openclust.bench.report.round_summary import Summary
from openclust.bench.report.statistics import ratio

Measure = Literal["cpu", "memory", "attach"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line: the work, and the least (for memory the most) that openclust promises of it."""

    key: str
    title: str
    measure: Measure
    target: float
    work: LoadWork

    @property
    def target_text(self) -> str:
        if self.measure == "cpu":
            return f">= {self.target:g} x"
        return f"<= {self.target:g} kB each" if self.measure == "memory" else f">= {self.target:,.0f}/s"


_IDLE = LoadWork(pattern="connections", subscribers=10_000)

ROWS = (
    Row(
        key="fanout-100",
        title="fan-out to 100, 16 in flight",
        measure="cpu",
        target=10,
        work=LoadWork(pattern="fanout", subscribers=100),
    ),
    Row(
        key="fanout-1000",
        title="fan-out to 1,000, 16 in flight",
        measure="cpu",
        target=20,
        work=LoadWork(pattern="fanout", subscribers=1_000),
    ),
    Row(
        key="fanout-5000",
        title="fan-out to 5,000, 16 in flight",
        measure="cpu",
        target=20,
        work=LoadWork(pattern="fanout", subscribers=5_000),
    ),
    Row(
        key="fanout-1000-single",
        title="fan-out to 1,000, one in flight",
        measure="cpu",
        target=4,
        work=LoadWork(pattern="fanout", subscribers=1_000, window=1),
    ),
    Row(
        key="p2p",
        title="point to point, 1,000 in flight",
        measure="cpu",
        target=3,
        work=LoadWork(pattern="p2p", window=1_000),
    ),
    Row(
        key="confirm",
        title="point to point, confirms (200) and acks (prefetch 200)",
        measure="cpu",
        target=2.5,
        work=LoadWork(pattern="confirm", window=200, prefetch=200),
    ),
    Row(
        key="topic",
        title="topic, 10,000 wildcard bindings, 1,000 keys",
        measure="cpu",
        target=5,
        work=LoadWork(pattern="topic", subscribers=100, bindings=10_000, keys=1_000, window=200),
    ),
    Row(key="memory", title="memory for 10,000 idle subscribers", measure="memory", target=12, work=_IDLE),
    Row(key="attach", title="attaching 10,000 subscribers", measure="attach", target=4_000, work=_IDLE),
)


class MeasuredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A measured row. The target is for the first broker. `failed` tells why there are no summaries."""

    row: Row
    summaries: list[Summary] = []
    failed: str = ""

    @property
    def ours(self) -> float | None:
        """The figure that is compared with the target."""
        if not self.summaries:
            return None
        if self.row.measure == "cpu":
            return self.cpu_ratio(self.summaries[1]) if len(self.summaries) > 1 else None
        return measured(self.row, self.summaries[0])

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if the figure is not known."""
        ours = self.ours
        if ours is None:
            return None
        return ours <= self.row.target if self.row.measure == "memory" else ours >= self.row.target

    def cpu_ratio(self, other: Summary) -> float | None:
        """How many times as much the first broker does with a second of CPU (for memory: with a byte)."""
        first = self.summaries[0]
        if self.row.measure == "memory":
            return ratio(measured(self.row, other), measured(self.row, first))
        if self.row.measure == "attach":
            return ratio(first.attaches_per_broker_cpu_s, other.attaches_per_broker_cpu_s)
        return ratio(first.deliveries_per_broker_cpu_s, other.deliveries_per_broker_cpu_s)

    def wall_ratio(self, other: Summary) -> float | None:
        """How many times as much the first broker does in a second on the clock."""
        if self.row.measure == "memory":
            return None
        first = self.summaries[0]
        if self.row.measure == "attach":
            return ratio(first.attaches_per_s, other.attaches_per_s)
        return ratio(first.deliveries_per_s, other.deliveries_per_s)


def measured(row: Row, summary: Summary) -> float | None:
    """The row's figure for one broker, in the unit of its target."""
    if row.measure == "memory":
        idle = summary.idle_bytes_per_subscriber
        return None if idle is None else idle / 1_000
    return summary.attaches_per_s if row.measure == "attach" else summary.deliveries_per_s


def select_rows(only: str | None) -> list[Row]:
    """Rows by their keys, comma-separated; all without. Raises KeyError with an unknown key."""
    if not only:
        return list(ROWS)
    by_key = {row.key: row for row in ROWS}
    return [by_key[key.strip()] for key in only.split(",")]


def in_running_order(rows: list[Row]) -> list[list[Row]]:
    """The rows in groups of equal work. Memory comes first, because brokers keep memory that other work took."""
    groups: dict[LoadWork, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.work.pattern != "connections"):
        groups.setdefault(row.work, []).append(row)
    return list(groups.values())
