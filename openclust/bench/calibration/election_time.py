"""How long a cluster has no root after the process of its root ended, or stopped."""

from __future__ import annotations

import os
import signal
import statistics
import time

from openclust.bench.brokers.bench_cluster import BenchCluster, MakeCluster
from openclust.bench.calibration.parts import Effort, Rows
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.report.progress_bar import Quiet

ELECTED_SECONDS = 20.0
POLL_SECONDS = 0.005


def elections(effort: Effort, make: MakeCluster, watcher: Quiet) -> Rows:
    """Kill some roots (SIGKILL), whose sockets then close, and stop others (SIGSTOP), which only fall silent."""
    with make(effort.primaries, 0) as brokers:
        brokers.start()
        brokers.wait_until_serving()
        killed_ms = []
        for number in range(effort.kills):
            watcher.doing(f"the root is killed, {number + 1} of {effort.kills}")
            root = brokers.wait_until_serving()
            begun = time.perf_counter()
            brokers.kill(root)
            killed_ms.append(_until_another(brokers, root, begun))
            brokers.start(root)
        stopped_ms = []
        for number in range(effort.stops):
            watcher.doing(f"the root is stopped, {number + 1} of {effort.stops}")
            root = brokers.wait_until_serving()
            begun = time.perf_counter()
            os.kill(brokers.pid(root), signal.SIGSTOP)
            try:
                stopped_ms.append(_until_another(brokers, root, begun))
            finally:
                os.kill(brokers.pid(root), signal.SIGCONT)
        brokers.wait_until_serving()
    election_ms = statistics.median(killed_ms)
    figures = {
        "election_ms": election_ms,
        "election_worst_ms": max(killed_ms),
        "detect_ms": max(0.0, statistics.median(stopped_ms) - election_ms),
    }
    return Rows(rows=[], figures=figures)


def _until_another(brokers: BenchCluster, gone: str, begun: float) -> float:
    """Milliseconds until one of the other brokers says that it is root."""
    others = [name for name in brokers.primaries if name != gone]
    while time.perf_counter() < begun + ELECTED_SECONDS:
        for name in others:
            if brokers.root(name) == name:
                return (time.perf_counter() - begun) * 1000
        time.sleep(POLL_SECONDS)
    raise BenchError(f"nobody is root {ELECTED_SECONDS:.0f} s after {gone} was gone")
