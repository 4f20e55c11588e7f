"""Bursts through a shared queue: published with confirms, and acknowledged one by one when all are delivered."""

from __future__ import annotations

import secrets
import select
import time

from openclust.bench.calibration.bursts import BUFFER_BYTES, SILENCE_SECONDS, pause
from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.confirm_counter import ConfirmCounter
from openclust.bench.client.frames import ACK_FRAME, BASIC_ACK, FRAME_END, METHOD
from openclust.bench.client.url import BrokerUrl
from openclust.bench.crowd.crowd import delivery_size

PREFETCH = 2_000
KEPT_SECONDS = 0.005
"""The wait before the acks, and before the next burst, in which the disk and the log finish."""


class QueueTraffic:
    """A queue with a publisher and a consumer at one broker. Close it in any case.

    With `durable` its messages are replicated or stored; without it they are in the root's memory alone.
    """

    def __init__(self, url: BrokerUrl, burst: int, *, durable: bool, persistent: bool, size: int = 100) -> None:
        self._queue = f"bench.{secrets.token_hex(4)}"
        self._burst, self._size = burst, 0
        self._kept_s = KEPT_SECONDS if durable else 0.0
        self._confirms = ConfirmCounter()
        self._published = self._received = self._delivered = self._acknowledged = 0
        self._publisher = BenchConnection(url)
        try:
            self._consumer = BenchConnection(url)
        except BaseException:
            self._publisher.close()
            raise
        self._publisher.call(frames.queue_declare(1, self._queue, durable=durable), frames.QUEUE_DECLARE_OK)
        self._publisher.call(frames.confirm_select(1), frames.CONFIRM_SELECT_OK)
        self._consumer.call(frames.basic_qos(1, PREFETCH), frames.BASIC_QOS_OK)
        self._consumer.call(frames.basic_consume(1, self._queue, "bench", no_ack=False), frames.BASIC_CONSUME_OK)
        frame_max = self._publisher.frame_max
        one = frames.publish(1, "", self._queue, bytes(size), frame_max=frame_max, persistent=persistent)
        self._block = one * burst
        self._poll = select.poll()
        for connection in (self._publisher, self._consumer):
            self._poll.register(connection.socket, select.POLLIN)

    def run(self, times: int) -> None:
        """Send so many bursts. Each is confirmed and delivered, then acknowledged, and then the next one is sent.

        With an ack at once, the store would write enqueue and dequeue together, or neither.
        """
        for _ in range(times):
            self._rest()
            self._publisher.send(self._block)
            self._published += self._burst
            while self._confirms.confirmed < self._published or self._delivered < self._published:
                self._hear()
            self._rest()
            self._acknowledge()

    def close(self) -> None:
        self._publisher.call(frames.queue_delete(1, self._queue), frames.QUEUE_DELETE_OK)
        self._consumer.close()
        self._publisher.close()

    def _hear(self) -> None:
        events = self._poll.poll(SILENCE_SECONDS * 1000)
        if not events:
            raise BenchError(f"{self._publisher.url.address} says nothing for {SILENCE_SECONDS:.0f} s")
        for fd, _ in events:
            if fd == self._publisher.socket.fileno():
                others = self._confirms.feed(_received(self._publisher))
                for reason in filter(None, map(frames.close_reason, others)):
                    raise BenchError(f"{self._publisher.url.address} closed the publisher: {reason}")
            else:
                self._take(_received(self._consumer))

    def _take(self, data: bytes) -> None:
        if not self._size:
            self._size = delivery_size(data)
        self._received += len(data)
        self._delivered = self._received // self._size

    def _acknowledge(self) -> None:
        tags = range(self._acknowledged + 1, self._delivered + 1)
        self._acknowledged = self._delivered
        self._consumer.send(b"".join(ACK_FRAME.pack(METHOD, 1, 13, *BASIC_ACK, tag, 0, FRAME_END) for tag in tags))

    def _rest(self) -> None:
        time.sleep(self._kept_s)
        pause()


def _received(connection: BenchConnection) -> bytes:
    try:
        data = connection.socket.recv(BUFFER_BYTES)
    except OSError as error:
        raise BenchError(f"{connection.url.address} broke a connection: {error}") from None
    if not data:
        raise BenchError(f"{connection.url.address} closed a connection without a reason")
    return data
