"""A replicated durable queue: persistent messages, confirms and acknowledgements, against other clusters of three."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import msgspec

from openclust.bench.brokers.bench_cluster import BenchCluster, ClusterBenchOptions, MakeCluster, url
from openclust.bench.brokers.one_root import RootedCluster
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.comparison import Contender, introduce
from openclust.bench.load.work import LoadWork
from openclust.bench.report.progress_bar import Quiet
from openclust.bench.report.round_summary import Summary
from openclust.bench.rows.against_others import cpu_row, rate_row, speed_row
from openclust.bench.rows.cluster_row import ClusterRow
from openclust.bench.rows.versions import BROKERS, measure_versions

THROUGHPUT_RATIO, CPU_RATIO = 2.0, 2.5
QUORUM = {"x-queue-type": "quorum"}

Place = Callable[[Contender, list[BrokerUrl]], Contender]
"""Sets the brokers of publisher and consumer. The first of the addresses is that of the queue's broker."""


def replicated(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    """Publisher and consumer are at the root; in another product's cluster, at the queue's leader."""
    found = _measured(options, make, watcher, published_and_consumed_at_root)
    title = "replicated queue, persistent, at the root"
    return rows_of("replicated", title, found, _other_versions(options), (THROUGHPUT_RATIO, CPU_RATIO))


def replicated_backups(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    """The publisher is at one backup, the consumer at the other."""
    found = _measured(options, make, watcher, published_and_consumed_at_backups)
    title = "replicated queue, persistent, at both backups"
    return rows_of("replicated-backups", title, found, _other_versions(options), None)


def _other_versions(options: ClusterBenchOptions) -> int:
    return 0 if options.other_version is None else 1


def _measured(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet, place: Place) -> list[Summary]:
    """The summaries of openclust's clusters come first."""
    work = LoadWork(
        pattern="durable",
        window=options.unconfirmed,
        prefetch=options.prefetch,
        size=options.size,
        seconds=options.seconds,
        warm_up_seconds=options.warm_up,
    )
    others = list(_others(options, place))

    def contenders(clusters: Sequence[tuple[str, RootedCluster]], stack: ExitStack) -> list[Contender]:
        return [*(_ours(name, cluster, place) for name, cluster in clusters), *others]

    return measure_versions(options, make, 0, work, watcher, contenders)


def _ours(name: str, cluster: RootedCluster, place: Place) -> Contender:
    brokers, root = cluster
    urls = [url(brokers, each) for each in (root, *_backups(brokers, root))]
    return place(Contender(name=name, url=urls[0], pids=brokers.pids()), urls)


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


def published_and_consumed_at_root(found: Contender, urls: list[BrokerUrl]) -> Contender:
    return found


def published_and_consumed_at_backups(found: Contender, urls: list[BrokerUrl]) -> Contender:
    return msgspec.structs.replace(found, url=urls[1], subscribers_at=(urls[2],), declared_at=urls[0])


def rows_of(
    key: str, title: str, found: list[Summary], other_versions: int, targets: tuple[float, float] | None
) -> list[ClusterRow]:
    """Ours, other versions of openclust, other products. Targets are for the ratios to other products."""
    ours, *others = found
    by_other = [(other, None if number < other_versions else targets) for number, other in enumerate(others)]
    title_of_speed, title_of_cpu = f"{title}: messages a second", "the same: messages a CPU-second of all three"
    if not others:
        return [rate_row(key, title_of_speed, ours)]
    return [
        *(speed_row(key, title_of_speed, found, other, wanted and wanted[0]) for other, wanted in by_other),
        *(cpu_row(f"{key}-cpu", title_of_cpu, ours, other, wanted and wanted[1]) for other, wanted in by_other),
    ]
