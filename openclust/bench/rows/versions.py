"""Rounds at a cluster of this openclust and, where another version is given, at a cluster of that one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from openclust.bench.brokers.bench_cluster import BenchVersion, ClusterBenchOptions, MakeCluster
from openclust.bench.brokers.one_root import RootedCluster, under_one_root
from openclust.bench.load.comparison import (
    Contender,
    Measured,
    in_turn,
    run_rounds,
    run_starts,
    with_distinct_names,
)
from openclust.bench.load.work import LoadWork
from openclust.bench.report.progress_bar import Quiet
from openclust.bench.report.round_summary import Summary, summarize

BROKERS = 3

Contenders = Callable[[Sequence[tuple[str, RootedCluster]], ExitStack], list[Contender]]
"""Called with each version's name and cluster, and with a stack on which to put other brokers that it starts."""


def measure_versions(
    options: ClusterBenchOptions,
    make: MakeCluster,
    secondaries: int,
    work: LoadWork,
    watcher: Quiet,
    contenders: Contenders,
) -> list[Summary]:
    """The summaries of all contenders, in their order. The clusters are started `options.starts` times."""
    versions = [BenchVersion("openclust", make)]
    if options.other_version is not None:
        versions.append(options.other_version)

    def run(start: int) -> list[Measured]:
        def measure(clusters: Sequence[RootedCluster]) -> list[Measured]:
            named = [(each.name, cluster) for each, cluster in zip(versions, in_turn(clusters, start), strict=True)]
            with ExitStack() as stack:
                found = with_distinct_names(contenders(named, stack))
                return run_rounds(work, found, options.rounds, watcher, start)

        return under_one_root([each.make for each in in_turn(versions, start)], BROKERS, secondaries, measure)

    return [summarize(*found, options.starts) for found in run_starts(options.starts, run)]
