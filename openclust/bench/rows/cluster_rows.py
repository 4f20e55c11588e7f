"""The rows that measure a cluster. Each starts the clusters that it needs, and one broker to compare with."""

from __future__ import annotations

import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from openclust.bench.brokers.bench_cluster import BenchCluster, ClusterBenchOptions, MakeCluster, url
from openclust.bench.brokers.local_broker import StartedBroker
from openclust.bench.brokers.one_root import RootedCluster
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.crowd.gathering import gather
from openclust.bench.crowd.joining import join_with_bindings
from openclust.bench.load.comparison import Contender
from openclust.bench.load.work import LoadWork
from openclust.bench.report.progress_bar import Quiet
from openclust.bench.report.round_summary import ratio_of_deliveries
from openclust.bench.rows.against_others import cpu_row, speed_row
from openclust.bench.rows.cluster_row import ClusterRow
from openclust.bench.rows.rejoin import rejoin
from openclust.bench.rows.replicated import replicated, replicated_backups
from openclust.bench.rows.root_killed import root_killed
from openclust.bench.rows.versions import measure_versions

STOP_SECONDS = 60.0
QUEUES_OF_JOINER = 1_000
CPU_RATIO_OF_FANOUT, CPU_RATIO_OF_SHARED = 1.3, 4.0
SILENCE_SECONDS = 5.0
"""Without confirms, silence means that a root was lost together with messages: it is no use to wait for these."""


