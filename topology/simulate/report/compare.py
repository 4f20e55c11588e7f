"""Runs side by side: designs as bars, and how latency and CPU grow with brokers and subscribers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from topology.simulate.input import units
from topology.simulate.report.chart import LOOKS, Axis, Chart
from topology.simulate.report.pictures import ChartPicture
from topology.simulate.results.choosing import brokers_of, busiest_cpu, label_of, recovery_ms
from topology.simulate.results.summary import ResultsSummary, RunSummary

PANELS_MAX = 4
"""The greatest number of drawn planes of a grid with more than two dimensions; the table has all of them."""

Value = Callable[[RunSummary], float | None]


class Bars(msgspec.Struct, frozen=True, kw_only=True):
    """A bar for each name: its value in words, and its length as a part of the longest bar."""

    title: str
    bars: list[tuple[str, str, float]]


def design_pictures(runs: Sequence[RunSummary]) -> list[Bars]:
    """A picture for each figure by which designs are compared, with a bar for each design."""
    wanted: list[tuple[str, Value, Callable[[float | None], str]]] = [
        ("Deliveries", lambda run: run.totals.delivered, units.count),
        ("Copies from broker to broker", lambda run: run.totals.copies, units.count),
        ("CPU of the busiest broker, in its busiest second", busiest_cpu, units.share),
        ("99 % of the deliveries arrive within", lambda run: run.latency.p99_ms, units.ms),
        ("Deliveries missed", lambda run: run.totals.missed, units.count),
        ("Until all clients are back, at worst", recovery_ms, units.ms),
    ]
    found = []
    for title, value, tell in wanted:
        values = [value(each) for each in runs]
        if any(each is not None for each in values):
            most = max(each or 0.0 for each in values) or 1.0
            bars = [
                (label_of(run, runs), tell(each), (each or 0.0) / most) for run, each in zip(runs, values, strict=True)
            ]
            found.append(Bars(title=title, bars=bars))
    return found


def scaling_pictures(summary: ResultsSummary) -> list[ChartPicture]:
    """p99, and the CPU of the busiest broker, against brokers and subscribers, if the runs differ in these."""
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
) -> list[ChartPicture]:
    by_line: dict[str, list[RunSummary]] = {}
    for run in sorted(runs, key=lambda each: (each.subscribers, brokers_of(each), x_of(each), each.run)):
        by_line.setdefault(line_of(run), []).append(run)
    left_out = len(by_line) - LOOKS
    shown = dict(list(by_line.items())[:LOOKS])
    drawn = [each for same in shown.values() for each in same]
    xs = [x_of(each) for each in drawn]
    wide = along == "subscribers" and max(xs) > 8 * max(min(xs), 1)
    x = Axis(label=along, is_log=wide, is_whole=x_of is brokers_of)
    note = f"{left_out} more are in the table of runs." if left_out > 0 else ""
    pictures: list[tuple[str, Axis, Callable[[RunSummary], float], float | None]] = [
        (
            f"p99 latency against {along}{where}",
            Axis(label="99 % within", tell=units.ms, is_log=True),
            lambda run: max(run.latency.p99_ms, 1e-3),
            None,
        ),
        (
            f"CPU of the busiest broker against {along}{where}",
            Axis(label="of one core", tell=units.share, low=0),
            busiest_cpu,
            1.0,
        ),
    ]
    found = []
    for title, y, y_of, limit in pictures:
        lines = {name: sorted((x_of(each), y_of(each)) for each in same) for name, same in shown.items()}
        told = "; ".join(f"{name}: {y.tell(points[0][1])} to {y.tell(points[-1][1])}" for name, points in lines.items())
        chart = Chart(title, told, x, y)
        for look, (name, points) in enumerate(lines.items()):
            chart.line(name, points, look, has_dots=True)
        if limit is not None:
            chart.limit(limit)
        chart.rings([(x_of(each), y_of(each)) for each in drawn if each.run in cheapest])
        found.append(ChartPicture(title=title, charts=[chart], note=note))
    return found


def _with_subscribers(run: RunSummary, among: Sequence[RunSummary]) -> str:
    """The name of a load's line, with the number of primaries if equally many brokers were tried with several."""
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
