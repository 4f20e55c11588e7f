"""The costs of connections: attaching, staying, being redirected; and of meta-bindings at the other brokers."""

from __future__ import annotations

import secrets
import socket
import statistics
import time
from contextlib import ExitStack, closing

from openclust.bench.brokers.bench_cluster import BenchCluster, MakeCluster, url
from openclust.bench.brokers.broker_process import BrokerProcess
from openclust.bench.calibration.bursts import AT_ONCE, cpu_ns
from openclust.bench.calibration.parts import Effort, Rows
from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection, connect, reset
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.spread import wait_until_known
from openclust.bench.client.subscribers import Subscription, attach, detach
from openclust.bench.report.progress_bar import Quiet

BEAT_S = 2
"""The heartbeat that the idle connections agree on: each side sends a frame every second."""
DEFAULT_BEAT_S = 60
BEATING_MAX = 2_000
"""With more connections this process would be late with its heartbeats."""
BINDINGS_AT_ONCE = 500
POLL_SECONDS = 0.01
EXCHANGE = "amq.direct"


def crowd(effort: Effort, make: MakeCluster, watcher: Quiet) -> Rows:
    """Two brokers: subscribers attach to one, and the other learns of their bindings."""
    figures: dict[str, float] = {}
    with make(2, 0) as brokers, ExitStack() as stack:
        brokers.start()
        root = brokers.wait_until_serving()
        other = next(name for name in brokers.primaries if name != root)
        like, distant = (stack.enter_context(closing(BenchConnection(url(brokers, name)))) for name in (root, other))
        process = BrokerProcess(brokers.pid(root))
        process.settle()
        figures["broker_bytes"] = process.rss()
        watcher.doing(f"{effort.opened:,} connections that are sent elsewhere")
        figures["open_us"] = _redirect_us(distant, brokers.pid(other), effort.opened)
        figures |= _attach_costs(effort, like, brokers.pid(root), watcher)
        watcher.doing("idle connections with their heartbeats")
        figures["idle_us_per_s"] = _heartbeat_us_per_s(like, brokers.pid(root), effort)
        watcher.doing(f"{effort.topics:,} bindings, as the other broker learns of them")
        figures |= _binding_costs(effort, brokers, like, distant, other)
    return Rows(rows=[], figures=figures)


def _attach_costs(effort: Effort, like: BenchConnection, pid: int, watcher: Quiet) -> dict[str, float]:
    """Attach several times. Memory is measured the first time, because a broker keeps memory that it once had."""
    process, bytes_each = BrokerProcess(pid), 0.0
    us, per_s = [], []
    for number in range(effort.rounds):
        watcher.doing(f"{effort.attached:,} subscribers attach")
        process.settle()
        name, before = f"bench.{secrets.token_hex(4)}", process.rss()
        subscriptions = [[Subscription(f"{name}.{each}", EXCHANGE, [name])] for each in range(effort.attached)]
        cpu, begun = cpu_ns(pid), time.perf_counter()
        sockets = attach(like, subscriptions, AT_ONCE, lambda _: None)
        try:
            took = time.perf_counter() - begun
            us.append((cpu_ns(pid) - cpu) / 1000 / effort.attached)
            per_s.append(effort.attached / took)
            if number == 0:
                # Each connection gets one message: a broker allocates what it writes with at the first delivery.
                message = frames.publish(1, EXCHANGE, name, bytes(100), frame_max=0, persistent=False)
                like.send(message)
                process.settle()
                bytes_each = (process.rss() - before) / effort.attached
        finally:
            detach(sockets)
    return {"attach_us": statistics.median(us), "attach_per_s": max(per_s), "connection_bytes": max(0.0, bytes_each)}


