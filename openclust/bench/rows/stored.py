"""A broker with very many stored messages: how soon it serves after a start, and how much memory it uses."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from openclust.bench.brokers.bench_cluster import BenchCluster, MakeCluster, url
from openclust.bench.brokers.broker_process import BrokerProcess
from openclust.bench.brokers.disk import described, forget_cached
from openclust.bench.brokers.local_broker import StartedBroker
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.filling import count, empty, fill
from openclust.bench.load.load_messages import Progressed
from openclust.bench.report.progress_bar import Quiet
from openclust.bench.rows.cluster_row import ClusterRow

QUEUE = "bench.stored"
START_SECONDS = 300.0
COLD_SECONDS, COLD_MESSAGES = 5.0, 1_000_000
BACKLOG_MEGABYTES, BACKLOG_BYTES = 1_000.0, 5_000_000_000
WEIGH_EVERY_S = 0.25
POLL_SECONDS = 0.05


def cold(folder: Path, messages: int, size: int, rounds: int, *, killed: bool, watcher: Quiet) -> list[ClusterRow]:
    """Fill a queue, end the broker, and time some starts, each until it tells how many messages the queue has."""
    served: list[float] = []
    with StartedBroker(folder) as broker:
        fill_s = fill(broker.url, QUEUE, messages, size, lambda done: watcher.told(_told("confirmed", done)))
        for number in range(rounds):
            watcher.doing(f"start {number + 1} of {rounds}")
            broker.end(killed=killed)
            stored = forget_cached(broker.data)
            started = time.perf_counter()
            broker.start(START_SECONDS)
            found = count(broker.url, QUEUE)
            served.append(time.perf_counter() - started)
            if found != messages:
                raise BenchError(f"start {number + 1}: the queue has {found} messages, and {messages} were confirmed")
            watcher.finished_round()
        memory = BrokerProcess(broker.pid).rss()
        watcher.doing("emptying the queue")
        first_s, empty_s = empty(broker.url, QUEUE, messages, lambda done: watcher.told(_told("delivered", done)))
    ended = "SIGKILL" if killed else "an orderly end"
    row = _cold_row(
        "cold",
        f"start with {messages:,} messages of {size:,} bytes on one queue after {ended}, until it serves",
        messages,
        served,
        f"first delivery {first_s:.2f} s later; {stored / 1e6:,.0f} MB stored, "
        f"{memory / 1e6:,.0f} MB of memory after the start",
        {"first_delivery_s": first_s, "stored_bytes": stored, "rss_after_start": memory},
        fill_s,
        empty_s,
        folder,
    )
    return [row]


def cold_cluster(
    make: MakeCluster, primaries: int, messages: int, size: int, rounds: int, *, watcher: Quiet
) -> list[ClusterRow]:
    """The same with a replicated queue of a cluster: all brokers are killed, and all are started again at once."""
    served: list[float] = []
    with make(primaries, 0) as brokers:
        brokers.start()
        at = url(brokers, brokers.wait_until_serving())
        fill_s = fill(at, QUEUE, messages, size, lambda done: watcher.told(_told("confirmed", done)))
        for number in range(rounds):
            watcher.doing(f"start {number + 1} of {rounds}")
            for name in brokers.primaries:
                brokers.kill(name)
            stored = forget_cached(brokers.folder)
            started = time.perf_counter()
            brokers.start()
            _wait_until_served(brokers, at, messages)
            served.append(time.perf_counter() - started)
            watcher.finished_round()
        memory = BrokerProcess(*brokers.pids()).rss()
        watcher.doing("emptying the queue")
        _, empty_s = empty(at, QUEUE, messages, lambda done: watcher.told(_told("delivered", done)))
    row = _cold_row(
        "cold-cluster",
        f"start of {primaries} primaries with {messages:,} messages of {size:,} bytes on a replicated queue",
        messages,
        served,
        f"{stored / 1e6:,.0f} MB stored and {memory / 1e6:,.0f} MB of memory after the start in all",
        {"stored_bytes": stored, "rss_after_start": memory},
        fill_s,
        empty_s,
        brokers.folder,
    )
    return [row]


def _cold_row(
    key: str,
    title: str,
    messages: int,
    served_s: list[float],
    sizes: str,
    figures: dict[str, float],
    fill_s: float,
    empty_s: float,
    folder: Path,
) -> ClusterRow:
    return ClusterRow(
        key=key,
        title=title,
        unit="s",
        target=COLD_SECONDS if messages >= COLD_MESSAGES else None,
        value=statistics.median(served_s),
        shown=(
            f"worst of {len(served_s)}: {max(served_s):.2f} s; {sizes}; "
            f"filled at {messages / fill_s:,.0f}/s, emptied at {messages / empty_s:,.0f}/s"
        ),
        figures={"served_s": served_s, **figures, "fill_s": fill_s, "empty_s": empty_s},
        notes=[described(folder)],
    )


def _wait_until_served(brokers: BenchCluster, at: BrokerUrl, messages: int) -> None:
    """Wait until this broker tells a client that the queue has all messages."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        said = ""
        try:
            found = count(at, QUEUE)
            if found == messages:
                return
            said = f"the queue has {found} messages, and {messages} were confirmed"
        except BenchError as error:
            said = str(error)
        brokers.check()
        if time.monotonic() > deadline:
            raise BenchError(f"{said}, {START_SECONDS:.0f} s after the start")
        time.sleep(POLL_SECONDS)


