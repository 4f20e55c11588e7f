"""Pictures of single runs: load, latency, failover, and copies between brokers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from topology.simulate.input import units
from topology.simulate.report.chart import Axis, Chart
from topology.simulate.report.timeline_lines import band_of, lines_of, timeline_of
from topology.simulate.results.choosing import label_of
from topology.simulate.results.summary import FaultSummary, Latency, Point, RunSummary

FAULTS_DRAWN_MAX = 6
HEAT_MAX = 24
"""So many brokers have a row and a column of their own; all others share one."""
PANEL_HEIGHT = 150
_REST = "others"


class ChartPicture(msgspec.Struct, frozen=True, kw_only=True):
    """Charts one below the other, with the legend of the first."""

    title: str
    charts: list[Chart]
    note: str = ""


class Heat(msgspec.Struct, frozen=True, kw_only=True):
    """A number for each pair of names, with the strength of its colour from 0 to 1."""

    title: str
    names: list[str]
    numbers: dict[tuple[str, str], int]
    strengths: dict[tuple[str, str], float]


def load_pictures(run: RunSummary) -> list[ChartPicture]:
    """CPU, clients, backlog and deliveries of each broker over time; nothing for a run without a timeline."""
    timeline = timeline_of(run)
    if not timeline.by_broker:
        return []
    span_s = timeline.span_s
    wanted: list[tuple[str, str, Callable[[Point], float], Callable[[float], str]]] = [
        ("CPU of each broker", "of one core", lambda point: point.cpu, units.share),
        ("Clients of each broker", "connected", lambda point: point.clients, units.count),
        ("Backlog of each broker", "wait until what comes is begun", lambda point: point.backlog_ms, units.ms),
        ("Deliveries of each broker", "a second", lambda point: point.deliveries / span_s, units.count),
    ]
    found = []
    for title, label, value, tell in wanted:
        if not any(value(point) for points in timeline.by_broker.values() for point in points.values()):
            continue
        lines = lines_of(timeline, value)
        busiest, _, highest = max(lines, key=lambda each: each[2])
        told = f"{title} over time. The most is at {busiest}: {tell(highest)} at most."
        x = _time(0.0, (timeline.last + 1) * span_s)
        chart = Chart(title, told, x, Axis(label=label, tell=tell, low=0))
        for look, (name, points, most) in enumerate(lines):
            chart.line(name, points, look, f"{tell(most)} at most")
        chart.band(*band_of(timeline, value))
        if tell is units.share and highest > 0.8:
            chart.limit(1.0)
        for number, fault in enumerate(run.faults, 1):
            chart.mark(fault.at_s, str(number) if number <= 99 else "", fault.fault, is_named=number <= 9)
        found.append(ChartPicture(title=title, charts=[chart]))
    return found


def latency_pictures(runs: Sequence[RunSummary]) -> list[ChartPicture]:
    """The latencies of deliveries, and the share of deliveries that took longer than a given time."""
    shown = [each for each in runs if sum(each.latency.counts) > 0]
    if not shown:
        return []
    alone = len(shown) == 1
    told = {
        label_of(run, shown): f"p50 {units.ms(run.latency.p50_ms)}, p99 {units.ms(run.latency.p99_ms)}" for run in shown
    }
    told_all = "; ".join(f"{name}: {each}" for name, each in told.items())
    most = max(share for run in shown for _, share in _shares(run.latency))
    least = min(left for run in shown for _, left in _tail(run.latency))
    x = Axis(label="from send to receipt", tell=units.ms, is_log=True)
    # Room above for the words of the marks.
    y = Axis(label="of the deliveries", tell=units.share, low=0, high=most * (1.44 if alone else 1.06))
    shares = Chart("How long deliveries took", told_all, x, y)
    y = Axis(label="of the deliveries took longer", tell=units.share, low=max(least / 1.5, 5e-6), high=1.0, is_log=True)
    tails = Chart("How many took longer", told_all, x, y)
    for look, (run, name) in enumerate(zip(shown, told, strict=True)):
        shares.line(name, _shares(run.latency), look, told[name], is_filled=alone)
        tails.line(name, _tail(run.latency), look, told[name])
        if not alone:
            # The lines of several runs are too close to each other for words.
            shares.mark(run.latency.p99_ms, "", f"{name}: p99 {units.ms(run.latency.p99_ms)}", look)
            continue
        for word, at in (("p50", run.latency.p50_ms), ("p90", run.latency.p90_ms), ("p99", run.latency.p99_ms)):
            shares.mark(at, f"{word} {units.ms(at)}")
    note = "" if alone else "Vertical lines: until then 99 % had arrived."
    return [
        ChartPicture(title="How long deliveries took", charts=[shares], note=note),
        ChartPicture(title="How many took longer", charts=[tails]),
    ]


def failover_picture(run: RunSummary, fault: FaultSummary) -> ChartPicture | None:
    """Clients, attaches and missed deliveries around one fault, one chart above the other."""
    recovery_s = max(fault.back_all_ms or 0.0, fault.no_root_ms or 0.0, 1_000.0) / 1_000
    before_s = max(recovery_s * 0.25, run.span_s * 3)
    start = max(fault.at_s - before_s, 0.0)
    timeline = timeline_of(run, start, fault.at_s + recovery_s * 1.5 + run.span_s * 2)
    if not timeline.by_broker:
        return None
    span_s = timeline.span_s
    x = _time(start, max((timeline.last + 1) * span_s, fault.at_s + span_s))
    panels: list[tuple[str, Callable[[Point], float], int]] = [
        ("clients connected", lambda point: point.clients, 0),
        ("attaches a second", lambda point: point.attaches / span_s, 2),
        ("deliveries missed a second", lambda point: point.missed / span_s, 1),
    ]
    charts = []
    for label, value, look in panels:
        points = timeline.steps(value)
        is_first = look == 0
        told = f"At most {units.count(max(each[1] for each in points))} in the time that is shown."
        y = Axis(label=label, low=None if is_first else 0)
        chart = Chart(f"{fault.fault}: {label}", told, x, y, PANEL_HEIGHT)
        if fault.no_root_ms:
            name = f"no root for {units.ms(fault.no_root_ms)}"
            chart.span(fault.at_s, fault.at_s + fault.no_root_ms / 1_000, name)
        chart.line(label, points, look, is_filled=not is_first)
        chart.mark(fault.at_s, "!", fault.fault, is_named=True)
        for word, time in (("half", fault.back_p50_ms), ("all", fault.back_all_ms)):
            if is_first and time is not None and fault.lost_clients:
                chart.mark(fault.at_s + time / 1_000, f"{word} back", at_bottom=True)
        charts.append(chart)
    return ChartPicture(title=fault.fault, charts=charts)


def copies_picture(run: RunSummary, among: Sequence[RunSummary]) -> Heat | None:
    """The copies between brokers: a row for each sender, a column for each receiver."""
    copies: dict[tuple[str, str], int] = {}
    total: dict[str, int] = {}
    for link in run.links:
        for name in (link.from_, link.to):
            total[name] = total.get(name, 0) + link.copies
    kept = set(
        sorted(total, key=lambda name: (-total[name], name))[: HEAT_MAX if len(total) <= HEAT_MAX else HEAT_MAX - 1]
    )
    for link in run.links:
        pair = (link.from_ if link.from_ in kept else _REST, link.to if link.to in kept else _REST)
        copies[pair] = copies.get(pair, 0) + link.copies
    order = {each.name: number for number, each in enumerate(run.brokers)}
    names = sorted(kept, key=lambda name: (order.get(name, len(order)), name)) + (
        [_REST] if len(total) > len(kept) else []
    )
    if not any(copies.values()):
        return None
    where = f": {label_of(run, among)}" if len(among) > 1 else ""
    most = max(copies.values())
    # The square root keeps small numbers visible beside large ones.
    strengths = {pair: 0.12 + 0.88 * math.sqrt(number / most) for pair, number in copies.items() if number}
    return Heat(title=f"Copies from broker to broker{where}", names=names, numbers=copies, strengths=strengths)


def _time(start: float, end: float) -> Axis:
    return Axis(low=start, high=end if end > start else start + 1.0, label="seconds", tell=lambda at: f"{at:g}")


def _shares(latency: Latency) -> list[tuple[float, float]]:
    """A line of steps: the share of each bucket, from its lower to its upper edge."""
    total = sum(latency.counts)
    found = []
    for number, each in enumerate(latency.counts):
        low, high = latency.edges_us[number], latency.edges_us[number + 1]
        if low > 0 and (each or _around(latency.counts, number) > 0):
            found += [(low / 1_000, each / total), (high / 1_000, each / total)]
    return found


def _around(counts: Sequence[int], number: int) -> int:
    """More than 0 if there are deliveries in lower buckets and in higher ones."""
    return min(sum(counts[:number]), sum(counts[number + 1 :]))


def _tail(latency: Latency) -> list[tuple[float, float]]:
    total = left = sum(latency.counts)
    found = []
    for each, edge in zip(latency.counts, latency.edges_us[1:], strict=True):
        left -= each
        if left <= 0:
            break
        if edge > 0:
            found.append((edge / 1_000, left / total))
    first = next(edge for each, edge in zip(latency.counts, latency.edges_us, strict=False) if each)
    return [(max(first, 1e-3) / 1_000, 1.0), *(each for each in found if each[0] * 1_000 > first)]
