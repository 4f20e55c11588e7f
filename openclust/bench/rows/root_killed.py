"""The root is killed while the other brokers have very many subscribers: how long there is no root, and how often."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack, closing

import msgspec

from openclust.bench.brokers.bench_cluster import BenchCluster, ClusterBenchOptions, MakeCluster, url
from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.crowd.gathering import attach_crowds
from openclust.bench.report.progress_bar import Quiet
from openclust.bench.rows.cluster_row import ClusterRow

WITHOUT_ROOT_S = 1.5
PATIENCE_S = 60.0
STEP_S = 0.01
WATCHED_S = 3.0
"""The next root is looked at so long after its election: a root that is going to be lost again is lost by then."""


class Bereaved(msgspec.Struct, frozen=True, kw_only=True):
    """`elections` counts all until the end. With more than one, a root was lost again."""

    subscribers: int
    without_root_s: float
    elections: int


def root_killed(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> ClusterRow:
    with make(3, 3) as brokers, ExitStack() as stack:
        brokers.start()
        root = brokers.wait_until_serving()
        others = [name for name in brokers.names if name != root]
        watcher.doing(f"root-killed: attaching {options.crowd:,} subscribers")
        exchange = f"bench.{secrets.token_hex(4)}"
        for name in others:
            connection = stack.enter_context(closing(BenchConnection(url(brokers, name))))
            connection.call(frames.exchange_declare(1, exchange, "fanout"), frames.EXCHANGE_DECLARE_OK)
        _, attached = attach_crowds(
            stack,
            [url(brokers, name) for name in others],
            exchange,
            connections=options.crowd // options.per_connection,
            per_connection=options.per_connection,
        )
        time.sleep(WATCHED_S)
        if brokers.root(root) != root:
            raise BenchError(
                f"{root} lost its office while the subscribers attached, to {brokers.root(root) or 'nobody'}"
            )
        found = _kill(brokers, root, attached, watcher)
    return ClusterRow(
        key="root-killed",
        title="the root is killed, subscribers at the five others: until another serves",
        unit="s",
        target=WITHOUT_ROOT_S,
        value=found.without_root_s,
        shown=f"{found.subscribers:,} subscribers; elections in this and the next {WATCHED_S:g} s: {found.elections}",
        figures=msgspec.to_builtins(found),
    )


def _kill(brokers: BenchCluster, root: str, subscribers: int, watcher: Quiet) -> Bereaved:
    witness = next(name for name in brokers.primaries if name != root)
    epoch = brokers.epoch(root)
    watcher.doing(f"root-killed: {root} is killed")
    started = time.perf_counter()
    brokers.kill(root)
    while brokers.root(witness) in (root, None):
        if time.perf_counter() - started > PATIENCE_S:
            raise BenchError(f"no root {PATIENCE_S:g} s after {root} was killed, as {witness} knows")
        time.sleep(STEP_S)
    took_s = time.perf_counter() - started
    time.sleep(WATCHED_S)
    after = max(brokers.epoch(name) for name in brokers.names if name != root)
    return Bereaved(subscribers=subscribers, without_root_s=took_s, elections=after - epoch)
