"""What is measured of a cluster is measured under one root: where that changes meanwhile, messages without confirms
that were on their way to it are gone, and whoever waits for all of them would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from openclust.bench.brokers.bench_cluster import BenchCluster, MakeCluster
from openclust.bench.client.bench_errors import BenchError

TRIES = 3

Found = TypeVar("Found")


def under_one_root(
    make: MakeCluster, primaries: int, secondaries: int, measure: Callable[[BenchCluster, str], Found]
) -> Found:
    """What `measure` finds, given a cluster and its root; with a new cluster where that one had another root."""
    before = after = 0
    for _ in range(TRIES):
        with make(primaries, secondaries) as brokers:
            brokers.start()
            root = brokers.wait_until_serving()
            before = brokers.epoch(root)
            try:
                return measure(brokers, root)
            except BenchError:
                after = max(brokers.epoch(name) for name in brokers.names)
                if after <= before:  # 0 where none of them answers
                    raise
    raise BenchError(
        f"in each of {TRIES} clusters the root changed while it was measured, in the last one from epoch {before} "
        f"to {after}: this machine is too busy with something else"
    )
