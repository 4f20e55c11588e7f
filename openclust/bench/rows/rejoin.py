"""A backup is down under load and starts again: how long it takes to catch up, and how confirms slow down."""

from __future__ import annotations

import itertools
import threading
import time

import msgspec

from openclust.bench.brokers.bench_cluster import BenchCluster, ClusterBenchOptions, MakeCluster, url
from openclust.bench.brokers.kernel_counters import received_bytes
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.load.generator import Generator
from openclust.bench.load.load_messages import Order
from openclust.bench.load.work import LoadWork
from openclust.bench.report.progress_bar import Quiet
from openclust.bench.report.statistics import latency_percentiles_ms, ratio
from openclust.bench.rows.cluster_row import ClusterRow

BEFORE_SECONDS, AFTER_SECONDS = 5.0, 3.0
TURN_SECONDS = 1.0
CATCH_UP_SECONDS = 120.0
STEP_SECONDS = 0.1
"""The pause between two questions, because answering is work for the brokers, too."""
LATENCY_RATIO = 2.0


class ContinuousLoad:
    """Traffic in rounds of a second, one right after the other, until `end`."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._ending = threading.Event()
        self._samples: list[tuple[int, int]] = []
        self._messages = 0
        self._failed: BenchError | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Returns when all messages have come. Raises an error that happened meanwhile."""
        self._ending.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise an error that has happened so far."""
        if self._failed is not None:
            raise self._failed

    @property
    def messages(self) -> int:
        """The messages of all rounds that are over."""
        return self._messages

    def p99_ms(self, since_ns: int, until_ns: int) -> float | None:
        """The p99 of the confirms that came in this time; None if none came. Call it after `end`."""
        found = latency_percentiles_ms(took for at, took in self._samples if since_ns <= at < until_ns)
        return found.get("p99")

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                figures = self._generator.run(TURN_SECONDS)
                self._samples += zip(figures.confirmed_at_ns, figures.confirm_latencies_ns, strict=True)
                self._messages += figures.messages
        except BenchError as error:
            self._failed = error


class Rejoining(msgspec.Struct, frozen=True, kw_only=True):
    """Times are since the backup was started again. `p99_ms` is of the publisher's confirms, in each part of the run.

    `behind` is the number of log entries that the backup had missed when it was started.
    """

    online_s: float
    caught_up_s: float
    received_bytes: int | None
    behind: int
    missed_messages: int
    p99_ms: dict[str, float | None]


def rejoin(options: ClusterBenchOptions, make: MakeCluster, watcher: Quiet) -> list[ClusterRow]:
    """A backup of three is killed, is away for `options.down` seconds, and starts again with its data."""
    work = LoadWork(
        pattern="durable",
        window=options.unconfirmed,
        prefetch=options.prefetch,
        size=options.size,
        rate=options.rate,
    )
    with make(3, 0) as brokers:
        brokers.start()
        root = brokers.wait_until_serving()
        generator = Generator(Order(url=url(brokers, root), work=work), watcher.told)
        try:
            generator.run(options.warm_up)
            found = _follow(options, brokers, root, ContinuousLoad(generator), watcher)
        finally:
            generator.close()
    return rows_of_rejoining(options, found)


def _follow(
    options: ClusterBenchOptions, brokers: BenchCluster, root: str, load: ContinuousLoad, watcher: Quiet
) -> Rejoining:
    backup = next(name for name in reversed(brokers.primaries) if name != root)
    times: dict[str, int] = {"before": time.perf_counter_ns()}
    try:
        watcher.doing("rejoin: all three are there")
        time.sleep(BEFORE_SECONDS)
        had = brokers.position(backup)
        times["down"] = time.perf_counter_ns()
        brokers.kill(backup)
        watcher.doing(f"rejoin: {backup} is down")
        time.sleep(options.down)
        missed = brokers.position(root)
        times["starting"] = time.perf_counter_ns()
        brokers.start(backup)
        watcher.doing(f"rejoin: {backup} catches up")
        brokers.wait_until_answering(backup)
        times["catching up"] = time.perf_counter_ns()
        _wait_until_level(brokers, root, backup, load)
        times["after"] = time.perf_counter_ns()
        received = received_bytes(brokers.pid(backup))
        time.sleep(AFTER_SECONDS)
        if brokers.root(root) != root:
            raise BenchError(f"{root} did not stay root while {backup} was away")
    finally:
        load.end()
    times["end"] = time.perf_counter_ns()
    p99 = {name: load.p99_ms(times[name], times[until]) for name, until in itertools.pairwise(times)}
    p99["whole return"] = load.p99_ms(times["starting"], times["after"])
    return Rejoining(
        online_s=(times["catching up"] - times["starting"]) / 1e9,
        caught_up_s=(times["after"] - times["starting"]) / 1e9,
        received_bytes=received,
        behind=missed[1] - had[1] if missed and had else 0,
        missed_messages=round(options.rate * (times["starting"] - times["down"]) / 1e9),
        p99_ms=p99,
    )


def _wait_until_level(brokers: BenchCluster, root: str, backup: str, load: ContinuousLoad) -> None:
    """Wait until the backup's log has all entries that the root's had a moment before."""
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while True:
        asked, has = brokers.position(root), brokers.position(backup)
        if asked is not None and has is not None and has >= asked:
            return
        load.check()
        brokers.check()
        if time.monotonic() > deadline:
            raise BenchError(
                f"{backup} does not catch up within {CATCH_UP_SECONDS:.0f} s: it has {has}, {root} {asked}"
            )
        time.sleep(STEP_SECONDS)


def rows_of_rejoining(options: ClusterBenchOptions, found: Rejoining) -> list[ClusterRow]:
    received = "bytes unknown" if found.received_bytes is None else f"{found.received_bytes / 1e6:.1f} MB received"
    spent = ", ".join(f"{name} {_ms(took)}" for name, took in found.p99_ms.items())
    return [
        ClusterRow(
            key="rejoin",
            title=f"a backup down for {options.down:g} s at {options.rate:,.0f} messages/s, from its start to level",
            unit="s",
            value=found.caught_up_s,
            shown=(
                f"answering after {found.online_s:.2f} s; {found.behind:,} entries for "
                f"{found.missed_messages:,} messages, {received}"
            ),
            figures=msgspec.to_builtins(found),
        ),
        ClusterRow(
            key="rejoin-latency",
            title="p99 of the publisher's confirms while it returns, over that before",
            unit="x",
            target=LATENCY_RATIO,
            value=ratio(found.p99_ms["whole return"], found.p99_ms["before"]),
            shown=spent,
        ),
    ]


def _ms(took: float | None) -> str:
    return "-" if took is None else f"{took:.1f} ms"
