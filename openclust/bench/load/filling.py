"""A durable queue filled with persistent messages, every one confirmed, and emptied again, every one acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection, reason
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.confirm_counter import ConfirmCounter
from openclust.bench.client.frames import ACK_FRAME, BASIC_ACK, FRAME_END, FRAME_OVERHEAD, METHOD, FrameCutter
from openclust.bench.client.url import BrokerUrl

UNCONFIRMED_MAX = 2_000
"""The confirms of so many fit into a socket's buffer, so that sending and receiving can alternate."""
BATCH_BYTES_MAX = 256 * 1024
PREFETCH = 2_000
TAG = "bench"

Progress = Callable[[int], None]


def fill(url: BrokerUrl, queue: str, messages: int, size: int, progress: Progress) -> float:
    """Declare the queue and publish the messages; returns the seconds until the last was confirmed.

    The queue is durable and not exclusive. `progress` is called often, with the number of confirmed messages.
    """
    with closing(BenchConnection(url)) as connection:
        connection.call(frames.queue_declare(1, queue, durable=True), frames.QUEUE_DECLARE_OK)
        connection.call(frames.confirm_select(1), frames.CONFIRM_SELECT_OK)
        one = frames.publish(1, "", queue, bytes(size), frame_max=connection.frame_max, persistent=True)
        batch = max(1, min(UNCONFIRMED_MAX // 4, BATCH_BYTES_MAX // len(one)))
        block = one * batch
        confirms, published = ConfirmCounter(), 0
        started = time.perf_counter()
        while confirms.confirmed < messages:
            while published < messages and published + batch - confirms.confirmed <= UNCONFIRMED_MAX:
                count = min(batch, messages - published)
                connection.send(block[: count * len(one)])
                published += count
            for frame in confirms.feed(_receive(connection, f"confirmed {confirms.confirmed} of {published}")):
                _check(frame, url)
            progress(confirms.confirmed)
        return time.perf_counter() - started


def count(url: BrokerUrl, queue: str) -> int:
    """The number of messages in the queue, as the broker says; BenchError if there is no such queue."""
    with closing(BenchConnection(url)) as connection:
        return _count(connection, queue)


def empty(url: BrokerUrl, queue: str, messages: int, progress: Progress) -> tuple[float, float]:
    """Consume and acknowledge the messages: the seconds until the first came, and until the last ack was handled.

    BenchError if there are fewer or more. All must have one size.
    """
    with closing(BenchConnection(url)) as connection:
        connection.call(frames.basic_qos(1, PREFETCH), frames.BASIC_QOS_OK)
        started = time.perf_counter()
        connection.send(frames.basic_consume(1, queue, TAG, no_ack=False))
        measure, acknowledged, first_s = _Deliveries(url), 0, 0.0
        while acknowledged < messages:
            measure.feed(_receive(connection, f"delivered {measure.whole} of {messages}"))
            if measure.whole > acknowledged:
                first_s = first_s or time.perf_counter() - started
                acknowledged = measure.whole
                connection.send(ACK_FRAME.pack(METHOD, 1, 13, *BASIC_ACK, acknowledged, 1, FRAME_END))
            progress(acknowledged)
        left = _count(connection, queue)
        if left or acknowledged > messages:
            raise BenchError(f"{url.address}: {acknowledged + left} messages were in {queue!r}, not {messages}")
        return first_s, time.perf_counter() - started


class _Deliveries:
    """Counts deliveries by their bytes: all are as long as the first."""

    def __init__(self, url: BrokerUrl) -> None:
        self._url = url
        self._reader: FrameCutter | None = FrameCutter()
        self._bytes = 0
        self._size = 0
        self._first_size = 0
        self._body_left = -1

    @property
    def whole(self) -> int:
        return self._bytes // self._size if self._size else 0

    def feed(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._reader is None:
            return
        for frame in self._reader.feed(data):
            _check(frame, self._url)
            length = len(frame.payload) + FRAME_OVERHEAD
            if frame.ids == frames.BASIC_CONSUME_OK:
                self._bytes -= length
                continue
            self._first_size += length
            if frame.type == frames.HEADER:
                self._body_left = int.from_bytes(frame.payload[4:12], "big")
            elif frame.type == frames.BODY:
                self._body_left -= len(frame.payload)
            if self._body_left == 0:
                self._size, self._reader = self._first_size, None
                return


def _count(connection: BenchConnection, queue: str) -> int:
    return frames.message_count(connection.call(frames.queue_declare(1, queue, passive=True), frames.QUEUE_DECLARE_OK))


def _receive(connection: BenchConnection, so_far: str) -> bytes:
    try:
        data = connection.socket.recv(1024 * 1024)
    except TimeoutError:
        raise BenchError(f"{connection.url.address} says nothing more: it {so_far}") from None
    except OSError as error:
        raise BenchError(f"{connection.url.address} broke the connection: {reason(error)}; it {so_far}") from None
    if not data:
        raise BenchError(f"{connection.url.address} closed the connection without a reason; it {so_far}")
    return data


def _check(frame: frames.ReceivedFrame, url: BrokerUrl) -> None:
    refusal = frames.close_reason(frame)
    if refusal is not None:
        raise BenchError(f"{url.address} closed the connection: {refusal}")
