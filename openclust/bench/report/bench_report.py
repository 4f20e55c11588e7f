"""Results for people (tables) and for programs (plain data for JSON)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from openclust.bench.load.work import LoadWork
from openclust.bench.report.bench_table import MeasuredRow, measured
from openclust.bench.report.round_summary import Summary, ratio_of_deliveries
from openclust.bench.report.statistics import PERCENTILES, RatioRange, percentile_name, ratio


def show_summaries(work: LoadWork, summaries: Sequence[Summary], console: Console) -> None:
    """One broker a column, and the ratios of the first to each of the others."""
    console.print(describe(work), soft_wrap=True)
    shown = Table()
    shown.add_column("")
    for summary in summaries:
        shown.add_column(f"{summary.name} ({summary.product})" if summary.product else summary.name, justify="right")
    for label, cells in _lines(work, summaries):
        if any(cell != "-" for cell in cells):
            shown.add_row(label, *cells)
    console.print(shown)
    for name, ratios in ratios_to_others(work, summaries).items():
        said = ", ".join(
            _described(found, what, summaries[0].starts) for what, found in ratios.items() if found is not None
        )
        console.print(f"{summaries[0].name} / {name}: {said or 'no ratio: nothing to compare'}", soft_wrap=True)
    for summary in summaries:
        for note in summary.notes:
            console.print(f"note, {summary.name}: {note}", soft_wrap=True)


def show_table(results: Sequence[MeasuredRow], console: Console) -> None:
    """The table of targets: a line for each row, with the ratios to each other broker."""
    brokers = next((result.summaries for result in results if result.summaries), [])
    shown = Table()
    for column in ("work", "target"):
        shown.add_column(column)
    for other in brokers[1:]:
        shown.add_column(f"CPU ratio to {other.name}", justify="right")
        shown.add_column("wall ratio", justify="right")
    shown.add_column("met")
    for broker in brokers:
        shown.add_column(broker.name, justify="right")
    for result in results:
        if result.failed:
            shown.add_row(result.row.title, result.row.target_text, *["-"] * (2 * len(brokers[1:])), "failed")
            continue
        ratios = [cell for other in result.summaries[1:] for cell in _ratio_cells(result, other)]
        figures = [_figure(result, summary) for summary in result.summaries]
        shown.add_row(result.row.title, result.row.target_text, *ratios, _met(result.met), *figures)
    console.print(shown)
    console.print("; ".join(f"{broker.name}: {broker.product}" for broker in brokers), soft_wrap=True)
    for result in results:
        if result.failed:
            console.print(f"failed, {result.row.key}: {result.failed}", soft_wrap=True)
        for summary in result.summaries:
            for note in summary.notes:
                console.print(f"note, {result.row.key}, {summary.name}: {note}", soft_wrap=True)


def ratios_to_others(work: LoadWork, summaries: Sequence[Summary]) -> dict[str, dict[str, RatioRange | None]]:
    """The first broker's figures over the other's, by the other's name; for memory the inverse: more is better."""
    first, found = summaries[0], {}
    for other in summaries[1:]:
        if work.pattern == "connections":
            found[other.name] = {
                "attaches_per_broker_cpu_second": _single_ratio(
                    first.attaches_per_broker_cpu_s, other.attaches_per_broker_cpu_s
                ),
                "attaches_per_second": _single_ratio(first.attaches_per_s, other.attaches_per_s),
                "less_memory_idle": _single_ratio(other.idle_bytes_per_subscriber, first.idle_bytes_per_subscriber),
            }
        else:
            found[other.name] = {
                "deliveries_per_broker_cpu_second": ratio_of_deliveries(first, other, "broker_cpu_s"),
                "deliveries_per_second": ratio_of_deliveries(first, other, "elapsed_s"),
            }
    return found


def _single_ratio(ours: float | None, theirs: float | None) -> RatioRange | None:
    found = ratio(ours, theirs)
    return None if found is None else RatioRange(found, found, found, 1)


def _described(found: RatioRange, measure: str, starts: int) -> str:
    """`0.99 x deliveries per second (0.96 to 1.03 in 5 starts)`."""
    of = "starts" if starts > 1 else "rounds"
    spread = f" ({found.spread} in {found.count} {of})" if found.spread else ""
    return f"{found.value:.2f} x {measure.replace('_', ' ')}{spread}"


def summaries_data(work: LoadWork, summaries: Sequence[Summary]) -> dict[str, Any]:
    """For `--json` of one pattern."""
    others = ratios_to_others(work, summaries)
    return {
        "work": msgspec.to_builtins(work),
        "brokers": msgspec.to_builtins(list(summaries)),
        "ratios": {
            name: {measure: found and found.value for measure, found in ratios.items()}
            for name, ratios in others.items()
        },
        "ratio_ranges": msgspec.to_builtins(others),
    }


