"""Bursts of messages with known costs: so many publishes in one write, and the next burst when all of it has come.

A broker takes a burst in one turn of its loop, and writes once to each subscriber: what it did is known by counting.
Bursts come after a pause. A broker that had to wait for work takes more for a turn than one that never stops, and
it is turns of a broker with time to spare that cost something: under load one turn serves many messages.
"""

from __future__ import annotations

import os
import random
import secrets
import select
import socket
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, Protocol

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection, reason
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.subscribers import Subscription, attach, detach
from openclust.bench.crowd.crowd import delivery_size

AT_ONCE = 64
BUFFER_BYTES = 1024 * 1024
FEW = 8
"""Receivers whose reads are timed one by one: for more it would take time itself."""
SILENCE_SECONDS = 20.0
PAUSE_SECONDS = 0.002
"""In the mean: as of a broker that gets 400 messages a second."""
LINGER_SECONDS = 0.03
"""What brokers still do when the last answer is there: writing, telling each other."""


def cpu_ns(pid: int) -> int:
    """What a process has used of its processors so far, all threads, in user and system, to the nanosecond."""
    try:
        # Linux tells a process's clock by its id: clock_getcpuclockid(3) makes the same number.
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        raise BenchError(f"the broker process {pid} died during the bench") from None


_CHANCE = random.Random(1)


def pause(mean_s: float = PAUSE_SECONDS) -> None:
    """At random, as messages come: after a pause that is always the same processors and schedulers fall into step."""
    time.sleep(_CHANCE.expovariate(1 / mean_s))


