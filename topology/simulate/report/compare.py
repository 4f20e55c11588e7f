"""Runs side by side: designs as bars, and how latency and CPU grow with brokers and subscribers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from topology.simulate.input import units
from topology.simulate.report.chart import LOOKS, Axis, Chart, Line, axis_of, chart_figure, figure
from topology.simulate.report.html import Html, element
from topology.simulate.results.choosing import brokers_of, busiest_cpu, label_of, recovery_ms
from topology.simulate.results.summary import RunSummary, Summary

PANELS_MAX = 4
"""Of a grid with more dimensions than two, so many planes are drawn; the table has all."""

Value = Callable[[RunSummary], float | None]


def design_pictures(runs: Sequence[RunSummary]) -> list[Html]:
    """A bar for each design, of each of what people argue about."""
    wanted: list[tuple[str, Value, Callable[[float | None], str]]] = [
        ("Deliveries", lambda run: run.totals.delivered, units.count),
        ("Copies from broker to broker", lambda run: run.totals.copies, units.count),
        ("CPU of the busiest broker, in its busiest second", busiest_cpu, units.share),
        ("99 % of the deliveries arrive within", lambda run: run.latency.p99_ms, units.ms),
        ("Deliveries missed", lambda run: run.totals.missed, units.count),
        ("Until all clients are back, at worst", recovery_ms, units.ms),
    ]
    names = [label_of(each, runs) for each in runs]
    return [
        figure(title, _bars(names, [value(each) for each in runs], tell))
        for title, value, tell in wanted
        if any(value(each) is not None for each in runs)
    ]


def scaling_pictures(summary: Summary) -> list[Html]:
    """p99 and CPU of the busiest against brokers, and against subscribers, as far as the runs differ in them."""
    cheapest = {each.run for each in (summary.sweep.cheapest if summary.sweep else []) if each.run is not None}
    planes: dict[tuple[str, float], list[RunSummary]] = {}
    for run in summary.runs:
        planes.setdefault((run.design, run.rate), []).append(run)
    rates = {rate for _, rate in planes}
    designs = {design for design, _ in planes}
    found = []
    for (design, rate), runs in list(planes.items())[:PANELS_MAX]:
        parts = [design] if len(designs) > 1 else []
        parts += [f"rate x {rate:g}"] if len(rates) > 1 else []
        where = f" ({', '.join(parts)})" if parts else ""
        if len({brokers_of(each) for each in runs}) > 1:
            found += _curves(runs, where, cheapest, "brokers", brokers_of, partial(_with_subscribers, among=runs))
        if len({each.subscribers for each in runs}) > 1:
            found += _curves(runs, where, cheapest, "subscribers", lambda run: run.subscribers, _with_layout)
    if not found and len(rates) > 1:
        found = _curves(
            summary.runs, "", cheapest, "times the rate", lambda run: run.rate, lambda run: _with_design(run, designs)
        )
    return found


def _with_design(run: RunSummary, designs: set[str]) -> str:
    return run.design if len(designs) > 1 else _with_layout(run)


def _curves(
    runs: Sequence[RunSummary],
    where: str,
    cheapest: set[int],
    along: str,
    x_of: Callable[[RunSummary], float],
    line_of: Callable[[RunSummary], str],
) -> list[Html]:
    by_line: dict[str, list[RunSummary]] = {}
    for run in sorted(runs, key=lambda each: (each.subscribers, brokers_of(each), x_of(each), each.run)):
        by_line.setdefault(line_of(run), []).append(run)
    left_out = len(by_line) - LOOKS
    shown = dict(list(by_line.items())[:LOOKS])
    drawn = [each for same in shown.values() for each in same]
    xs = [x_of(each) for each in drawn]
    wide = along == "subscribers" and max(xs) > 8 * max(min(xs), 1)
    x = axis_of(xs, along, units.count, is_log=True) if wide else _near_axis(xs, along, x_of is brokers_of)
    note = f"{left_out} more are in the table of runs." if left_out > 0 else ""
    p99 = [max(each.latency.p99_ms, 1e-3) for each in drawn]
    cpu = [busiest_cpu(each) for each in drawn]
    pictures: list[tuple[str, Axis, Callable[[RunSummary], float], float | None]] = [
        (
            f"p99 latency against {along}{where}",
            axis_of(p99, "99 % within", units.ms, is_log=True),
            lambda run: max(run.latency.p99_ms, 1e-3),
            None,
        ),
        (
            f"CPU of the busiest broker against {along}{where}",
            axis_of([*cpu, 1.0], "of one core", units.share),
            busiest_cpu,
            1.0,
        ),
    ]
    found = []
    for title, y, y_of, limit in pictures:
        lines = []
        for look, (name, same) in enumerate(shown.items()):
            points = sorted((x_of(each), y_of(each)) for each in same)
            lines.append(Line(name=name, points=points, look=look, has_dots=True))
        rings = [(x_of(each), y_of(each)) for each in drawn if each.run in cheapest]
        told = "; ".join(f"{each.name}: {_ends(each, y)}" for each in lines)
        chart = Chart(title=title, told=told, x=x, y=y, lines=lines, limit=limit, rings=rings)
        found.append(chart_figure(chart, note))
    return found


def _ends(line: Line, axis: Axis) -> str:
    whole = [each for each in line.points if each is not None]
    return f"{axis.tell(whole[0][1])} to {axis.tell(whole[-1][1])}"


def _with_subscribers(run: RunSummary, among: Sequence[RunSummary]) -> str:
    """The line of one load; where as many brokers were tried with more and with fewer primaries, of each of these."""
    name = units.plural(run.subscribers, "subscriber")
    splits: dict[int, set[int]] = {}
    for each in among:
        splits.setdefault(brokers_of(each), set()).add(each.primaries)
    if any(len(each) > 1 for each in splits.values()):
        name += f", {units.plural(run.primaries, 'primary').replace('primarys', 'primaries')}"
    return name


def _with_layout(run: RunSummary) -> str:
    if not run.secondaries:
        return units.plural(run.primaries, "broker")
    return f"{run.primaries} + {run.secondaries} brokers"


def _near_axis(xs: Sequence[float], label: str, is_whole: bool) -> Axis:
    """From the first to the last, with a little room, so that no dot lies on the frame."""
    room = (max(xs) - min(xs)) * 0.04 or 1.0
    return Axis(low=min(xs) - room, high=max(xs) + room, label=label, is_whole=is_whole)


def _bars(names: Sequence[str], values: Sequence[float | None], tell: Callable[[float | None], str]) -> Html:
    most = max((each for each in values if each is not None), default=0.0) or 1.0
    rows = []
    for look, (name, value) in enumerate(zip(names, values, strict=True)):
        width = f"width: {100 * (value or 0.0) / most:.1f}%"
        bar = element("span", class_=f"bar c{look % LOOKS}", style=width, aria_hidden="true") if value else ""
        rows += [element("dt", name), element("dd", bar), element("dd", tell(value), class_="told")]
    return element("dl", *rows, class_="bars")
