"""Light streams of messages at some brokers, beside what is measured at others.

A process of its own: `python -m openclust.bench.load.background_load`. It reads `Streams`
on stdin, answers `ready`, and leaves when stdin ends.
"""

from __future__ import annotations

import random
import secrets
import select
import signal
import subprocess
import sys
import time

import msgspec

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.child import end_child
from openclust.bench.client.subscribers import Subscription, attach, detach
from openclust.bench.client.url import BrokerUrl

AT_ONCE = 64
BUFFER_BYTES = 256 * 1024
STOP_SECONDS = 10.0


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """At each broker, `rate` single messages a second at random intervals, to `subscribers` there."""

    brokers: list[BrokerUrl]
    rate: float = 150.0
    subscribers: int = 4
    size: int = 100


class _Stream:
    """The stream of one broker: a publisher and subscribers of an exchange of their own."""

    def __init__(self, url: BrokerUrl, streams: Streams, number: int) -> None:
        self._chance, self._rate = random.Random(number), streams.rate
        exchange = f"bench.company.{secrets.token_hex(4)}"
        self._publisher = BenchConnection(url)
        self._publisher.call(frames.exchange_declare(1, exchange, "fanout"), frames.EXCHANGE_DECLARE_OK)
        subscriptions = [[Subscription(f"{exchange}.{each}", exchange, [""])] for each in range(streams.subscribers)]
        self.sockets = attach(self._publisher, subscriptions, AT_ONCE, lambda _: None)
        frame_max = self._publisher.frame_max
        self._message = frames.publish(1, exchange, "", bytes(streams.size), frame_max=frame_max, persistent=False)
        self.due = 0.0

    def publish(self) -> None:
        self._publisher.send(self._message)

    def wait(self, since: float) -> None:
        self.due = since + self._chance.expovariate(self._rate)

    def close(self) -> None:
        detach(self.sockets)
        self._publisher.close()


def _stream(streams: Streams, order: int) -> None:
    """Send the streams until `order` is readable."""
    poll, buffer = select.epoll(), bytearray(BUFFER_BYTES)
    every = [_Stream(url, streams, number) for number, url in enumerate(streams.brokers)]
    receivers = {sock.fileno(): sock.recv_into for each in every for sock in each.sockets}
    for fd in (order, *receivers):
        poll.register(fd, select.EPOLLIN)
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    for each in every:
        each.wait(time.perf_counter())
    while True:
        now = time.perf_counter()
        for each in every:
            if each.due <= now:
                each.publish()
                each.wait(now)
        wait_s = min(each.due for each in every) - time.perf_counter()
        for fd, _ in poll.poll(max(0.0, wait_s), 256):
            if fd == order:
                for each in every:
                    each.close()
                return
            try:
                if not receivers[fd](buffer):
                    raise BenchError("a broker closed a subscriber's connection without a reason")
            except BlockingIOError:
                continue


class BackgroundLoad:
    """A process that sends the streams, from the moment this is made. Close it in any case."""

    def __init__(self, streams: Streams) -> None:
        command = [sys.executable, "-m", "openclust.bench.load.background_load"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(msgspec.json.encode(streams) + b"\n")
            self._process.stdin.flush()
            said = self._process.stdout.readline()
        except BrokenPipeError:
            said = b""
        if not said:
            self.close()
            raise BenchError("the background load died; its last words are above")

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        end_child(self._process, STOP_SECONDS)


def main() -> None:
    """Serve one set of streams."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = sys.stdin.buffer.readline()
    if line:
        _stream(msgspec.json.decode(line, type=Streams), sys.stdin.fileno())


if __name__ == "__main__":
    main()
