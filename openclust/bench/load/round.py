"""The loop of one round: publish within the window, count the bytes that arrive, end when all have arrived."""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable

from openclust.bench.client import frames
from openclust.bench.client.acknowledger import Acknowledger
from openclust.bench.client.bench_connection import reason
from openclust.bench.client.bench_errors import BenchError, Stopped
from openclust.bench.client.frames import FRAME_OVERHEAD, FrameCutter
from openclust.bench.load.latency import SampledStream
from openclust.bench.load.publisher import Publisher
from openclust.bench.load.work import LoadWork

BUFFER_BYTES = 1024 * 1024
PROGRESS_NS = 250_000_000
# With confirms the window bounds the unconfirmed messages, and this the confirmed ones that are not delivered.
BACKLOG_MAX = 10_000

Progress = Callable[[int], None]
ReceivingChannel = Callable[[bytearray], int]


class Round:
    """Use once: `open`, `pump`, `close`. It stops when `stop_fd` becomes readable."""

    def __init__(
        self,
        work: LoadWork,
        publisher: Publisher,
        subscribers: list[socket.socket],
        stream: SampledStream,
        acknowledger: Acknowledger | None,
        stop_fd: int | None,
    ) -> None:
        self.received = 0
        self._work, self._publisher, self._stream, self._acknowledger = work, publisher, stream, acknowledger
        self._address = publisher.connection.url.address
        self._buffer = bytearray(BUFFER_BYTES)
        self._epoll = select.epoll(len(subscribers) + 2)
        self._receivers = self._register(subscribers, stop_fd)
        publisher.begin(self._epoll, stream)
        self._acknowledged_before = acknowledger.acknowledged if acknowledger else 0
        self._limit, self._end_ns = 0, 0
        self._publishing = True

    def close(self) -> None:
        """Always call this, also after an error."""
        self._publisher.end()
        self._epoll.close()

    def pump(self, seconds: float, count: int | None, progress: Progress) -> None:
        """Publish for so many seconds, or `count` messages, and return when all have arrived."""
        poll, buffer, receivers, size = self._epoll.poll, self._buffer, self._receivers, self._stream.size
        rate = self._work.rate
        timeout = 0.1 if rate is None else max(0.001, min(0.1, 1 / rate))
        now = time.perf_counter_ns()
        self._limit = sys.maxsize if count is None else count
        self._end_ns = now + int(seconds * 1e9) if count is None else sys.maxsize
        self._message_bytes = size * self._work.deliveries_per_message
        heard, told, last = now, now, (0, 0)
        while True:
            if self._publishing:
                self._publish(now)
            elif self._complete():
                break
            try:
                for fd, _ in poll(timeout, 256):
                    n = receivers[fd](buffer)
                    if n < size:
                        self._look(fd, n)
                    self.received += n
            except BlockingIOError:
                pass  # the socket was only writable: its receiver, or the code below, writes
            except OSError as error:
                raise BenchError(f"{self._address} broke a subscriber's connection: {reason(error)}") from None
            if self._acknowledger:
                self._acknowledger.acknowledge(self._epoll, self._acknowledged_before + self.received // size)
            now = time.perf_counter_ns()
            if now - told > PROGRESS_NS:
                told = now
                progress(self.received // size)
                state = (self.received, self._confirmed())
                if state != last or self._complete():
                    heard, last = now, state
                elif now - heard > self._work.silence_seconds * 1e9:
                    raise self._silence()
        if self.received > self._publisher.sent * self._message_bytes:
            raise BenchError(f"{self._address} delivered more than was published: are messages delivered twice?")

    def _publish(self, now: int) -> None:
        publisher, work = self._publisher, self._work
        sent = publisher.sent
        if publisher.confirms:
            room = min(work.window - sent + self._confirmed(), BACKLOG_MAX - sent + self.received // self._stream.size)
        else:
            room = work.window - sent + self.received // self._message_bytes
        if work.rate is not None:
            room = min(room, publisher.due(now) - sent)
        room = min(room, self._limit - sent)
        if room > 0 and now < self._end_ns:
            publisher.publish(room, now)
        self._publishing = now < self._end_ns and publisher.sent < self._limit

    def _confirmed(self) -> int:
        """How many messages of this round are confirmed."""
        publisher = self._publisher
        return publisher.confirms.confirmed - publisher.published + publisher.sent if publisher.confirms else 0

    def _complete(self) -> bool:
        """Whether all messages have arrived and, if the work wants that, are confirmed and acknowledged."""
        publisher = self._publisher
        if self.received < publisher.sent * self._message_bytes:
            return False
        if publisher.confirms is None or self._acknowledger is None:
            return True
        return publisher.confirms.confirmed == publisher.published and self._acknowledger.flushed

    def _register(self, subscribers: list[socket.socket], stop_fd: int | None) -> list[ReceivingChannel]:
        """The function to call for each file descriptor: a list, because every event looks it up."""
        found: dict[int, ReceivingChannel] = {sock.fileno(): sock.recv_into for sock in subscribers}
        found[self._stream.fd] = self._stream.receive
        for fd in found:
            self._epoll.register(fd, select.EPOLLIN)
        found[self._publisher.connection.socket.fileno()] = self._publisher.receive  # `begin` has registered it
        if stop_fd is not None:
            found[stop_fd] = _stopped
            self._epoll.register(stop_fd, select.EPOLLIN)
        return [found.get(fd, _stopped) for fd in range(max(found) + 1)]

    def _look(self, fd: int, n: int) -> None:
        """Fewer bytes than a delivery came: mostly a part of one, but it may be a close method."""
        if fd == self._publisher.connection.socket.fileno():
            return
        if n == 0:
            raise BenchError(f"{self._address} closed a subscriber's connection without a reason")
        if self._buffer[0] == frames.METHOD and n > FRAME_OVERHEAD and self._buffer[n - 1] == frames.FRAME_END:
            try:
                for frame in FrameCutter().feed(self._buffer[:n]):
                    closing = frames.close_reason(frame)
                    if closing is not None:
                        raise BenchError(f"{self._address} closed a subscriber: {closing}")
            except ValueError:
                pass  # a part of a body that looks like a frame by chance

    def _silence(self) -> BenchError:
        sent, size = self._publisher.sent, self._stream.size
        wait = f"for {self._work.silence_seconds:g} s"
        if self._publisher.blocked:
            return BenchError(f"{self._address} blocked the publisher {wait}: {self._publisher.blocked}")
        if self.received >= sent * self._message_bytes:
            return BenchError(f"{self._address} confirmed nothing {wait}: {self._confirmed()} of {sent} messages are")
        return BenchError(
            f"{self._address} delivered nothing {wait}: {self.received // size} of "
            f"{sent * self._work.deliveries_per_message} deliveries came"
        )


def _stopped(_buffer: bytearray) -> int:
    raise Stopped