def table_data(results: Sequence[MeasuredRow]) -> dict[str, Any]:
    """For `--json` of the table."""
    rows = []
    for result in results:
        others = {
            other.name: {"cpu": result.cpu_ratio(other), "wall": result.wall_ratio(other)}
            for other in result.summaries[1:]
        }
        rows.append(
            {
                "row": result.row.key,
                "title": result.row.title,
                "measure": result.row.measure,
                "target": result.row.target,
                "met": result.met,
                "failed": result.failed or None,
                **summaries_data(result.row.work, result.summaries),
                "ratios": others,
            }
            if result.summaries
            else {"row": result.row.key, "target": result.row.target, "met": None, "failed": result.failed}
        )
    return {"rows": rows}


def describe(work: LoadWork) -> str:
    """The work in half a line."""
    limit = f"{work.rate:g} messages/s" if work.rate else f"{work.window:,} in flight"
    match work.pattern:
        case "fanout":
            return f"fan-out to {work.subscribers:,} subscribers, {work.size:,} bytes, {limit}"
        case "topic":
            bound = f"{work.bindings:,} wildcard bindings, {work.keys:,} keys, {work.subscribers:,} subscribers"
            return f"topic exchange, {bound}, {work.size:,} bytes, {limit}"
        case "p2p":
            return f"point to point, {work.size:,} bytes, {limit}"
        case "shared":
            return f"shared queue, {work.size:,} bytes, {limit}"
        case "confirm" | "durable":
            kind = "durable queue, persistent messages" if work.pattern == "durable" else "point to point"
            limit = f"{work.rate:g} messages/s" if work.rate else f"{work.window:,} unconfirmed"
            return f"{kind}, {work.size:,} bytes, {limit}, prefetch {work.prefetch:,}"
        case "connections":
            return f"attaching {work.subscribers:,} subscribers"


def _lines(work: LoadWork, summaries: Sequence[Summary]) -> list[tuple[str, list[str]]]:
    lines: list[tuple[str, list[str]]] = []

    def line(label: str, cells: list[str]) -> None:
        lines.append((label, cells))

    if work.pattern == "connections":
        # These few messages are sent to measure memory; their speed tells nothing.
        line("attached per second", [_number(one.attaches_per_s) for one in summaries])
        line("attached per broker CPU-second", [_number(one.attaches_per_broker_cpu_s) for one in summaries])
        line("memory per idle subscriber", [_kilobytes(one.idle_bytes_per_subscriber) for one in summaries])
        after = [_kilobytes(one.bytes_per_subscriber_after_traffic) for one in summaries]
        line("memory per subscriber after traffic", after)
        return lines
    line("messages per second", [_number(one.messages_per_s) for one in summaries])
    line("deliveries per second", [_number(one.deliveries_per_s) for one in summaries])
    line("deliveries per broker CPU-second", [_number(one.deliveries_per_broker_cpu_s) for one in summaries])
    line("broker CPU per delivery", [_micro(one.broker_cpu_us_per_delivery) for one in summaries])
    line("broker memory", [_megabytes(one.broker_rss_bytes) for one in summaries])
    for percent in PERCENTILES:
        name = percentile_name(percent)
        line(f"latency {name}", [_milliseconds(one.latency_ms.get(name)) for one in summaries])
    for percent in PERCENTILES:
        name = percentile_name(percent)
        line(f"confirm latency {name}", [_milliseconds(one.confirm_latency_ms.get(name)) for one in summaries])
    line("load generator busy", [_percent(one.generator_busy) for one in summaries])
    return lines


def _figure(result: MeasuredRow, summary: Summary) -> str:
    if result.row.measure == "memory":
        idle, after = summary.idle_bytes_per_subscriber, summary.bytes_per_subscriber_after_traffic
        return "-" if idle is None else f"{_kilobytes(idle)}, {_kilobytes(after)} after traffic"
    speed = f"{_number(measured(result.row, summary))}/s"
    if result.row.measure == "attach" or summary.broker_cpu_us_per_delivery is None:
        return speed
    return f"{_micro(summary.broker_cpu_us_per_delivery)}, {speed}"


def _ratio_cells(result: MeasuredRow, other: Summary) -> tuple[str, str]:
    return _times(result.cpu_ratio(other)), _times(result.wall_ratio(other))


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} x"


def _met(met: bool | None) -> str:
    return "-" if met is None else "yes" if met else "no"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _micro(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f} us"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f} ms"


def _kilobytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e3:,.1f} kB"


def _megabytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:,.1f} MB"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
