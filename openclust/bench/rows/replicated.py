"""A replicated durable queue: persistent messages, confirms and acknowledgements, against other clusters of three."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from openclust.bench.brokers.bench_cluster import BenchCluster, ClusterBenchOptions, MakeCluster, url
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.comparison import Contender, introduce, run_rounds
from openclust.bench.load.work import LoadWork
from openclust.bench.report.progress_bar import Quiet
from openclust.bench.report.round_summary import Summary, summarize
from openclust.bench.report.statistics import ratio
from openclust.bench.rows.cluster_row import ClusterRow

THROUGHPUT_RATIO, CPU_RATIO = 2.0, 2.5
QUORUM = {"x-queue-type": "quorum"}
BROKERS = 3

Place = Callable[[Contender, list[BrokerUrl]], Contender]
"""Where a cluster's publisher and consumer are; of its addresses the first is where the queue has its home."""


def replicated(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    """Published and consumed at the root, or where the other cluster's queue has its leader."""
    found = _measured(options, make, watcher, _at_home)
    return [
        *_rows("replicated", "replicated queue, persistent, at the root: messages a second", found, THROUGHPUT_RATIO),
        *_cpu_rows("replicated-cpu", "the same: messages a CPU-second of all three", found, CPU_RATIO),
    ]


def replicated_backups(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    """Published at one backup, consumed at the other."""
    found = _measured(options, make, watcher, _away)
    return [
        *_rows("replicated-backups", "replicated queue, persistent, at both backups: messages a second", found, None),
        *_cpu_rows("replicated-backups-cpu", "the same: messages a CPU-second of all three", found, None),
    ]


def _measured(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet, place: Place) -> list[Summary]:
    """Ours first."""
    work = LoadWork(
        pattern="durable",
        window=options.unconfirmed,
        prefetch=options.prefetch,
        size=options.size,
        seconds=options.seconds,
        warm_up_seconds=options.warm_up,
    )
    others = list(_others(options, place))
    with make(BROKERS, 0) as brokers:
        brokers.start()
        root = brokers.wait_until_serving()
        urls = [url(brokers, name) for name in (root, *_backups(brokers, root))]
        ours = Contender(name="openclust", url=urls[0], pids=brokers.pids())
        return [summarize(*one) for one in run_rounds(work, [place(ours, urls), *others], options.rounds, watcher)]


def _others(options: ClusterBenchOptions, place: Place) -> Iterator[Contender]:
    for name, urls in options.compare:
        if len(urls) != BROKERS:
            raise BenchError(f"--compare {name}: give the addresses of all three brokers, as NAME=URL,URL,URL")
        found = introduce(name, urls[0], None, urls[1:])
        if found.product.startswith("RabbitMQ"):
            found = msgspec.structs.replace(found, queue_arguments=QUORUM)
        yield place(found, urls)


def _backups(brokers: BenchCluster, root: str) -> list[str]:
    return [name for name in brokers.primaries if name != root]


def _at_home(found: Contender, urls: list[BrokerUrl]) -> Contender:
    return found


def _away(found: Contender, urls: list[BrokerUrl]) -> Contender:
    return msgspec.structs.replace(found, url=urls[1], subscribers_at=(urls[2],), declared_at=urls[0])


def _rows(key: str, title: str, found: list[Summary], target: float | None) -> Iterator[ClusterRow]:
    ours = found[0]
    figures = {each.name: msgspec.to_builtins(each) for each in found}
    notes = [f"{each.name}: {note}" for each in found for note in each.notes]
    if not found[1:]:
        yield ClusterRow(
            key=key,
            title=title,
            unit="/s",
            value=ours.messages_per_s,
            shown=_detail(ours),
            figures=figures,
            notes=notes,
        )
    for other in found[1:]:
        yield ClusterRow(
            key=key,
            title=f"{title}, against {other.name}",
            unit="x",
            target=target,
            is_floor=True,
            value=ratio(ours.messages_per_s, other.messages_per_s),
            shown=f"{_detail(ours)}; {other.name} {_detail(other)}",
            figures=figures,
            notes=notes,
        )


def _cpu_rows(key: str, title: str, found: list[Summary], target: float | None) -> Iterator[ClusterRow]:
    for other in found[1:]:
        yield ClusterRow(
            key=key,
            title=f"{title}, against {other.name}",
            unit="x",
            target=target,
            is_floor=True,
            value=ratio(found[0].deliveries_per_broker_cpu_s, other.deliveries_per_broker_cpu_s),
            shown=f"{_cpu(found[0])}; {other.name} {_cpu(other)}",
        )


def _detail(summary: Summary) -> str:
    """Figures of one cluster in half a line."""
    confirmed = summary.confirm_latency_ms
    times = f", confirmed after {confirmed['p50']:.1f} ms, p99 {confirmed['p99']:.1f}" if confirmed else ""
    return f"{summary.messages_per_s or 0.0:,.0f}/s at {_cpu(summary)}{times}"


def _cpu(summary: Summary) -> str:
    used = summary.broker_cpu_us_per_delivery
    return "an unknown CPU time" if used is None else f"{used:.1f} us each"
