"""A cluster is measured under one root. Where the root changes meanwhile, messages without confirms that were on their
way to the old one are lost, and a load generator that waits for all of them would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from openclust.bench.brokers.bench_cluster import BenchCluster, MakeCluster
from openclust.bench.client.bench_errors import BenchError

TRIES = 3

Found = TypeVar("Found")
RootedCluster = tuple[BenchCluster, str]
"""A cluster that serves, and the name of its root."""


def under_one_root(
    makes: Sequence[MakeCluster],
    primaries: int,
    secondaries: int,
    measure: Callable[[Sequence[RootedCluster]], Found],
) -> Found:
    """Call `measure` with a cluster of each kind. If a root changes meanwhile, call it again with new clusters."""
    before = after = 0
    for _ in range(TRIES):
        with ExitStack() as stack:
            clusters = [stack.enter_context(make(primaries, secondaries)) for make in makes]
            for brokers in clusters:
                brokers.start()
                brokers.wait_until_serving()
            rooted = [(brokers, brokers.wait_until_serving()) for brokers in clusters]
            epochs = [brokers.epoch(root) for brokers, root in rooted]
            try:
                return measure(rooted)
            except BenchError:
                # The epoch is 0 where none of the brokers answers.
                later = [max(brokers.epoch(name) for name in brokers.names) for brokers in clusters]
                changed = [pair for pair in zip(epochs, later, strict=True) if pair[1] > pair[0]]
                if not changed:
                    raise
                before, after = changed[0]
    raise BenchError(
        f"in each of {TRIES} clusters the root changed while it was measured, in the last one from epoch {before} "
        f"to {after}: this machine is too busy with something else"
    )
