"""The results of a simulation as text for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openclust.shell.host.event_log import escape
from topology.simulate.input import units
from topology.simulate.results.answer import answer_of
from topology.simulate.results.choosing import busiest_cpu, layout_of, recovery_ms
from topology.simulate.results.summary import BrokerSummary, QueueSummary, ResultsSummary, RunSummary

BROKERS_MAX = 40
RUNS_MAX = 200
ANSWER_MAX = 30
_BROKER_WORDS, _QUEUE_WORDS = 2, 1
_RUN_WORDS = ("run", "design", "brokers")
_SAME = ("design", "subscribers", "rate", "missed", "all back")
"""Columns that are left out if all runs have the same value."""


def show(summary: ResultsSummary, console: Console) -> None:
    """Of one run: brokers, queues and faults. Of several runs: a line for each, and the comparison."""
    title = summary.title or "simulation"
    console.print(Text(escape(title), style="bold"), soft_wrap=True)
    if len(summary.runs) == 1:
        _show_run(summary.runs[0], console)
    elif summary.runs:
        _show_runs(summary, console)
    answer = answer_of(summary)
    for line in answer[:ANSWER_MAX]:
        _say(line, console)
    if len(answer) > ANSWER_MAX:
        _say(f"{len(answer) - ANSWER_MAX} more lines are in the report", console)
    for note in summary.notes:
        _say(f"note: {note}", console)


def _show_run(run: RunSummary, console: Console) -> None:
    headers = ("broker", "role", "clients", "deliveries", "copies in", "copies out", "CPU", "busiest", "out", "backlog")
    rows = [_broker_row(each) for each in run.brokers[:BROKERS_MAX]]
    if rows:
        _show_table(console, headers, rows, _BROKER_WORDS)
    if len(run.brokers) > BROKERS_MAX:
        _say(f"{len(run.brokers) - BROKERS_MAX} more brokers are in the report", console)
    if run.queues:
        columns = ("shared queues", "published", "consumed", "p50", "p99", "backlog", "busy")
        _show_table(console, columns, [_queue_row(each) for each in run.queues], _QUEUE_WORDS)
    totals = run.totals
    _say(
        f"{units.count(totals.publications)} published, {units.count(totals.delivered)} delivered, "
        f"{units.count(totals.missed)} missed, {units.count(totals.copies)} copies between brokers "
        f"({units.size(totals.copies_bytes)}), {units.seconds(totals.cpu_s)} of CPU",
        console,
    )


def _show_runs(summary: ResultsSummary, console: Console) -> None:
    rows = [_run_row(each) for each in summary.runs[:RUNS_MAX]]
    # A column with one value in all rows would only make the table too wide for a terminal.
    kept = [name for name in rows[0] if name not in _SAME or len({row[name] for row in rows}) > 1]
    words = sum(name in _RUN_WORDS for name in kept)
    _show_table(console, kept, [[row[name] for name in kept] for row in rows], words)
    if len(summary.runs) > RUNS_MAX:
        _say(f"{len(summary.runs) - RUNS_MAX} more runs are in the report", console)


def _broker_row(broker: BrokerSummary) -> tuple[str, ...]:
    return (
        broker.name,
        broker.role,
        units.count(broker.clients_max),
        units.count(broker.deliveries),
        units.count(broker.copies_in),
        units.count(broker.copies_out),
        units.share(broker.cpu_mean),
        units.share(broker.cpu_max),
        units.mbit(broker.out_mbit_max),
        units.ms(broker.backlog_ms_max),
    )


def _queue_row(queue: QueueSummary) -> tuple[str, ...]:
    return (
        queue.name,
        units.count(queue.published),
        units.count(queue.consumed),
        units.ms(queue.wait_p50_ms),
        units.ms(queue.wait_p99_ms),
        units.count(queue.backlog_max),
        units.share(queue.consumers_busy),
    )


def _run_row(run: RunSummary) -> dict[str, str]:
    return {
        "run": str(run.run),
        "design": run.design,
        "brokers": layout_of(run).removesuffix(" brokers").removesuffix(" broker"),
        "subscribers": units.count(run.subscribers),
        "rate": f"x {run.rate:g}",
        "delivered": units.count(run.totals.delivered),
        "missed": units.count(run.totals.missed),
        "copies": units.count(run.totals.copies),
        "p50": units.ms(run.latency.p50_ms),
        "p99": units.ms(run.latency.p99_ms),
        "CPU": units.share(busiest_cpu(run)),
        "all back": units.ms(recovery_ms(run)),
        "room": f"x {units.three(run.bottleneck.room)}" if run.bottleneck else units.NOTHING,
    }


def _show_table(console: Console, headers: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> None:
    """Shows a table; in a pipe without borders, as wide as its contents. Names may hold any text: they are escaped."""
    cells = [[escape(cell) for cell in row] for row in rows]
    if console.is_terminal:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for number, header in enumerate(headers):
            table.add_column(header, justify="left" if number < words else "right", overflow="fold")
        for row in cells:
            table.add_row(*map(Text, row))
        console.print(table)
        return
    widths = [max(len(row[number]) for row in (headers, *cells)) for number in range(len(headers))]
    for row in ([*headers], *cells):
        told = [
            cell.ljust(width) if number < words else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        console.print(Text("  ".join(told).rstrip()), soft_wrap=True)


def _say(line: str, console: Console) -> None:
    console.print(Text(escape(line)), soft_wrap=not console.is_terminal)
