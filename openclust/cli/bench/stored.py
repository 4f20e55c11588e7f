"""`openclust bench cold` and `openclust bench backlog`: a broker that the bench starts, with very many messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from openclust.cli.bench.options import data_in_option
from openclust.cli.exit_codes import NO, CommandFailure
from openclust.cli.term import show_structs, wide_console

SCALES = {"": 1, "k": 1_000, "m": 1_000_000}
MESSAGES_MAX = 100_000_000

Command = TypeVar("Command", bound=Callable[..., Any])


def _amount(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """A whole number that may be written 500k or 5m."""
    match = re.fullmatch(r"(\d+)([km]?)", value.strip().lower())
    amount = int(match[1]) * SCALES[match[2]] if match else 0
    if not 1 <= amount <= MESSAGES_MAX:
        raise click.BadParameter(f"{value!r} is not a number from 1 to {MESSAGES_MAX:,}; 500k and 5m may be written")
    return amount


def _options(messages: str, size: int) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in reversed(
            (
                click.option("--messages", callback=_amount, default=messages, show_default=True, help="On the queue."),
                click.option(
                    "--size", type=click.IntRange(0, 2**27), default=size, show_default=True, help="Body bytes."
                ),
                data_in_option("Where the data directory goes.  [default: somewhere on a disk]"),
                click.option("--json", "as_json", is_flag=True, help="Print JSON."),
                click.option("--check", is_flag=True, help="Exit with 1 when a target is missed."),
            )
        ):
            command = option(command)
        return command

    return add


@click.command()
@_options("1m", 100)
@click.option("--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Starts.")
@click.option("--ended", type=click.Choice(["kill", "stop"]), default="kill", show_default=True, help="How, before.")
@click.option("--primaries", type=click.IntRange(1, 9), default=1, show_default=True, help="More are a cluster.")
def cold(
    messages: int, size: int, data_in: Path | None, rounds: int, ended: str, primaries: int, **options: Any
) -> int:
    """Fill a durable queue, end the broker, and time its start until it serves."""
    from openclust.bench.brokers.disk import folder_on_disk
    from openclust.bench.rows.stored import cold as measure_cold
    from openclust.bench.rows.stored import cold_cluster
    from openclust.cli.bench.local_bench_cluster import local_clusters

    if primaries > 1 and ended == "stop":
        raise click.UsageError("--ended stop is for one broker: those of a cluster are killed all at once")

    def measure(watcher: Any) -> list[Any]:
        if primaries > 1:
            return cold_cluster(
                local_clusters(folder_on_disk(data_in)), primaries, messages, size, rounds, watcher=watcher
            )
        return measure_cold(folder_on_disk(data_in), messages, size, rounds, killed=ended == "kill", watcher=watcher)

    return _show(measure, "filling the queue", rounds, **options)


@click.command()
@_options("5m", 1_000)
@click.option("--drain/--no-drain", default=True, show_default=True, help="Empty the queue again, and count.")
def backlog(messages: int, size: int, data_in: Path | None, drain: bool, **options: Any) -> int:
    """Fill a durable queue without a consumer, and weigh the broker."""
    from openclust.bench.brokers.disk import folder_on_disk
    from openclust.bench.rows.stored import backlog as measure_backlog

    def measure(watcher: Any) -> list[Any]:
        return measure_backlog(folder_on_disk(data_in), messages, size, draining=drain, watcher=watcher)

    return _show(measure, "filling the queue", 1, **options)


def _show(measure: Callable[[Any], list[Any]], first: str, rounds: int, *, as_json: bool, check: bool) -> int:
    from openclust.bench.client.bench_errors import BenchError
    from openclust.bench.report.progress_bar import progress
    from openclust.bench.rows.cluster_row import rows_data, show_rows

    try:
        with progress(rounds) as watcher:
            watcher.doing(first)
            rows = measure(watcher)
    except BenchError as error:
        raise CommandFailure(str(error)) from None
    if as_json:
        show_structs(rows_data(rows))
    else:
        show_rows(rows, wide_console(200))
    return NO if check and any(row.met is False for row in rows) else 0