def _start(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> ClusterRow:
    found = [_time_up() for _ in range(options.rounds)]
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
    """Seconds from the start of `openclust up` until it prints that all brokers serve."""
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
        process.communicate(timeout=STOP_SECONDS)


def _fanout(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    work = LoadWork(pattern="fanout", subscribers=options.subscribers, window=options.window, **_times(options))
    title = f"fan-out to {options.subscribers:,} over 3 brokers, CPU of all a delivery, against one broker"
    return _against_one("fanout", title, CPU_RATIO_OF_FANOUT, work, options, make, watcher, secondaries=0)


def _fanout_from_secondary(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    work = LoadWork(pattern="fanout", subscribers=options.subscribers, window=options.window, **_times(options))
    title = f"fan-out to {options.subscribers:,} over 3 others, from a secondary, against one broker"
    return _against_one("fanout-secondary", title, CPU_RATIO_OF_FANOUT, work, options, make, watcher, secondaries=1)


def _shared(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    work = LoadWork(pattern="shared", window=1_000, **_times(options))
    title = "shared queue, no-ack, published and consumed on non-root brokers, CPU of all a message, against one broker"
    return _against_one("shared", title, CPU_RATIO_OF_SHARED, work, options, make, watcher, secondaries=0)


def _times(options: ClusterBenchOptions) -> dict[str, Any]:
    return {
        "size": options.size,
        "seconds": options.seconds,
        "warm_up_seconds": options.warm_up,
        "silence_seconds": SILENCE_SECONDS,
    }


def _against_one(
    key: str,
    title: str,
    target: float,
    work: LoadWork,
    options: ClusterBenchOptions,
    make: MakeCluster,
    watcher: Quiet,
    *,
    secondaries: int,
) -> list[ClusterRow]:
    def contenders(clusters: Sequence[tuple[str, RootedCluster]], stack: ExitStack) -> list[Contender]:
        single = stack.enter_context(StartedBroker())
        found = [_at_all(name, cluster, is_shared=work.pattern == "shared") for name, cluster in clusters]
        return [*found, Contender(name="one broker", url=single.url, pids=(single.pid,))]

    found = measure_versions(options, make, secondaries, work, watcher, contenders)
    ours, *others, one = found
    rate = f"{ours.deliveries_per_s:,.0f} and {one.deliveries_per_s:,.0f} a second" if one.deliveries_per_s else ""
    times = ratio_of_deliveries(one, ours, "broker_cpu_s")
    spread = f"; {times.spread} x" if times is not None and times.spread else ""
    rows = [
        ClusterRow(
            key=key,
            title=title,
            unit="x",
            target=target,
            value=None if times is None else times.value,
            shown=f"{_us(ours.broker_cpu_us_per_delivery)} and {_us(one.broker_cpu_us_per_delivery)}, {rate}{spread}",
            figures={"cluster": msgspec.to_builtins(ours), "one_broker": msgspec.to_builtins(one)},
            notes=[f"{name}: {note}" for name, each in (("cluster", ours), ("one broker", one)) for note in each.notes],
        )
    ]
    for other in others:
        rows.append(speed_row(f"{key}-version", "the same cluster: deliveries a second", [ours, other], other, None))
        rows.append(cpu_row(f"{key}-version-cpu", "the same: deliveries a CPU-second of all", ours, other, None))
    return rows


def _at_all(name: str, cluster: RootedCluster, *, is_shared: bool) -> Contender:
    brokers, root = cluster
    publishing, receiving = _places(brokers, root, is_shared=is_shared)
    return Contender(
        name=name,
        url=url(brokers, publishing),
        pids=brokers.pids(),
        subscribers_at=tuple(url(brokers, each) for each in receiving),
    )


def _places(brokers: BenchCluster, root: str, *, is_shared: bool) -> tuple[str, list[str]]:
    """The broker to publish at, and those to receive at."""
    if is_shared:
        first, second = [name for name in brokers.primaries if name != root]
        return first, [second]
    others = [name for name in brokers.names if name not in brokers.primaries]
    return (others or brokers.primaries)[0], brokers.primaries


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} us"


def _bindings(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> ClusterRow:
    with make(3, 1) as brokers:
        joiner = next(name for name in brokers.names if name not in brokers.primaries)
        # A secondary admits clients only after a primary has sent it the users.
        brokers.start()
        brokers.wait_until_serving()
        for name in brokers.primaries:
            brokers.kill(name)
        found = join_with_bindings(
            url(brokers, joiner),
            [url(brokers, name) for name in brokers.primaries],
            queues=min(QUEUES_OF_JOINER, options.bindings),
            bindings=options.bindings,
            start_others=lambda: brokers.start(*brokers.primaries),
            is_rooted=lambda: brokers.root(joiner) is not None,
            held_by_others=lambda: min(brokers.held(name) for name in brokers.primaries),
        )
        epochs = [brokers.epoch(name) for name in brokers.primaries]
    return ClusterRow(
        key="bindings",
        title=f"{found.bindings:,} meta-bindings of a broker that joins, until effective",
        unit="s",
        target=10.0,
        value=found.effective_s,
        shown=f"since the others' start; a root after {found.root_s:.2f} s, epoch {max(epochs)} in the end",
        figures={**msgspec.to_builtins(found), "epochs": epochs},
    )


def _crowd(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> ClusterRow:
    with make(3, 3) as brokers:
        brokers.start()
        brokers.wait_until_serving()
        found = gather(
            [url(brokers, name) for name in brokers.names],
            brokers.pids(),
            subscribers=options.crowd,
            per_connection=options.per_connection,
            messages=options.messages,
            size=options.size,
            tell=watcher.doing,
        )
    took = found.last_receipts_ms
    each = "a connection each" if options.per_connection == 1 else f"{options.per_connection} a connection"
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


ROWS: dict[str, Callable[[ClusterBenchOptions, MakeCluster, Quiet], ClusterRow | list[ClusterRow]]] = {
    "start": _start,
    "fanout": _fanout,
    "fanout-secondary": _fanout_from_secondary,
    "shared": _shared,
    "bindings": _bindings,
    "crowd": _crowd,
    "root-killed": root_killed,
    "replicated": replicated,
    "replicated-backups": replicated_backups,
    "rejoin": rejoin,
}


def measure(key: str, options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    """Measure one of `ROWS`, which may give several lines. A BenchError is shown in the row."""
    watcher.doing(key)
    try:
        found = ROWS[key](options, make, watcher)
        return found if isinstance(found, list) else [found]
    except BenchError as error:
        return [ClusterRow(key=key, title=key, unit="", failed=str(error))]
    finally:
        watcher.finished_round()