def _heartbeat_us_per_s(like: BenchConnection, pid: int, effort: Effort) -> float:
    """The CPU of an idle connection a second, at the heartbeat that a broker proposes, from faster heartbeats."""
    name = f"bench.{secrets.token_hex(4)}"
    count = min(effort.attached, BEATING_MAX)
    subscriptions = [[Subscription(f"{name}.{each}", EXCHANGE, [name])] for each in range(count)]
    BrokerProcess(pid).settle()
    rest_cpu, begun = cpu_ns(pid), time.perf_counter()
    time.sleep(1.0)
    rest = (cpu_ns(pid) - rest_cpu) / 1000 / (time.perf_counter() - begun)
    sockets = attach(like, subscriptions, AT_ONCE, lambda _: None, BEAT_S)
    try:
        cpu, begun = cpu_ns(pid), time.perf_counter()
        # Each side sends twice in an interval, one connection after the other, as independent clients would.
        gap_s = BEAT_S / 2 / len(sockets)
        due = begun
        while due < begun + effort.idle_s:
            for sock in sockets:
                due += gap_s
                if due > time.perf_counter() + POLL_SECONDS:
                    time.sleep(due - time.perf_counter())
                _beat(sock)
        took = time.perf_counter() - begun
        us = (cpu_ns(pid) - cpu) / 1000 / took - rest
    finally:
        detach(sockets)
    return max(0.0, us) / len(sockets) * BEAT_S / DEFAULT_BEAT_S


def _beat(sock: socket.socket) -> None:
    try:
        sock.send(frames.heartbeat())
        sock.recv(4_096)
    except BlockingIOError:
        pass
    except OSError as error:
        raise BenchError(f"the broker broke an idle connection: {error}") from None


def _binding_costs(
    effort: Effort, brokers: BenchCluster, like: BenchConnection, distant: BenchConnection, other: str
) -> dict[str, float]:
    """One queue with many bindings at one broker; measured is the CPU and memory of the other."""
    name = f"bench.{secrets.token_hex(4)}"
    like.call(frames.queue_declare(1, name, exclusive=True), frames.QUEUE_DECLARE_OK)
    process = BrokerProcess(brokers.pid(other))
    process.settle()
    held, rss, cpu = brokers.held(other), process.rss(), cpu_ns(brokers.pid(other))
    for first in range(0, effort.topics, BINDINGS_AT_ONCE):
        numbers = range(first, min(first + BINDINGS_AT_ONCE, effort.topics))
        like.send(b"".join(frames.queue_bind(1, name, EXCHANGE, f"{name}.{number}") for number in numbers))
        for _ in numbers:
            like.call(b"", frames.QUEUE_BIND_OK)
    wait_until_known(distant, [like])
    us = (cpu_ns(brokers.pid(other)) - cpu) / 1000 / effort.topics
    process.settle()
    bytes_each = (process.rss() - rss) / effort.topics
    if brokers.held(other) - held < effort.topics:
        raise BenchError(f"{other} did not learn of all bindings of the other broker")
    like.call(frames.queue_delete(1, name), frames.QUEUE_DELETE_OK)
    return {"meta_binding_us": us, "topic_bytes": max(0.0, bytes_each)}


def _redirect_us(like: BenchConnection, pid: int, count: int) -> float:
    """Connections that ask for the root at another broker, and close when they are redirected."""
    hello = (
        frames.PROTOCOL_HEADER
        + frames.start_ok(like.url.user, like.url.password, connect_to="root")
        + frames.tune_ok(like.channel_max, like.frame_max)
        + frames.connection_open(like.url.vhost, insist=False)
    )
    cpu = cpu_ns(pid)
    for _ in range(count):
        sock = connect(like.url)
        try:
            sock.sendall(hello)
            reader, told = frames.FrameCutter(), False
            while not told:
                data = sock.recv(65_536)
                if not data:
                    raise BenchError(f"{like.url.address} closed a connection that asked for the root")
                for frame in reader.feed(data):
                    if frame.ids == frames.CONNECTION_OPEN_OK:
                        raise BenchError(f"{like.url.address} took a connection that asked for the root elsewhere")
                    told = told or frame.ids == frames.CONNECTION_REDIRECT
        finally:
            reset(sock)
    return (cpu_ns(pid) - cpu) / 1000 / count