@contextmanager
def apart(*pids: int) -> Iterator[None]:
    """This process on the first core, and brokers on the others.

    Whoever wakes a process on another core pays for it, a third of a turn on a virtual machine. The scheduler puts the
    two on one core or on two as it likes, and leaves them there: the same row would be measured as either.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(cores) < 2:
        yield
        return
    threads = [int(each) for pid in pids for each in os.listdir(f"/proc/{pid}/task")]
    for thread in threads:
        os.sched_setaffinity(thread, cores[1:])
    os.sched_setaffinity(0, cores[:1])
    try:
        yield
    finally:
        for thread in (0, *threads):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)


class Spent(NamedTuple):
    """Of one process, each time that something was done."""

    us: float
    """Of CPU."""
    waited_ms: float
    """And so long it did something else, or nothing."""


class Load(Protocol):
    """Something that is done again and again."""

    def run(self, times: int) -> None:
        """So often; returns when the last is over."""


def cpu_each(
    load: Load, pids: Mapping[str, int], times: int, rounds: int, idle: Mapping[str, float] | None = None
) -> dict[str, Spent]:
    """What these processes take to do it once, without what they take (`idle`, of 1) anyhow.

    The medians of some rounds of so many times.
    """
    load.run(max(3, times // 10))
    time.sleep(LINGER_SECONDS)
    found: dict[str, list[Spent]] = {name: [] for name in pids}
    for _ in range(rounds):
        before, begun = {name: cpu_ns(pid) for name, pid in pids.items()}, time.perf_counter_ns()
        load.run(times)
        ran = time.perf_counter_ns() - begun
        time.sleep(LINGER_SECONDS)
        took = time.perf_counter_ns() - begun
        for name, pid in pids.items():
            us = (cpu_ns(pid) - before[name] - took * (idle or {}).get(name, 0.0)) / 1000 / times
            found[name].append(Spent(us, max(0.0, ran / 1e6 / times - us / 1000)))
    return {name: Spent(*map(statistics.median, zip(*each, strict=True))) for name, each in found.items()}


def idle_share(pids: Mapping[str, int], seconds: float) -> dict[str, float]:
    """What these processes take of a core while nobody wants anything."""
    before, begun = {name: cpu_ns(pid) for name, pid in pids.items()}, time.perf_counter_ns()
    time.sleep(seconds)
    took = time.perf_counter_ns() - begun
    return {name: (cpu_ns(pid) - before[name]) / took for name, pid in pids.items()}


class BurstSubscribers:
    """Connections to one broker, each with a private queue on one exchange. Close them in any case.

    Of so many for each of some `keys`, the first is of the first key, the second of the second, and so on.
    """

    def __init__(self, at: BenchConnection, exchange: str, count: int, keys: Sequence[str] = ("",)) -> None:
        name = f"bench.{secrets.token_hex(4)}"
        subscriptions = [
            [Subscription(f"{name}.{number}", exchange, [keys[number % len(keys)]])]
            for number in range(count * len(keys))
        ]
        self.sockets = attach(at, subscriptions, AT_ONCE, lambda _: None)

    def close(self) -> None:
        detach(self.sockets)


class Bursts:
    """Messages of one size from one publisher, each burst with one of the keys, at random. `sockets` are of all who
    listen, as many to each key; who listens to the first one is first.

    The sockets must be silent: nothing is on its way to them.
    """

    def __init__(
        self,
        publisher: BenchConnection,
        exchange: str,
        sockets: Sequence[socket.socket],
        size: int,
        burst: int,
        keys: Sequence[str] = ("",),
        pause_s: float = PAUSE_SECONDS,
    ) -> None:
        self._publisher, self._sockets, self._pause_s = publisher, sockets, pause_s
        self.size, self.burst = size, burst
        frame_max = publisher.frame_max
        ones = [frames.publish(1, exchange, key, bytes(size), frame_max=frame_max, persistent=False) for key in keys]
        self._blocks = [one * burst for one in ones]
        self._copies = len(sockets) // len(keys)
        self._buffer = bytearray(BUFFER_BYTES)
        self._epoll = select.epoll(len(sockets) + 1)
        self._receivers = {sock.fileno(): sock.recv_into for sock in sockets}
        for fd in self._receivers:
            self._epoll.register(fd, select.EPOLLIN)
        self.latencies_ns: list[int] = []
        """Until all had come."""
        self.each_ns: list[int] = []
        """Until each read, where few read."""
        self._begun_ns = 0
        self.delivery_bytes = self._learn(ones[0])

    def run(self, times: int) -> None:
        """So many; returns when the last delivery is there."""
        expected = self.delivery_bytes * self.burst * self._copies
        for _ in range(times):
            block = _CHANCE.choice(self._blocks)
            pause(self._pause_s)
            self._begun_ns = time.perf_counter_ns()
            self._publisher.send(block)
            self._receive(expected)
            self.latencies_ns.append(time.perf_counter_ns() - self._begun_ns)

    def close(self) -> None:
        self._epoll.close()

    def _receive(self, expected: int) -> None:
        buffer, receivers, poll = self._buffer, self._receivers, self._epoll.poll
        received, is_timed = 0, self._copies <= FEW
        while received < expected:
            events = poll(SILENCE_SECONDS, 256)
            if not events:
                raise BenchError(f"{self._publisher.url.address} delivered nothing for {SILENCE_SECONDS:.0f} s")
            for fd, _ in events:
                try:
                    got = receivers[fd](buffer)
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise BenchError(f"a subscriber's connection broke: {reason(error)}") from None
                if not got:
                    raise BenchError("a subscriber's connection was closed without a reason")
                received += got
                if is_timed:
                    self.each_ns.append(time.perf_counter_ns() - self._begun_ns)
        if received > expected:
            raise BenchError(f"{self._publisher.url.address} delivered more than was published")

    def _learn(self, one: bytes) -> int:
        """Send one message, and see how long its delivery is."""
        first = self._sockets[0]
        self._publisher.send(one)
        data = b""
        while True:
            if not select.select([first], [], [], SILENCE_SECONDS)[0]:
                raise BenchError(f"{self._publisher.url.address} did not deliver the first message")
            data += first.recv(BUFFER_BYTES)
            size = delivery_size(data)
            if size <= len(data):
                break
        self._receive(size * (self._copies - 1))
        return size
