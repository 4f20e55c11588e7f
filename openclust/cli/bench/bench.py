"""`openclust bench`: makes a load from the options, runs it, and shows the results."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from openclust.bench.brokers.checkout import Checkout
from openclust.bench.brokers.disk import described, folder_on_disk
from openclust.bench.brokers.local_broker import StartedBroker
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.url import parse_named_urls, parse_url
from openclust.bench.load.comparison import (
    Contender,
    Measured,
    in_turn,
    introduce,
    run_rounds,
    run_starts,
    with_distinct_names,
)
from openclust.bench.load.work import LoadWork, Pattern
from openclust.bench.report.bench_report import show_summaries, show_table, summaries_data, table_data
from openclust.bench.report.bench_table import ROWS, MeasuredRow, in_running_order, select_rows
from openclust.bench.report.plot import check_plot, plot_summaries, plot_table
from openclust.bench.report.progress_bar import progress
from openclust.bench.report.round_summary import summarize
from openclust.cli.bench.calibrate import calibrate
from openclust.cli.bench.cluster_targets import cluster
from openclust.cli.bench.options import compare_checkout_option, data_in_option
from openclust.cli.bench.stored import backlog, cold
from openclust.cli.exit_codes import FAILED, NO, CommandFailure
from openclust.cli.term import show_structs, wide_console

DEFAULT_URL = "amqp://guest:guest@127.0.0.1:5672/"
TERMINATED = 128 + signal.SIGTERM

Command = TypeVar("Command", bound=Callable[..., Any])


class TableByDefault(click.Group):
    """Without a subcommand it is `table`, with all of its options; `--calibrate FILE` is `calibrate FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first, _, file = args[0].partition("=") if args else ("", "", "")
        if first == "--calibrate":
            args = ["calibrate", *([file] if file else []), *args[1:]]
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["table", *args]
        return super().parse_args(ctx, args)


@click.group(cls=TableByDefault)
@click.pass_context
def bench(context: click.Context) -> None:
    """Measure a broker, or compare brokers, over AMQP 0-9-1.

    Without a subcommand: the table of openclust's targets (`table`). `--calibrate FILE` is `calibrate FILE`.
    """
    context.with_resource(_orderly_end())


@contextmanager
def _orderly_end() -> Iterator[None]:
    """On SIGTERM, by `timeout` or a service manager, started brokers are stopped and declared queues deleted too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    finally:
        # The process may go on. A handler None comes from a program that embeds Python, and cannot be set.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if former is None else former)


for _other in (cluster, cold, backlog, calibrate):
    bench.add_command(_other)


def _broker_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option("--url", metavar="URL", help=f"The broker to measure.  [default: {DEFAULT_URL}]"),
            click.option("--start", "starting", is_flag=True, help="Measure an openclust started for this run."),
            click.option(
                "--compare",
                multiple=True,
                metavar="NAME=URL",
                help="Another broker; may be repeated. URL,URL... are one cluster: all count, the first is used.",
            ),
            compare_checkout_option("Another openclust, started for this run from the source tree in DIR."),
            data_in_option(
                "What is started gets a data directory in here.  [default: for `durable`, somewhere on a disk]"
            ),
            click.option("--pid", type=int, help="The first broker's process  [default: who listens on its port]"),
            click.option("--rounds", type=click.IntRange(1, 1000), help="Rounds at each broker."),
            click.option("--json", "as_json", is_flag=True, help="Print JSON."),
            click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw it to this file."),
            click.option(
                "--attach-window",
                type=click.IntRange(1, 1000),
                default=64,
                show_default=True,
                help="Subscribers that connect at the same time.",
            ),
        )
    ):
        command = option(command)
    return command


def _time_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option(
                "--seconds",
                type=click.FloatRange(0.01),
                default=3.0,
                show_default=True,
                help="Length of a round.",
            ),
            click.option(
                "--warm-up",
                "warm_up_seconds",
                type=click.FloatRange(0),
                default=1.0,
                show_default=True,
                help="Seconds of traffic before the first round.",
            ),
            click.option("--size", type=click.IntRange(0, 2**27), default=100, show_default=True, help="Body bytes."),
        )
    ):
        command = option(command)
    return command


def _traffic_options(window: int, what: str) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for option in (
            click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Messages a second at most."),
            click.option("--count", type=click.IntRange(1), help="Messages a round, instead of --seconds."),
            click.option(
                "--starts",
                type=click.IntRange(1, 100),
                default=1,
                show_default=True,
                help="With --start: so often start them anew, each time for --rounds. The ratios are medians.",
            ),
            click.option("--window", type=click.IntRange(1, 1_000_000), default=window, show_default=True, help=what),
        ):
            command = option(command)
        return _broker_options(_time_options(command))

    return add


def _subscribers(default: int) -> Callable[[Command], Command]:
    return click.option(
        "--subscribers",
        type=click.IntRange(1, 1_000_000),
        default=default,
        show_default=True,
        help="Connections, each with a channel, an exclusive queue and a consumer.",
    )


IN_FLIGHT = "Messages in flight; one is until all of its subscribers have it."
UNCONFIRMED = "Messages without their confirm."
PREFETCH = click.option(
    "--prefetch", type=click.IntRange(1, 65_535), default=200, show_default=True, help="Deliveries not yet acked."
)


@bench.command()
@_subscribers(1_000)
@_traffic_options(16, IN_FLIGHT)
def fanout(**options: Any) -> None:
    """One publisher, a fanout exchange, many subscribers."""
    _measure("fanout", options)


@bench.command()
@_subscribers(100)
@click.option("--bindings", type=click.IntRange(1), default=10_000, show_default=True, help="Wildcard bindings.")
@click.option("--keys", type=click.IntRange(1, 1_000_000), default=1_000, show_default=True, help="Routing keys.")
@_traffic_options(200, IN_FLIGHT)
def topic(**options: Any) -> None:
    """A topic exchange with many wildcard bindings; each key fits BINDINGS / KEYS of them."""
    _measure("topic", options)


@bench.command()
@_traffic_options(1_000, IN_FLIGHT)
def p2p(**options: Any) -> None:
    """One publisher, one queue, one consumer; no acknowledgements."""
    _measure("p2p", options)


@bench.command()
@PREFETCH
@_traffic_options(200, UNCONFIRMED)
def confirm(**options: Any) -> None:
    """Publisher confirms, and a consumer that acknowledges one by one."""
    _measure("confirm", options)


@bench.command()
@PREFETCH
@_traffic_options(200, UNCONFIRMED)
def durable(**options: Any) -> None:
    """Like confirm, with a durable queue and persistent messages."""
    _measure("durable", options)


@bench.command()
@_subscribers(1_000)
@click.option("--size", type=click.IntRange(0, 2**27), default=100, show_default=True, help="Body bytes.")
@click.option("--count", type=click.IntRange(1), default=20, show_default=True, help="Messages to each subscriber.")
@_broker_options
def connections(**options: Any) -> None:
    """Attach subscribers, weigh the broker while they idle, and again after traffic."""
    _measure("connections", options, rounds=1)


@bench.command()
@click.option("--only", metavar="ROW,ROW...", help="Some rows only: " + ", ".join(row.key for row in ROWS))
@click.option("--check", is_flag=True, help="Exit with 1 when a target is missed.")
@_time_options
@_broker_options
def table(only: str | None, check: bool, **options: Any) -> int:
    """The table of openclust's targets: every row, for the first broker against the others."""
    try:
        rows = select_rows(only)
    except KeyError as error:
        keys = ", ".join(row.key for row in ROWS)
        raise click.UsageError(f"--only: there is no row {error.args[0]!r}; there are {keys}") from None
    rounds = options["rounds"] or 3
    groups = in_running_order(rows)
    rows_found: dict[str, MeasuredRow] = {}
    with _one_line(), ExitStack() as stack:
        contenders = _contenders(options, stack)
        turns = sum(_rounds(group[0].work, rounds) for group in groups)
        watcher = stack.enter_context(progress(turns * len(contenders)))
        for group in groups:
            changes = {name: options[name] for name in ("seconds", "warm_up_seconds", "size", "attach_window")}
            work = msgspec.structs.replace(group[0].work, **changes)
            try:
                measured = run_rounds(work, contenders, _rounds(work, rounds), watcher)
                summaries, failed = [summarize(*found) for found in measured], ""
            except BenchError as error:
                summaries, failed = [], str(error)
            rows_found |= {
                row.key: MeasuredRow(row=msgspec.structs.replace(row, work=work), summaries=summaries, failed=failed)
                for row in group
            }
    results = [rows_found[row.key] for row in rows]
    with _one_line():
        if options["as_json"]:
            show_structs(table_data(results))
        else:
            show_table(results, wide_console(200))
        if options["plot"]:
            plot_table(results, options["plot"])
    if any(result.failed for result in results):
        return FAILED
    return NO if check and any(result.met is False for result in results) else 0


def _rounds(work: LoadWork, rounds: int) -> int:
    """The number of rounds. Memory is measured only once: in a second round the broker would have it already."""
    return 1 if work.pattern == "connections" else rounds


def _measure(pattern: Pattern, options: dict[str, Any], rounds: int = 3) -> None:
    rounds, starts = options["rounds"] or rounds, options.get("starts", 1)
    if starts > 1 and not options["starting"]:
        raise click.UsageError("--starts starts the broker anew each time: give --start too")
    with _one_line():
        fields = {name: value for name, value in options.items() if name in LoadWork.__struct_fields__}
        work = LoadWork(pattern=pattern, **fields)
        brokers = 1 + len(options["compare"]) + bool(options["compare_checkout"])
        with progress(starts * rounds * brokers) as watcher:

            def run(start: int) -> list[Measured]:
                with ExitStack() as stack:
                    contenders = _contenders(options, stack, pattern, start)
                    return run_rounds(work, contenders, rounds, watcher, start)

            summaries = [summarize(*found, starts) for found in run_starts(starts, run)]
        if options["as_json"]:
            show_structs(summaries_data(work, summaries))
        else:
            show_summaries(work, summaries, wide_console(200))
            if (options["starting"] or options["compare_checkout"]) and (folder := _data_folder(options, pattern)):
                click.echo(described(folder))
        if options["plot"]:
            plot_summaries(work, summaries, options["plot"])


def _contenders(
    options: dict[str, Any], stack: ExitStack, pattern: Pattern | None = None, start: int = 0
) -> list[Contender]:
    """Starts the brokers of the bench, and logs in at all brokers before the first measurement."""
    if options["plot"]:
        check_plot(options["plot"])
    if options["starting"] and (options["url"] or options["pid"]):
        raise click.UsageError("--start brings its own broker: leave --url and --pid away")
    others = [parse_named_urls(text) for text in options["compare"]]
    data_in = _data_folder(options, pattern)
    started: list[tuple[str, StartedBroker]] = []
    if options["starting"]:
        started.append(("openclust", StartedBroker(data_in)))
    if options["compare_checkout"]:
        checkout = Checkout(options["compare_checkout"])
        started.append((checkout.name, StartedBroker(data_in, checkout)))
    found = []
    if not options["starting"]:
        found.append(introduce(None, parse_url(options["url"] or DEFAULT_URL), options["pid"]))
    for _, broker in in_turn(started, start):
        stack.enter_context(broker)
    found += [introduce(name, broker.url, broker.pid) for name, broker in started]
    found += [introduce(name, urls[0], None, urls[1:]) for name, urls in others]
    return with_distinct_names(found)


def _data_folder(options: dict[str, Any], pattern: Pattern | None) -> Path | None:
    """The folder for the data of started brokers; none without an option for it, if the load stores nothing."""
    return folder_on_disk(options["data_in"]) if options["data_in"] or pattern == "durable" else None


@contextmanager
def _one_line() -> Iterator[None]:
    """Turns a failure of the bench into one line and exit code 2."""
    try:
        yield
    except BenchError as error:
        raise CommandFailure(str(error)) from None
