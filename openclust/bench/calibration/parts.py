"""The costs of messages: rows to compute them from, each part measured with brokers of its own."""

from __future__ import annotations

import secrets
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

from openclust.bench.brokers.bench_cluster import BenchCluster, MakeCluster, url
from openclust.bench.brokers.local_broker import StartedBroker
from openclust.bench.calibration.bursts import Bursts, BurstSubscribers, Spent, apart, cpu_each, idle_share
from openclust.bench.calibration.fit import CostSample
from openclust.bench.calibration.shared_queue import QueueTraffic
from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.spread import wait_until_known
from openclust.bench.report.progress_bar import Quiet

Costs = Mapping[str, float]
SMALL, LARGE = 100, 10_000


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured. Rows are repeated until the broker will have used about so much CPU in a round."""

    round_cpu_us: float = 80_000.0
    rounds: int = 5
    times_min: int = 10
    times_max: int = 200
    subscribers: tuple[int, ...] = (1, 100, 1_000)
    bursts: tuple[int, ...] = (1, 4, 16, 64)
    few: tuple[int, ...] = (1, 10)
    pauses_s: tuple[float, ...] = (0.0003, 0.001, 0.005)
    """Pauses before lone messages, besides the usual one."""
    attached: int = 5_000
    idle_s: float = 4.0
    rest_s: float = 2.0
    topics: int = 20_000
    opened: int = 300
    kills: int = 5
    stops: int = 3
    primaries: int = 3
    members: tuple[int, ...] = (2, 4, 8)

    def times(self, about_us: float) -> int:
        return max(self.times_min, min(self.times_max, round(self.round_cpu_us / about_us)))


QUICK = Effort(
    rounds=1,
    round_cpu_us=5_000.0,
    rest_s=0.3,
    times_min=5,
    times_max=20,
    subscribers=(1, 20),
    bursts=(1, 16),
    few=(1, 5),
    pauses_s=(0.0003, 0.005),
    attached=100,
    idle_s=0.5,
    topics=500,
    opened=20,
    kills=1,
    stops=1,
    members=(2, 3),
)
"""For `--quick`: the figures are rough."""


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    rows: list[CostSample]
    figures: dict[str, float] = {}
    """Costs that were measured directly, by their names in the calibration."""


def fanout(effort: Effort, watcher: Quiet) -> Rows:
    """One broker, many subscribers: what a turn, a publish, a delivery and a write cost."""
    rows, stack_us = [], 0.0
    with StartedBroker() as broker, closing(BenchConnection(broker.url)) as publisher, apart(broker.pid):
        for subscribers in effort.subscribers:
            watcher.doing(f"fan-out to {subscribers:,}")
            with ExitStack() as stack:
                exchange = exchange_at(publisher)
                listening = stack.enter_context(closing(BurstSubscribers(publisher, exchange, subscribers)))
                for size, burst in _sizes_and_bursts(effort, subscribers):
                    with closing(Bursts(publisher, exchange, listening.sockets, size, burst)) as load:
                        times = effort.times(60 + subscribers * (4 + burst / 3))
                        spent = cpu_each(load, {"": broker.pid}, times, effort.rounds)[""]
                        rows.append(fanout_row(subscribers, size, burst, load.delivery_bytes, spent))
                        if (subscribers, size, burst) == (1, SMALL, 1):
                            stack_us = max(0.0, statistics.median(load.latencies_ns) / 1000 - spent.us)
                if subscribers == 1:
                    rows += after_pauses(effort, publisher, exchange, listening, {"": broker.pid})
    return Rows(rows=rows, figures={"stack_us": stack_us})


def _sizes_and_bursts(effort: Effort, subscribers: int) -> Iterator[tuple[int, int]]:
    """Bursts that a socket takes at once: a larger one would be written in parts."""
    for burst in effort.bursts:
        if subscribers * burst <= 16_000:
            yield SMALL, burst
    for burst in effort.bursts:
        if burst <= 4 and subscribers * burst <= 1_000:
            yield LARGE, burst


def after_pauses(
    effort: Effort,
    publisher: BenchConnection,
    exchange: str,
    listening: BurstSubscribers,
    pid: Mapping[str, int],
    idle: Mapping[str, float] | None = None,
    keys: Sequence[str] = ("",),
) -> Iterator[CostSample]:
    """Rows of single messages to one subscriber, after pauses of other lengths."""
    for pause_s in effort.pauses_s:
        with closing(Bursts(publisher, exchange, listening.sockets, SMALL, 1, keys, pause_s)) as load:
            spent = cpu_each(load, pid, effort.times(60), effort.rounds, idle)[""]
            row = fanout_row(1, SMALL, 1, load.delivery_bytes, spent)
            yield msgspec.structs.replace(row, name=f"{row.name}, after {spent.waited_ms:.1f} ms")


def fanout_row(subscribers: int, size: int, burst: int, delivery_bytes: int, spent: Spent) -> CostSample:
    counts = {
        "turn_us": 1.0,
        "wait_us_per_ms": spent.waited_ms,
        "publish_us": burst,
        "publish_kb_us": burst * size / 1000,
        "delivery_us": subscribers * burst,
        "write_us": subscribers,
        "write_kb_us": subscribers * burst * delivery_bytes / 1000,
    }
    return CostSample(name=f"fan-out of {burst} x {size:,} bytes to {subscribers:,}", counts=counts, us=spent.us)


def relay(effort: Effort, make: MakeCluster, watcher: Quiet) -> Rows:
    """Two brokers, the publisher at one and the subscribers at the other."""
    rows: list[CostSample] = []
    with make(2, 0) as brokers, ExitStack() as stack:
        idle, connections = start_and_connect(brokers, stack, effort.rest_s)
        publisher = connections["p1"]
        for subscribers in effort.subscribers[:2]:
            watcher.doing(f"relaying to {subscribers:,} at another broker")
            exchange = exchange_at(publisher)
            with closing(BurstSubscribers(connections["p2"], exchange, subscribers)) as listening:
                wait_until_known(publisher, [connections["p2"]])
                for size, burst in _sizes_and_bursts(effort, subscribers):
                    with closing(Bursts(publisher, exchange, listening.sockets, size, burst)) as load:
                        times = effort.times(120 + subscribers * (4 + burst / 3))
                        spent = cpu_each(load, pids_of(brokers), times, effort.rounds, idle)
                        rows += relay_rows(subscribers, size, burst, load.delivery_bytes, spent["p1"], spent["p2"])
    return Rows(rows=rows)


def members(effort: Effort, make: MakeCluster, watcher: Quiet) -> Rows:
    """Clusters that have nothing to do."""
    rows: list[CostSample] = []
    for count in effort.members:
        watcher.doing(f"a cluster of {count} at rest")
        with make(count, 0) as brokers, ExitStack() as stack:
            idle, _ = start_and_connect(brokers, stack, effort.rest_s)
            us = statistics.mean(idle.values()) * 1e6
            rows.append(CostSample(name=f"a second in a cluster of {count}", counts=_of_members(count), us=us))
    return Rows(rows=rows)


def _of_members(count: int) -> dict[str, float]:
    return {"member_us_per_s": 1.0, "peer_us_per_s": count - 1.0}


def relay_rows(
    subscribers: int, size: int, burst: int, delivery_bytes: int, sender: Spent, receiver: Spent
) -> Iterator[CostSample]:
    kb = burst * size / 1000
    what = f"{burst} x {size:,} bytes"
    turn = {"turn_us": 1.0, "wait_us_per_ms": sender.waited_ms}
    out = {**turn, "publish_us": burst, "publish_kb_us": kb, "link_us": 1.0}
    yield CostSample(name=f"{what} sent on", counts={**out, "relay_out_us": burst, "relay_kb_us": kb}, us=sender.us)
    turn = {"turn_us": 1.0, "wait_us_per_ms": receiver.waited_ms}
    into = {**turn, "relay_in_us": burst, "relay_kb_us": kb}
    delivered = {
        "delivery_us": subscribers * burst,
        "write_us": subscribers,
        "write_kb_us": subscribers * burst * delivery_bytes / 1000,
    }
    yield CostSample(name=f"{what} from a link to {subscribers:,}", counts={**into, **delivered}, us=receiver.us)


def shared(effort: Effort, make: MakeCluster, watcher: Quiet) -> Rows:
    """At the root of three brokers: a queue that is not replicated, and one that is, with persistent messages."""
    rows: list[CostSample] = []
    with make(effort.primaries, 0) as brokers, ExitStack() as stack:
        idle, _ = start_and_connect(brokers, stack, effort.rest_s)
        root = brokers.wait_until_serving()
        backups = [name for name in brokers.primaries if name != root]
        for burst in effort.bursts:
            watcher.doing(f"a shared queue at the root, {burst} at a time")
            with closing(QueueTraffic(url(brokers, root), burst, durable=False, persistent=False)) as load:
                spent = cpu_each(load, pids_of(brokers), effort.times(150), effort.rounds, idle)[root]
                passed = _counts_of_messages(burst, spent)
                rows.append(CostSample(name=f"shared queue, {burst} at a time", counts=passed, us=spent.us))
            watcher.doing(f"a replicated queue, {burst} at a time")
            with closing(QueueTraffic(url(brokers, root), burst, durable=True, persistent=True)) as load:
                each = cpu_each(load, pids_of(brokers), effort.times(2_000), effort.rounds, idle)
                kept, copied, passed = (
                    _counts_of_storing(burst),
                    _counts_of_replicating(burst),
                    _counts_of_messages(burst, each[root]),
                )
                at_root = {**passed, **kept, **{name: len(backups) * of for name, of in copied.items()}}
                rows.append(CostSample(name=f"replicated, {burst} at a time, root", counts=at_root, us=each[root].us))
                of_backups = statistics.mean(each[name].us for name in backups)
                counts = {**kept, **copied}
                rows.append(CostSample(name=f"replicated, {burst} at a time, backup", counts=counts, us=of_backups))
    return Rows(rows=rows)


def persist(effort: Effort, data_in: Path, watcher: Quiet) -> Rows:
    """One broker with a disk: a durable queue with persistent messages."""
    rows: list[CostSample] = []
    with StartedBroker(data_in) as broker:
        for burst in effort.bursts:
            watcher.doing(f"a durable queue, {burst} at a time")
            with closing(QueueTraffic(broker.url, burst, durable=True, persistent=True)) as load:
                spent = cpu_each(load, {"": broker.pid}, effort.times(2_000), effort.rounds)[""]
                counts = {**_counts_of_messages(burst, spent), **_counts_of_storing(burst)}
                rows.append(CostSample(name=f"durable, {burst} at a time", counts=counts, us=spent.us))
    return Rows(rows=rows)


def _counts_of_messages(burst: int, spent: Spent) -> dict[str, float]:
    """One turn for the messages and one for their acks; one write for the deliveries and one for the confirms."""
    turns = {"turn_us": 2.0, "wait_us_per_ms": spent.waited_ms}
    return {**turns, "publish_us": burst, "delivery_us": burst, "write_us": 2.0, "shared_us": burst}


def _counts_of_storing(burst: int) -> dict[str, float]:
    return {"persist_batch_us": 2.0, "persist_us": burst}


def _counts_of_replicating(burst: int) -> dict[str, float]:
    return {"replicate_batch_us": 2.0, "replicate_us": burst}


def exchange_at(publisher: BenchConnection, kind: str = "fanout") -> str:
    """Declare an exchange at one broker, and so on all; returns its name."""
    name = f"bench.{secrets.token_hex(4)}"
    publisher.call(frames.exchange_declare(1, name, kind), frames.EXCHANGE_DECLARE_OK)
    return name


def pids_of(brokers: BenchCluster) -> dict[str, int]:
    return {name: brokers.pid(name) for name in brokers.names}


def start_and_connect(
    brokers: BenchCluster, stack: ExitStack, seconds: float
) -> tuple[dict[str, float], dict[str, BenchConnection]]:
    """Start the brokers; returns the CPU that each uses while idle, and a connection to each."""
    brokers.start()
    brokers.wait_until_serving()
    connections = {name: stack.enter_context(closing(BenchConnection(url(brokers, name)))) for name in brokers.names}
    return idle_share(pids_of(brokers), seconds), connections
