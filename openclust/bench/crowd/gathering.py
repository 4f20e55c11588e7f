"""Crowds at every broker of a cluster: how fast they attach, their memory, and the time until all have a message."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

import msgspec

from openclust.bench.brokers.broker_process import BrokerProcess
from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.spread import share, wait_until_known
from openclust.bench.client.url import BrokerUrl
from openclust.bench.crowd.crowd import CrowdProcess, Gather, Gathered, Heard, ListenForOne, Listening

Tell = Callable[[str], None]


class Gathering(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of all crowds. Every subscriber got every message; otherwise there is a BenchError."""

    subscribers: int
    connections: int
    attach_s: float
    rss_before: int
    rss_idle: int
    rss_after: int
    broker_cpu_s: float
    last_receipts_ms: list[float]

    @property
    def attaches_per_s(self) -> float:
        return self.subscribers / self.attach_s

    @property
    def idle_bytes_each(self) -> float:
        return (self.rss_idle - self.rss_before) / self.subscribers

    @property
    def bytes_each_after(self) -> float:
        return (self.rss_after - self.rss_before) / self.subscribers


def gather(
    urls: Sequence[BrokerUrl],
    pids: Sequence[int],
    *,
    subscribers: int,
    per_connection: int,
    messages: int,
    size: int,
    tell: Tell,
) -> Gathering:
    """Attach subscribers evenly, one process for each broker. A message is sent when all have the one before."""
    brokers = BrokerProcess(*pids)
    exchange = f"bench.{secrets.token_hex(4)}"
    connections = subscribers // per_connection
    with ExitStack() as stack:
        publisher, *others = [stack.enter_context(closing(BenchConnection(url))) for url in urls]
        for connection in (publisher, *others):
            connection.call(frames.exchange_declare(1, exchange, "fanout"), frames.EXCHANGE_DECLARE_OK)
        brokers.settle()
        rss_before = brokers.rss()
        tell(f"attaching {connections * per_connection:,} subscribers")
        started = time.perf_counter()
        crowds, attached = attach_crowds(stack, urls, exchange, connections=connections, per_connection=per_connection)
        attach_s = time.perf_counter() - started
        wait_until_known(publisher, others)
        brokers.settle()
        rss_idle, cpu_s = brokers.rss(), brokers.cpu_s()
        message = frames.publish(1, exchange, "tick", bytes(size), frame_max=publisher.frame_max, persistent=False)
        delivered, last_receipts_ms = 0, []
        for number in range(messages + 1):
            tell(f"message {number} of {messages}")
            delivered, took_ms = _send_one(publisher, message, crowds, delivered)
            last_receipts_ms.append(took_ms)
        brokers_cpu_s = brokers.cpu_s() - cpu_s
        brokers.settle()
        return Gathering(
            subscribers=attached,
            connections=connections,
            attach_s=attach_s,
            rss_before=rss_before,
            rss_idle=rss_idle,
            rss_after=brokers.rss(),
            broker_cpu_s=brokers_cpu_s,
            last_receipts_ms=last_receipts_ms[1:],  # the first one made routes and told the size
        )


def attach_crowds(
    stack: ExitStack, urls: Sequence[BrokerUrl], exchange: str, *, connections: int, per_connection: int
) -> tuple[list[CrowdProcess], int]:
    """Attach the connections evenly, one process for each broker. Returns these and the number of subscribers."""
    crowds = [
        stack.enter_context(closing(_process(url, exchange, len(part), per_connection)))
        for url, part in share(range(connections), urls)
    ]
    stack.callback(_leave_together, crowds)
    attached = 0
    for crowd in crowds:
        gathered = crowd.answer()
        assert isinstance(gathered, Gathered)
        attached += gathered.attached
    return crowds, attached


def _process(url: BrokerUrl, exchange: str, connections: int, per_connection: int) -> CrowdProcess:
    name = f"bench.{secrets.token_hex(4)}"
    return CrowdProcess(
        Gather(url=url, exchange=exchange, name=name, connections=connections, queues_each=per_connection)
    )


def _send_one(publisher: BenchConnection, message: bytes, crowds: list[CrowdProcess], size: int) -> tuple[int, float]:
    """The size of its delivery, and the time until the last one had it."""
    for crowd in crowds:
        crowd.tell(ListenForOne(size=size))
    for crowd in crowds:
        assert isinstance(crowd.answer(), Listening)
    started_ns = time.perf_counter_ns()
    publisher.send(message)
    heard = [crowd.answer() for crowd in crowds]
    receipts = [each for each in heard if isinstance(each, Heard)]
    assert len(receipts) == len(crowds), "nothing else is answered"
    return max(each.size for each in receipts), (max(each.last_ns for each in receipts) - started_ns) / 1e6


def _leave_together(crowds: list[CrowdProcess]) -> None:
    for crowd in crowds:
        crowd.leave()
