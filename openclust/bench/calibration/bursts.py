"""Bursts of messages: the publishes of a burst are one write, and the next burst waits for all deliveries of this one.

A broker handles a burst in one turn of its loop and writes once to each subscriber, so its work is known by counting.
There is a pause before each burst. A broker that had to wait for work uses more CPU for a
turn than one that never stops. Turns matter in brokers with time to spare: under load one turn handles many messages.
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
"""Up to so many receivers, each read is timed. With more of them, taking the time would cost too much itself."""
SILENCE_SECONDS = 20.0
PAUSE_SECONDS = 0.002
"""The mean of the pauses, which is that of a broker that gets 400 messages a second."""
LINGER_SECONDS = 0.03
"""So long brokers still write and tell each other things after the last answer."""


def cpu_ns(pid: int) -> int:
    """The CPU time of a process so far, user and system, of all its threads."""
    try:
        # The id of a process's CPU clock on Linux, as clock_getcpuclockid(3) computes it.
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        raise BenchError(f"the broker process {pid} died during the bench") from None


_CHANCE = random.Random(1)


def pause(mean_s: float = PAUSE_SECONDS) -> None:
    """Sleep for a random time, as messages come at random. With a constant pause the scheduler would fall into step."""
    time.sleep(_CHANCE.expovariate(1 / mean_s))


@contextmanager
def apart(*pids: int) -> Iterator[None]:
    """Keep this process on the first core and the brokers on the others.

    To wake a process on another core costs a third of a turn on a virtual machine. The scheduler would put the two on
    one core or on two, by chance, and leave them there: the same row would come out in two ways.
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
    """What one repetition took of one process."""

    us: float
    """Microseconds of CPU."""
    waited_ms: float
    """The rest of the time, in which the process waited or did something else."""


class Load(Protocol):
    """Work that can be repeated."""

    def run(self, times: int) -> None:
        """Do it so many times; returns when the last is over."""


def cpu_each(
    load: Load, pids: Mapping[str, int], times: int, rounds: int, idle: Mapping[str, float] | None = None
) -> dict[str, Spent]:
    """The CPU of each process for one repetition, without the share of a core (`idle`, of 1) that it uses anyhow.

    Each figure is the median of `rounds` rounds of `times` repetitions.
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
    """The share of a core that each process uses while it has nothing to do."""
    before, begun = {name: cpu_ns(pid) for name, pid in pids.items()}, time.perf_counter_ns()
    time.sleep(seconds)
    took = time.perf_counter_ns() - begun
    return {name: (cpu_ns(pid) - before[name]) / took for name, pid in pids.items()}


class BurstSubscribers:
    """Connections to one broker, each with a private queue on one exchange. Close them in any case.

    There are `count` of them for each key, in turns: the first has the first key, the second the second, and so on.
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
    """Messages of one size from one publisher, each burst with one of the keys, at random.

    `sockets` are those of all subscribers, as many for each key; the first is a subscriber of the first key.

    No delivery may be on its way to them.
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
        """Of each burst, the time until its last delivery came."""
        self.each_ns: list[int] = []
        """Of each read, the time since its burst was sent; only with few receivers."""
        self._begun_ns = 0
        self.delivery_bytes = self._learn(ones[0])

    def run(self, times: int) -> None:
        """Send so many bursts; returns when the last delivery is there."""
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
        """Send one message; returns the length of its delivery."""
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
