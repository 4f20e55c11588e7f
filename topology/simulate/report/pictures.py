"""Pictures of single runs: load, latency, failover, and who copies to whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from topology.simulate.input import units
from topology.simulate.report.chart import Axis, Chart, Line, Mark, axis_of, chart_figure, figure, legend, picture
from topology.simulate.report.html import Html, element
from topology.simulate.report.timeline_lines import Timeline, band_of, lines_of, timeline_of
from topology.simulate.results.choosing import label_of
from topology.simulate.results.summary import FaultSummary, Latency, Point, RunSummary

FAULTS_DRAWN_MAX = 6
HEAT_MAX = 24
"""Brokers that have a row and a column; the rest are one together."""
PANEL_HEIGHT = 150.0
_REST = "others"


def load_pictures(run: RunSummary) -> list[Html]:
    """CPU, clients, backlog and deliveries of each broker over time; nothing where no timeline is."""
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
        if any(value(point) for points in timeline.by_broker.values() for point in points.values()):
            found.append(_load_picture(run, timeline, title, label, value, tell))
    return found


def _load_picture(
    run: RunSummary,
    timeline: Timeline,
    title: str,
    label: str,
    value: Callable[[Point], float],
    tell: Callable[[float], str],
) -> Html:
    lines = lines_of(timeline, value, tell)
    band, band_name = band_of(timeline, value)
    values = [each[1] for line in lines for each in line.points if each is not None] + [each[2] for each in band]
    is_cpu = tell is units.share
    busiest = max(lines, key=lambda each: max(point[1] for point in each.points if point is not None))
    chart = Chart(
        title=title,
        told=f"{title} over time. The most is at {busiest.name}: {busiest.told}.",
        x=_time(0.0, (timeline.last + 1) * timeline.span_s),
        y=axis_of([*values, 1.0] if is_cpu and max(values) > 0.8 else values, label, tell),
        lines=lines,
        marks=_fault_marks(run),
        band=band,
        band_name=band_name,
        limit=1.0 if is_cpu else None,
    )
    return chart_figure(chart)


def latency_pictures(runs: Sequence[RunSummary]) -> list[Html]:
    """How long deliveries took, and how many took longer than so long."""
    shown = [each for each in runs if sum(each.latency.counts) > 0]
    if not shown:
        return []
    edges = [edge for run in shown for edge in _edges(run.latency)]
    x = axis_of([edge / 1_000 for edge in edges], "from send to receipt", units.ms, is_log=True)
    alone = len(shown) == 1
    shares, tails, marks = [], [], []
    for look, run in enumerate(shown):
        name = label_of(run, shown)
        told = f"p50 {units.ms(run.latency.p50_ms)}, p99 {units.ms(run.latency.p99_ms)}"
        shares.append(Line(name=name, points=_shares(run.latency), look=look, told=told, is_filled=alone))
        tails.append(Line(name=name, points=_tail(run.latency), look=look, told=told))
        quantiles = [("p50", run.latency.p50_ms), ("p90", run.latency.p90_ms), ("p99", run.latency.p99_ms)]
        for word, at in quantiles if alone else quantiles[2:]:
            told_there = f"{word} {units.ms(at)}"
            # Of several runs the lines lie too near each other for words.
            mark = (
                Mark(at=at, text=told_there) if alone else Mark(at=at, text="", told=f"{name}: {told_there}", look=look)
            )
            marks.append(mark)
    told = "; ".join(f"{line.name}: {line.told}" for line in shares)
    values = [point[1] for line in shares for point in line.points if point is not None]
    least = min(point[1] for line in tails for point in line.points if point is not None)
    y = Axis(low=max(least / 1.5, 5e-6), high=1.0, label="of the deliveries took longer", tell=units.share, is_log=True)
    return [
        chart_figure(
            Chart(
                title="How long deliveries took",
                told=told,
                x=x,
                # Room above for what the marks say.
                y=axis_of([*values, max(values) * (1.36 if alone else 1)], "of the deliveries", units.share),
                lines=shares,
                marks=marks,
            ),
            note="" if alone else "Vertical lines: until then 99 % had arrived.",
        ),
        chart_figure(Chart(title="How many took longer", told=told, x=x, y=y, lines=tails)),
    ]


def failover_picture(run: RunSummary, fault: FaultSummary) -> Html | None:
    """Clients, attaches and missed deliveries around one fault, one above the other."""
    recovery_s = max(fault.back_all_ms or 0.0, fault.no_root_ms or 0.0, 1_000.0) / 1_000
    before_s = max(recovery_s * 0.25, run.span_s * 3)
    start = max(fault.at_s - before_s, 0.0)
    timeline = timeline_of(run, start, fault.at_s + recovery_s * 1.5 + run.span_s * 2)
    if not timeline.by_broker:
        return None
    span_s = timeline.span_s
    end = max((timeline.last + 1) * span_s, fault.at_s + span_s)
    x = _time(start, end)
    spans = []
    if fault.no_root_ms:
        spans.append((fault.at_s, fault.at_s + fault.no_root_ms / 1_000, f"no root for {units.ms(fault.no_root_ms)}"))
    back = [
        Mark(at=fault.at_s + time / 1_000, text=f"{word} back")
        for word, time in (("half", fault.back_p50_ms), ("all", fault.back_all_ms))
        if time is not None and fault.lost_clients
    ]
    panels: list[tuple[str, Callable[[Point], float], int]] = [
        ("clients connected", lambda point: point.clients, 0),
        ("attaches a second", lambda point: point.attaches / span_s, 2),
        ("deliveries missed a second", lambda point: point.missed / span_s, 1),
    ]
    charts = []
    for label, value, look in panels:
        points = timeline.steps(value)
        is_first = look == 0
        y = axis_of([each[1] for each in points], label, units.count, from_zero=not is_first)
        most = max(each[1] for each in points)
        charts.append(
            Chart(
                title=f"{fault.fault}: {label}",
                told=f"At most {units.count(most)} in the time that is shown.",
                x=x,
                y=y,
                lines=[Line(name=label, points=points, look=look, is_filled=not is_first)],
                marks=[Mark(at=fault.at_s, text="!", name=fault.fault), *(back if is_first else [])],
                spans=spans,
                height=PANEL_HEIGHT,
                tells_below=True,
            )
        )
    return figure(fault.fault, *(picture(each) for each in charts), legend(charts[0]))


def copies_picture(run: RunSummary, among: Sequence[RunSummary]) -> Html | None:
    """Who copied how much to whom: a row for each broker that sent, a column for each that was sent to."""
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
    return figure(
        f"Copies from broker to broker{where}", _heat(names, copies), note="From the row's broker to the column's."
    )


def _heat(names: Sequence[str], copies: dict[tuple[str, str], int]) -> Html:
    left, side = 92.0, min(60.0, 480.0 / max(len(names), 4))
    # The names above the columns lean: as high as the longest.
    top = 24.0 + 6.5 * max(len(_short(name)) for name in names)
    tall = min(side, 32.0)
    most = max(copies.values())
    found = []
    for row, from_ in enumerate(names):
        y = top + row * tall
        found.append(element("text", _short(from_), x=left - 6, y=y + tall / 2 + 4, class_="end ink"))
        at = f"translate({left + row * side + side / 2:.1f} {top - 6:.1f}) rotate(-60)"
        found.append(element("text", _short(from_), transform=at, class_="ink"))
        for column, to in enumerate(names):
            x, number = left + column * side, copies.get((from_, to), 0)
            told = element("title", f"{from_} to {to}: {units.count(number)}")
            if not number:
                found.append(element("rect", told, x=x, y=y, width=side, height=tall, class_="empty"))
                continue
            # The root keeps what is few to be seen beside what is many.
            strength = f"{0.12 + 0.88 * math.sqrt(number / most):.2f}"
            found.append(element("rect", told, x=x, y=y, width=side, height=tall, class_="cell", fill_opacity=strength))
            if len(names) <= 8:
                color = "on" if float(strength) > 0.6 else "ink"
                middle = x + side / 2
                text = element("text", units.count(number), x=middle, y=y + tall / 2 + 4, class_=f"middle {color}")
                found.append(text)
    width, height = left + len(names) * side + 40, top + len(names) * tall + 6
    title, told = element("title", "Copies from broker to broker"), element("desc", _told_copies(copies))
    style = f"max-width: {width * 1.2:.0f}px"
    return element(
        "svg", title, told, *found, viewBox=f"0 0 {width:.0f} {height:.0f}", role="img", class_="chart", style=style
    )


def _told_copies(copies: dict[tuple[str, str], int]) -> str:
    """The three largest, for who does not see the picture."""
    largest = sorted(copies, key=lambda pair: (-copies[pair], pair))[:3]
    return "Most: " + ", ".join(f"{from_} to {to} {units.count(copies[from_, to])}" for from_, to in largest) + "."


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:11]}…"


def _time(start: float, end: float) -> Axis:
    return Axis(low=start, high=end if end > start else start + 1.0, label="seconds", tell=lambda at: f"{at:g}")


def _fault_marks(run: RunSummary) -> list[Mark]:
    return [
        Mark(at=fault.at_s, text=str(number) if number <= 99 else "", name=fault.fault if number <= 9 else "")
        for number, fault in enumerate(run.faults, 1)
    ]


def _edges(latency: Latency) -> list[float]:
    """Of the buckets that hold something."""
    held = [number for number, each in enumerate(latency.counts) if each]
    return [edge for edge in latency.edges_us[held[0] : held[-1] + 2] if edge > 0]


def _shares(latency: Latency) -> list[tuple[float, float]]:
    """Steps: each bucket's share, from its edge to the next."""
    total = sum(latency.counts)
    found = []
    for number, each in enumerate(latency.counts):
        low, high = latency.edges_us[number], latency.edges_us[number + 1]
        if low > 0 and (each or _around(latency.counts, number) > 0):
            found += [(low / 1_000, each / total), (high / 1_000, each / total)]
    return found


def _around(counts: Sequence[int], number: int) -> int:
    """More than 0 where a bucket lies between others that hold something."""
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
