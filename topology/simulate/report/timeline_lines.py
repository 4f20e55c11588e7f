"""The timeline of a run as lines to draw, with a bounded number of points and of brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from topology.simulate.report.chart import LOOKS, Points
from topology.simulate.results.summary import Point, RunSummary

POINTS_MAX = 160
"""About the most points of a line. If there are more spans, several become one point."""


class TimelineLines(msgspec.Struct, frozen=True, kw_only=True):
    """Points by broker and by the number of their span. `span_s` may be several spans of the run."""

    order: dict[str, int]

    span_s: float
    last: int
    by_broker: dict[str, dict[int, Point]]

    def split(self) -> tuple[list[str], list[str]]:
        """The busiest brokers, as many as the chart has looks, and the others; both in the order of the run's brokers.

        A broker is as busy as its CPU or its backlog, whichever is nearer to the highest of all brokers. If no broker
        has either, deliveries count.
        """
        peaks = {
            name: (max(each.cpu for each in points.values()), max(each.backlog_ms for each in points.values()))
            for name, points in self.by_broker.items()
        }
        cpu_most = max((cpu for cpu, _ in peaks.values()), default=0.0) or 1.0
        backlog_most = max((backlog for _, backlog in peaks.values()), default=0.0) or 1.0

        def load(name: str) -> tuple[float, int, str]:
            cpu, backlog = peaks[name]
            deliveries = sum(each.deliveries for each in self.by_broker[name].values())
            return -max(cpu / cpu_most, backlog / backlog_most), -deliveries, name

        def place(name: str) -> tuple[int, str]:
            return self.order.get(name, len(self.order)), name

        names = sorted(self.by_broker, key=load)
        return sorted(names[:LOOKS], key=place), sorted(names[LOOKS:], key=place)

    def values(self, broker: str, value: Callable[[Point], float]) -> Points:
        """The values of a broker; None, a gap, for each span in which the broker was down."""
        points = self.by_broker[broker]
        return [
            (number * self.span_s, value(points[number])) if number in points else None
            for number in range(min(points), max(points) + 1)
        ]

    def steps(self, value: Callable[[Point], float]) -> list[tuple[float, float]]:
        """The sum over all brokers, as steps: level from the beginning of a span to its end."""
        totals = dict.fromkeys(sorted({number for points in self.by_broker.values() for number in points}), 0.0)
        for points in self.by_broker.values():
            for number, each in points.items():
                totals[number] += value(each)
        return [(edge * self.span_s, total) for number, total in totals.items() for edge in (number, number + 1)]


def timeline_of(run: RunSummary, from_s: float = 0.0, to_s: float | None = None) -> TimelineLines:
    """The timeline between two times, in at most `POINTS_MAX` spans."""
    points = [each for each in run.timeline if each.at_s >= from_s and (to_s is None or each.at_s <= to_s)]
    span_s = run.span_s if run.span_s > 0 else 1.0
    if not points:
        return TimelineLines(span_s=span_s, last=0, by_broker={}, order={})
    wide = max(each.at_s for each in points) - min(each.at_s for each in points)
    merged_s = span_s * max(1, -(-round(wide / span_s) // POINTS_MAX))
    by_broker: dict[str, dict[int, list[Point]]] = {}
    for each in sorted(points, key=lambda point: point.at_s):
        number = int(each.at_s / merged_s + 1e-6)
        by_broker.setdefault(each.broker, {}).setdefault(number, []).append(each)
    return TimelineLines(
        span_s=merged_s,
        order={each.name: number for number, each in enumerate(run.brokers)},
        last=max(max(each) for each in by_broker.values()),
        by_broker={
            broker: {number: _merged(same, number * merged_s) for number, same in spans.items()}
            for broker, spans in by_broker.items()
        },
    )


def lines_of(timeline: TimelineLines, value: Callable[[Point], float]) -> list[tuple[str, Points, float]]:
    """Name, line and highest value of each of the busiest brokers. `band_of` has the others."""
    names, _ = timeline.split()
    return [(name, timeline.values(name, value), max(map(value, timeline.by_broker[name].values()))) for name in names]


def band_of(timeline: TimelineLines, value: Callable[[Point], float]) -> tuple[list[tuple[float, float, float]], str]:
    """The least and the greatest value of the brokers without a line of their own, and a name for all of these."""
    _, names = timeline.split()
    found: dict[int, list[float]] = {}
    for name in names:
        for number, point in timeline.by_broker[name].items():
            found.setdefault(number, []).append(value(point))
    band = [(number * timeline.span_s, min(values), max(values)) for number, values in sorted(found.items())]
    return band, f"{len(names)} less busy, from least to most" if names else ""


def _merged(points: Iterable[Point], at_s: float) -> Point:
    """Successive spans as one: counts are added, CPU and bandwidth are means, the backlog is the highest."""
    same = list(points)
    if len(same) == 1:
        return same[0]
    return Point(
        broker=same[0].broker,
        at_s=at_s,
        cpu=sum(each.cpu for each in same) / len(same),
        clients=same[-1].clients,
        attaches=sum(each.attaches for each in same),
        deliveries=sum(each.deliveries for each in same),
        copies_in=sum(each.copies_in for each in same),
        copies_out=sum(each.copies_out for each in same),
        out_mbit=sum(each.out_mbit for each in same) / len(same),
        backlog_ms=max(each.backlog_ms for each in same),
        missed=sum(each.missed for each in same),
    )
