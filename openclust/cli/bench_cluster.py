"""`openclust bench cluster`: the targets of a cluster, measured with clusters of this machine's own."""

from __future__ import annotations

import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from openclust.cli.benched_cluster import BenchedCluster

if TYPE_CHECKING:
    from openclust.bench.cluster_row import ClusterRow
    from openclust.bench.progress import Quiet
    from openclust.bench.work import Work

NO, FAILED = 1, 2
UP_SECONDS = 60.0
QUEUES_OF_JOINER = 1_000
CPU_RATIO_OF_FANOUT, CPU_RATIO_OF_SHARED = 1.3, 4.0


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The options."""

    rounds: int
    seconds: float
    warm_up: float
    size: int
    subscribers: int
    bindings: int
    crowd: int
    per_connection: int
    messages: int


def _int(default: int, text: str) -> dict[str, Any]:
    return {"type": click.IntRange(1), "default": default, "show_default": True, "help": text}


@click.command("cluster")
@click.option("--only", metavar="ROW,ROW...", help="Some rows only.  [default: all]")
@click.option("--rounds", **_int(3, "Rounds at the cluster and at the single broker; times `up` is started."))
@click.option("--seconds", type=click.FloatRange(0.01), default=3.0, show_default=True, help="Length of a round.")
@click.option("--warm-up", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds before the first.")
@click.option("--size", type=click.IntRange(0, 60_000), default=100, show_default=True, help="Body bytes.")
@click.option("--subscribers", **_int(1_000, "Subscribers of the fan-out, over three brokers."))
@click.option("--bindings", **_int(100_000, "Private bindings of the broker that joins."))
@click.option("--crowd", **_int(50_000, "Subscribers that are attached at once, over six brokers."))
@click.option("--per-connection", **_int(1, "Subscribers of the crowd that share a connection."))
@click.option("--messages", **_int(10, "Messages to the crowd, one after another."))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--check", is_flag=True, help="Exit with 1 when a target is missed.")
def cluster(only: str | None, as_json: bool, check: bool, **options: Any) -> int:
    """Start local clusters, measure them against one broker, and show what is wanted beside what was found."""
    from openclust.bench.cluster_row import rows_data, show_rows
    from openclust.bench.progress import progress

    keys = [key.strip() for key in only.split(",")] if only else list(ROWS)
    for key in keys:
        if key not in ROWS:
            raise click.UsageError(f"--only: there is no row {key!r}; there are {', '.join(ROWS)}")
    wanted = Wanted(**options)
    with progress(len(keys)) as watcher:
        rows = [_measured(key, wanted, watcher) for key in keys]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(rows_data(rows)), indent=2).decode())
    else:
        from rich.console import Console

        show_rows(rows, Console(width=None if sys.stdout.isatty() else 200, highlight=False))
    if any(row.failed for row in rows):
        return FAILED
    return NO if check and any(row.met is False for row in rows) else 0


def _measured(key: str, wanted: Wanted, watcher: Quiet) -> ClusterRow:
    from openclust.bench.cluster_row import ClusterRow
    from openclust.bench.errors import BenchError

    watcher.doing(key)
    try:
        return ROWS[key](wanted, watcher)
    except BenchError as error:
        return ClusterRow(key=key, title=key, unit="", failed=str(error))
    finally:
        watcher.finished_round()


# -- the rows


def _start(wanted: Wanted, watcher: Quiet) -> ClusterRow:
    from openclust.bench.cluster_row import ClusterRow

    found = [_time_up() for _ in range(wanted.rounds)]
    return ClusterRow(
        key="start",
        title="`openclust up`, 3 primaries and 2 secondaries, until all serve",
        unit="s",
        target=3.0,
        value=statistics.median(found),
        shown=f"worst of {len(found)}: {max(found):.2f} s",
        figures={"seconds": found},
    )


def _time_up() -> float:
    """From the start of the command; it says itself when all serve."""
    from openclust.bench.errors import BenchError

    command = [sys.executable, "-m", "openclust", "up", "--primaries", "3", "--secondaries", "2"]
    started = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if re.search(r"has a root after", line):
                if "all serve" not in line:
                    raise BenchError(f"`openclust up`: {line.strip()}")
                return time.perf_counter() - started
        raise BenchError("`openclust up` ended before it served")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=UP_SECONDS)


def _fanout(wanted: Wanted, watcher: Quiet) -> ClusterRow:
    from openclust.bench.work import Work

    work = Work(pattern="fanout", subscribers=wanted.subscribers, **_times(wanted))
    title = f"fan-out to {wanted.subscribers:,} over 3 brokers, CPU of all a delivery, against one broker"
    return _against_one("fanout", title, CPU_RATIO_OF_FANOUT, work, wanted, watcher, secondaries=0)


def _fanout_from_secondary(wanted: Wanted, watcher: Quiet) -> ClusterRow:
    from openclust.bench.work import Work

    work = Work(pattern="fanout", subscribers=wanted.subscribers, **_times(wanted))
    title = f"fan-out to {wanted.subscribers:,} over 3 others, from a secondary, against one broker"
    return _against_one("fanout-secondary", title, CPU_RATIO_OF_FANOUT, work, wanted, watcher, secondaries=1)


def _shared(wanted: Wanted, watcher: Quiet) -> ClusterRow:
    from openclust.bench.work import Work

    work = Work(pattern="shared", window=1_000, **_times(wanted))
    title = "shared queue, no-ack, published and consumed on non-root brokers, CPU of all a message, against one broker"
    return _against_one("shared", title, CPU_RATIO_OF_SHARED, work, wanted, watcher, secondaries=0)


def _times(wanted: Wanted) -> dict[str, Any]:
    return {"size": wanted.size, "seconds": wanted.seconds, "warm_up_seconds": wanted.warm_up}


def _against_one(
    key: str, title: str, target: float, work: Work, wanted: Wanted, watcher: Quiet, *, secondaries: int
) -> ClusterRow:
    from openclust.bench.cluster_row import ClusterRow
    from openclust.bench.comparison import Contender, run_rounds
    from openclust.bench.local_broker import LocalBroker
    from openclust.bench.statistics import ratio
    from openclust.bench.summary import summarize

    with BenchedCluster(3, secondaries) as brokers, LocalBroker() as single:
        brokers.start()
        root = brokers.wait_until_serving()
        publishing, receiving = _places(brokers, root, is_shared=work.pattern == "shared")
        contenders = [
            Contender(
                name="cluster",
                url=brokers.url(publishing),
                pids=brokers.pids(),
                subscribers_at=tuple(brokers.url(name) for name in receiving),
            ),
            Contender(name="one broker", url=single.url, pids=(single.pid,)),
        ]
        ours, one = (summarize(*found) for found in run_rounds(work, contenders, wanted.rounds, watcher))
    rate = f"{ours.deliveries_per_s:,.0f} and {one.deliveries_per_s:,.0f} a second" if one.deliveries_per_s else ""
    return ClusterRow(
        key=key,
        title=title,
        unit="x",
        target=target,
        value=ratio(ours.broker_cpu_us_per_delivery, one.broker_cpu_us_per_delivery),
        shown=f"{_us(ours.broker_cpu_us_per_delivery)} and {_us(one.broker_cpu_us_per_delivery)}, {rate}",
        figures={"cluster": msgspec.to_builtins(ours), "one_broker": msgspec.to_builtins(one)},
        notes=[f"{each.name}: {note}" for each in (ours, one) for note in each.notes],
    )


def _places(brokers: BenchedCluster, root: str, *, is_shared: bool) -> tuple[str, list[str]]:
    """Where to publish, and where to receive."""
    if is_shared:
        first, second = [name for name in brokers.primaries if name != root]
        return first, [second]
    others = [name for name in brokers.names if name not in brokers.primaries]
    return (others or brokers.primaries)[0], brokers.primaries


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} us"


def _bindings(wanted: Wanted, watcher: Quiet) -> ClusterRow:
    from openclust.bench.cluster_row import ClusterRow
    from openclust.bench.joining import join_with_bindings

    with BenchedCluster(3, 1) as brokers:
        joiner = next(name for name in brokers.names if name not in brokers.primaries)
        brokers.start(joiner)
        brokers.wait_until_answering(joiner)
        found = join_with_bindings(
            brokers.url(joiner),
            [brokers.url(name) for name in brokers.primaries],
            queues=min(QUEUES_OF_JOINER, wanted.bindings),
            bindings=wanted.bindings,
            start_others=lambda: brokers.start(*brokers.primaries),
            is_rooted=lambda: (view := brokers.view(joiner)) is not None and view.root is not None,
            held_by_others=lambda: min(_held(brokers, name) for name in brokers.primaries),
        )
        epochs = [view.epoch for name in brokers.primaries if (view := brokers.view(name)) is not None]
    return ClusterRow(
        key="bindings",
        title=f"{found.bindings:,} meta-bindings of a broker that joins, until effective",
        unit="s",
        target=10.0,
        value=found.effective_s,
        shown=f"since the others' start; a root after {found.root_s:.2f} s, epoch {max(epochs)} in the end",
        figures={**msgspec.to_builtins(found), "epochs": epochs},
    )


def _held(brokers: BenchedCluster, name: str) -> int:
    view = brokers.view(name)
    return view.meta_bindings.held or 0 if view is not None and view.meta_bindings is not None else 0


def _crowd(wanted: Wanted, watcher: Quiet) -> ClusterRow:
    from openclust.bench.cluster_row import ClusterRow
    from openclust.bench.gathering import gather

    with BenchedCluster(3, 3) as brokers:
        brokers.start()
        brokers.wait_until_serving()
        found = gather(
            [brokers.url(name) for name in brokers.names],
            brokers.pids(),
            subscribers=wanted.crowd,
            per_connection=wanted.per_connection,
            messages=wanted.messages,
            size=wanted.size,
            tell=watcher.doing,
        )
    took = found.last_receipts_ms
    each = "a connection each" if wanted.per_connection == 1 else f"{wanted.per_connection} a connection"
    return ClusterRow(
        key="crowd",
        title=f"subscribers attached at once over 6 brokers, {each}, each with every message",
        unit="subscribers",
        target=50_000,
        is_floor=True,
        value=found.subscribers,
        shown=(
            f"{found.attaches_per_s:,.0f} attached a second; {found.rss_idle / 1e6:,.0f} MB, "
            f"{found.idle_bytes_each / 1_000:.1f} kB each, {found.bytes_each_after / 1_000:.1f} kB after traffic; "
            f"last receipt after {statistics.median(took):,.0f} ms, at most {max(took):,.0f}"
        ),
        figures=msgspec.to_builtins(found),
    )


ROWS: dict[str, Callable[[Wanted, Quiet], ClusterRow]] = {
    "start": _start,
    "fanout": _fanout,
    "fanout-secondary": _fanout_from_secondary,
    "shared": _shared,
    "bindings": _bindings,
    "crowd": _crowd,
}