def backlog(folder: Path, messages: int, size: int, *, draining: bool, watcher: Quiet) -> list[ClusterRow]:
    """Fill a queue and measure the broker's highest memory; with `draining` also while the queue is emptied."""
    with StartedBroker(folder) as broker:
        scales = _Scales(broker.pid, watcher)
        before = scales.now()
        fill_s = fill(broker.url, QUEUE, messages, size, scales.confirmed)
        after_fill, most = scales.now(), scales.most
        emptied: tuple[float, float] | None = None
        if draining:
            watcher.doing("emptying the queue")
            emptied = empty(broker.url, QUEUE, messages, scales.delivered)
    shown = f"filled at {messages / fill_s:,.0f}/s; {before / 1e6:,.0f} MB before, {after_fill / 1e6:,.0f} when filled"
    if emptied is not None:
        shown += f"; emptied at {messages / emptied[1]:,.0f}/s, {scales.most / 1e6:,.0f} MB at most in all"
    return [
        ClusterRow(
            key="backlog",
            title=f"memory with {messages:,} messages of {size:,} bytes on one queue, at most",
            unit="MB",
            target=BACKLOG_MEGABYTES if messages * size >= BACKLOG_BYTES else None,
            value=scales.most / 1e6,
            shown=shown,
            figures={
                "rss_before": before,
                "rss_filled": after_fill,
                "rss_most_filling": most,
                "rss_most": scales.most,
                "fill_s": fill_s,
                "empty_s": emptied and emptied[1],
            },
            notes=[described(folder)],
        )
    ]


class _Scales:
    """Reads the memory of a process now and then, while the queue is filled or emptied."""

    def __init__(self, pid: int, watcher: Quiet) -> None:
        self.most = 0
        self._process = BrokerProcess(pid)
        self._watcher = watcher
        self._next = 0.0

    def now(self) -> int:
        found = self._process.rss()
        self.most = max(self.most, found)
        return found

    def confirmed(self, done: int) -> None:
        self._weigh("confirmed", done)

    def delivered(self, done: int) -> None:
        self._weigh("delivered", done)

    def _weigh(self, doing: str, done: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + WEIGH_EVERY_S
            self.now()
            self._watcher.told(_told(doing, done))


def _told(doing: str, number: int) -> Progressed:
    return Progressed(doing=doing, number=number)
