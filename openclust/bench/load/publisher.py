"""The publishing side: messages built once, sent in slices of one block, a few of them stamped with the time."""

from __future__ import annotations

import select
import time
from collections import deque

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import ANSWER_SECONDS, BenchConnection, reason
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.confirm_counter import ConfirmCounter
from openclust.bench.client.frames import FrameCutter
from openclust.bench.load.latency import SAMPLE_INTERVAL_NS, STAMP, SampledStream
from openclust.bench.load.work import LoadWork

BLOCK_BYTES_MAX = 4 * 1024 * 1024


class Publisher:
    """Publishes on channel 1 of a connection. Between rounds the connection may be used for calls again."""

    def __init__(self, connection: BenchConnection, work: LoadWork, exchange: str, queue: str) -> None:
        self.connection = connection
        self.published = 0
        self.blocked = ""
        self.confirms = ConfirmCounter() if work.acknowledged else None
        self.confirm_latencies_ns: list[int] = []
        self.confirmed_at_ns: list[int] = []
        self._rate = work.rate
        self._socket = connection.socket
        self._reader = FrameCutter()
        self._rest: memoryview | None = None
        body = bytes(work.size)
        keys = work.routing_keys(queue)
        built = [
            frames.publish(1, exchange, key, body, frame_max=connection.frame_max, persistent=work.pattern == "durable")
            for key in keys
        ]
        self._size = len(built[0])
        self._body_at = (
            len(frames.publish(1, exchange, keys[0], b"", frame_max=0, persistent=work.pattern == "durable")) + 7
        )
        repeat = max(1, min(2 * work.window, BLOCK_BYTES_MAX // self._size) // len(keys))
        self._slots = repeat * len(keys)
        self._block = bytearray(b"".join(built) * repeat)
        self._view = memoryview(self._block)
        # How many earlier messages of one turn through all keys reach the sampled subscriber.
        self._reached = [work.reaches(key, work.sampled_subscriber) for key in range(len(keys))]
        self._before = [sum(self._reached[:key]) for key in range(len(keys))]
        self._stamped = work.size >= STAMP.size
        self._stamped_tags: deque[tuple[int, int]] = deque()
        self._next_sample_ns = 1
        self._turn = 0

    def begin(self, epoll: select.epoll, stream: SampledStream) -> None:
        """Start a round. From now on call `receive` whenever the epoll object names this connection."""
        self._epoll, self._stream = epoll, stream
        self._first, self._first_place = self.published, self._place(self.published)
        self.confirm_latencies_ns, self.confirmed_at_ns = [], []
        self._socket.setblocking(False)
        self._begun_ns = time.perf_counter_ns()
        epoll.register(self._socket, select.EPOLLIN)

    def end(self) -> None:
        """The round is over."""
        self._epoll.unregister(self._socket)
        self._socket.settimeout(ANSWER_SECONDS)

    @property
    def sent(self) -> int:
        """How many messages this round has published."""
        return self.published - self._first

    def count_as_sent(self, n: int) -> None:
        """The last `n` messages of the round before belong to this one."""
        self._first -= n

    def due(self, now_ns: int) -> int:
        """How many messages of this round the rate allows by now, with those that are `sent`."""
        assert self._rate is not None
        return int((now_ns - self._begun_ns) * self._rate / 1e9) + 1

    def publish(self, n: int, now_ns: int) -> None:
        """Send `n` messages. If the socket is full, `receive` sends the rest later."""
        while n > 0 and self._rest is None:
            slot = self.published % self._slots
            batch = min(n, self._slots - slot)
            if now_ns >= self._next_sample_ns:
                self._sample(slot, batch, now_ns)
            self.published += batch
            n -= batch
            self._send(self._view[slot * self._size : (slot + batch) * self._size])

    def flush(self) -> None:
        """Wait until everything published has left."""
        while self._rest is not None:
            select.select([], [self._socket], [], ANSWER_SECONDS)
            self._send(self._rest)

    def receive(self, _buffer: bytearray) -> int:
        """Handle what the broker sends to a publisher. No delivery is among it, so it returns 0."""
        if self._rest is not None:
            self._send(self._rest)
        try:
            data = self._socket.recv(65_536)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise BenchError(f"{self.connection.url.address} broke the connection: {reason(error)}") from None
        if not data:
            raise BenchError(f"{self.connection.url.address} closed the connection without a reason")
        others = self.confirms.feed(data) if self.confirms else self._reader.feed(data)
        for frame in others:
            closing = frames.close_reason(frame)
            if closing is not None:
                raise BenchError(f"{self.connection.url.address} closed the publisher: {closing}")
            if frame.ids == frames.CONNECTION_BLOCKED:
                self.blocked = frame.payload[5 : 5 + frame.payload[4]].decode(errors="replace")
        if self.confirms and self._stamped_tags:
            now = time.perf_counter_ns()
            while self._stamped_tags and self._stamped_tags[0][0] <= self.confirms.below:
                self.confirm_latencies_ns.append(now - self._stamped_tags.popleft()[1])
                self.confirmed_at_ns.append(now)
        return 0

    def _send(self, view: memoryview) -> None:
        try:
            sent = self._socket.send(view)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            # The broker's close method, which tells the reason, may still be unread.
            self._rest = None
            self._socket.setblocking(False)
            self.receive(bytearray())
            raise BenchError(f"{self.connection.url.address} broke the connection: {reason(error)}") from None
        was_full = self._rest is not None
        self._rest = view[sent:] if sent < len(view) else None
        if was_full != (self._rest is not None):
            events = select.EPOLLIN | select.EPOLLOUT if self._rest is not None else select.EPOLLIN
            self._epoll.modify(self._socket, events)

    def _place(self, message: int) -> int:
        turns, key = divmod(message, len(self._reached))
        return turns * sum(self._reached) + self._before[key]

    def _sample(self, slot: int, batch: int, now_ns: int) -> None:
        """Stamp one message of this batch, a different one each time: the first of a batch waits less than the last."""
        self._turn += 1
        first = self._turn * 7 % batch
        for index in range(first, min(batch, first + len(self._reached))):
            if self._reached[(slot + index) % len(self._reached)]:
                break
        else:
            return
        message = self.published + index
        stamp = now_ns
        if self._rate is not None:
            # The stamp is the time when the message was due: waiting in this process is latency too.
            stamp = self._begun_ns + int((message - self._first) * 1e9 / self._rate)
        if self._stamped:
            STAMP.pack_into(self._block, (slot + index) * self._size + self._body_at, stamp)
            self._stream.expect(self._place(message) - self._first_place)
        if self.confirms:
            self._stamped_tags.append((message + 1, stamp))
        self._next_sample_ns = now_ns + SAMPLE_INTERVAL_NS
