"""The figures of all rounds at one broker, summed up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from openclust.bench.load.comparison import Contender
from openclust.bench.load.work import Figures
from openclust.bench.report.statistics import RatioRange, latency_percentiles_ms, median, paired_ratio, ratio

# The kernel counts CPU in steps of 10 ms: below this much of it, a figure per delivery is a guess.
CPU_S_ENOUGH = 0.2
BUSY = 0.9


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Medians over the rounds; latencies over all samples of all rounds. None if a figure could not be measured.

    The rounds are in order. Each of the `starts` of the broker has as many.
    """

    name: str
    product: str
    messages_per_s: float | None
    deliveries_per_s: float | None
    broker_cpu_us_per_delivery: float | None
    deliveries_per_broker_cpu_s: float | None
    latency_ms: dict[str, float]
    confirm_latency_ms: dict[str, float]
    generator_busy: float | None
    broker_rss_bytes: int | None
    attached: int
    attaches_per_s: float | None
    attaches_per_broker_cpu_s: float | None
    idle_bytes_per_subscriber: float | None
    bytes_per_subscriber_after_traffic: float | None
    starts: int
    rounds: list[dict[str, float | None]]
    notes: list[str]

    @property
    def rounds_by_start(self) -> list[list[dict[str, float | None]]]:
        each = len(self.rounds) // self.starts
        return [self.rounds[first : first + each] for first in range(0, len(self.rounds), each)]


def summarize(contender: Contender, figures: Sequence[Figures], starts: int = 1) -> Summary:
    """Sum up at least one round of each start."""
    first, last = figures[0], figures[-1]
    per_cpu_s = median(ratio(one.deliveries, one.broker_cpu_s) for one in figures)
    return Summary(
        name=contender.name,
        product=contender.product,
        messages_per_s=median(ratio(one.messages, one.elapsed_s) for one in figures),
        deliveries_per_s=median(ratio(one.deliveries, one.elapsed_s) for one in figures),
        broker_cpu_us_per_delivery=1e6 / per_cpu_s if per_cpu_s else None,
        deliveries_per_broker_cpu_s=per_cpu_s,
        latency_ms=latency_percentiles_ms(sample for one in figures for sample in one.latencies_ns),
        confirm_latency_ms=latency_percentiles_ms(sample for one in figures for sample in one.confirm_latencies_ns),
        generator_busy=median(ratio(one.generator_cpu_s, one.elapsed_s) for one in figures),
        broker_rss_bytes=last.broker_rss,
        attached=first.attached,
        attaches_per_s=median(ratio(one.attached, one.attach_s) if one.attached else None for one in figures),
        attaches_per_broker_cpu_s=median(
            ratio(one.attached, one.attach_cpu_s) if one.attached else None for one in figures
        ),
        # Of the first round only: a broker may keep memory that it once had.
        idle_bytes_per_subscriber=_growth(first, first.rss_idle),
        bytes_per_subscriber_after_traffic=_growth(first, first.rss_after_traffic),
        starts=starts,
        rounds=[_plain(one) for one in figures],
        notes=_notes(figures),
    )


Per = Literal["elapsed_s", "broker_cpu_s"]
"""A second on the clock, or of the broker's CPU."""


def ratio_of_deliveries(first: Summary, other: Summary, per: Per) -> RatioRange | None:
    """The deliveries in a second of the first broker over those of the other; None where nothing is known of them."""
    starts = zip(_rates(first, per), _rates(other, per), strict=True)
    return paired_ratio([list(zip(*rounds, strict=True)) for rounds in starts])


def _rates(summary: Summary, per: Per) -> list[list[float | None]]:
    return [[ratio(one["deliveries"], one[per]) for one in rounds] for rounds in summary.rounds_by_start]


def _growth(figures: Figures, rss: int | None) -> float | None:
    if rss is None or figures.rss_before is None or not figures.attached:
        return None
    return (rss - figures.rss_before) / figures.attached


def _plain(one: Figures) -> dict[str, float | None]:
    return {
        "messages": one.messages,
        "deliveries": one.deliveries,
        "elapsed_s": one.elapsed_s,
        "broker_cpu_s": one.broker_cpu_s,
        "generator_cpu_s": one.generator_cpu_s,
        "broker_rss_bytes": one.broker_rss,
        "attached": one.attached,
        "attach_s": one.attach_s,
        "attach_cpu_s": one.attach_cpu_s,
    }


def _notes(figures: Sequence[Figures]) -> list[str]:
    notes = sorted({note for one in figures for note in one.notes})
    if any(one.broker_cpu_s is not None and one.broker_cpu_s < CPU_S_ENOUGH for one in figures if not one.attached):
        notes.append("a round used so little broker CPU that the figure for it is rough; take more --seconds")
    busy = [
        one.generator_cpu_s / one.elapsed_s > BUSY and (one.broker_cpu_s or 0.0) / one.elapsed_s < BUSY
        for one in figures
        if one.elapsed_s
    ]
    if busy and all(busy):
        notes.append("the load generator was busier than the broker: the broker can do more per second than it shows")
    return notes
