"""Results as a picture. Only this module loads matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openclust.bench.client.bench_errors import BenchError
from openclust.bench.load.work import LoadWork
from openclust.bench.report.bench_report import describe
from openclust.bench.report.bench_table import MeasuredRow
from openclust.bench.report.round_summary import Summary


def check_plot(file: Path) -> None:
    """Call before measuring: a run of minutes must not end in a missing library or directory."""
    _figure_class()
    if not file.parent.is_dir():
        raise BenchError(f"--plot {file}: there is no directory {file.parent}")
    if file.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise BenchError(f"--plot {file}: name a .png, .svg or .pdf file")


def plot_summaries(work: LoadWork, summaries: Sequence[Summary], file: Path) -> None:
    """Speed, CPU (for connections memory), and latency of each broker, side by side."""
    if work.pattern == "connections":
        panels = [
            ("attached per second", [one.attaches_per_s for one in summaries]),
            ("kB per idle subscriber", [_scaled(one.idle_bytes_per_subscriber, 1e-3) for one in summaries]),
        ]
    else:
        panels = [
            ("deliveries per second", [one.deliveries_per_s for one in summaries]),
            ("broker CPU per delivery, us", [one.broker_cpu_us_per_delivery for one in summaries]),
        ]
    figure = _figure_class()(figsize=(13, 4.2), layout="constrained")
    figure.suptitle(describe(work))
    axes = figure.subplots(1, 3)
    names = [one.name for one in summaries]
    colours = [f"C{number}" for number in range(len(names))]
    for axis, (title, values) in zip(axes, panels, strict=False):
        bars = axis.bar(names, [value or 0.0 for value in values], color=colours)
        axis.bar_label(bars, labels=[_label(value) for value in values])
        axis.set_title(title)
        axis.margins(y=0.15)
    for one in summaries:
        if one.latency_ms:
            axes[2].plot(list(one.latency_ms), list(one.latency_ms.values()), marker="o", label=one.name)
    axes[2].set_title("delivery latency, ms")
    if any(one.latency_ms for one in summaries):
        axes[2].set_yscale("log")
        axes[2].legend()
    _save(figure, file)


def plot_table(results: Sequence[MeasuredRow], file: Path) -> None:
    """The CPU ratio to each other broker, a bar a row, and the target as a mark."""
    shown = [result for result in results if len(result.summaries) > 1]
    if not shown:
        raise BenchError("--plot: the table needs a broker to compare with; give --compare NAME=URL")
    figure = _figure_class()(figsize=(10, 1.5 + 0.55 * len(shown)), layout="constrained")
    axis = figure.subplots()
    others = [summary.name for summary in shown[0].summaries[1:]]
    height = 0.8 / len(others)
    for number, name in enumerate(others):
        values = [result.cpu_ratio(result.summaries[number + 1]) or 0.0 for result in shown]
        places = [row + number * height for row in range(len(shown))]
        bars = axis.barh(places, values, height=height, label=f"ratio to {name}")
        axis.bar_label(bars, labels=[f"{value:.1f} x" if value else "-" for value in values], padding=3)
    middle = 0.4 - height / 2
    for row, result in enumerate(shown):
        if result.row.measure == "cpu":
            axis.plot([result.row.target] * 2, [row - height / 2, row + 0.8 - height / 2], color="black")
    axis.set_yticks([row + middle for row in range(len(shown))], [result.row.title for result in shown])
    axis.invert_yaxis()
    axis.axvline(1, color="grey", linewidth=0.8)
    axis.margins(x=0.12)
    axis.set_title(f"{shown[0].summaries[0].name}: times as much per broker CPU-second; black: the target")
    axis.legend()
    _save(figure, file)


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise BenchError("--plot needs matplotlib: pip install 'openclust[plot]'") from None
    return Figure


def _save(figure: Any, file: Path) -> None:
    try:
        figure.savefig(file, dpi=130)
    except OSError as error:
        raise BenchError(f"--plot {file}: cannot write: {error.strerror}") from None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _label(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
