"""Latency of some messages, from a time stamp in their bodies to the last byte of their delivery.

All deliveries have one size, so the place of a delivery in the stream of its connection is known when it is published.
The sampled subscriber looks only at the places of stamped deliveries.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import deque

from openclust.bench.client.bench_errors import BenchError

STAMP = struct.Struct(">Q")
SAMPLE_INTERVAL_NS = 400_000
MISPLACED = BenchError("a delivery is not where it should be: they are lost, out of order, or not all of one size")


class DeliveryShape:
    """Where the body stands in every delivery of one work, and how long a delivery is."""

    __slots__ = ("body_at", "size")

    def __init__(self, size: int, body_at: int) -> None:
        self.size = size
        self.body_at = body_at


class SampledStream:
    """The one subscriber whose deliveries are timed, for one round that begins now.

    `receive` stands in for its socket's recv_into.
    """

    def __init__(self, sock: socket.socket, shape: DeliveryShape) -> None:
        self.fd = sock.fileno()
        self.size = shape.size
        self._receive = sock.recv_into
        self._shape = shape
        self._received = 0
        self._expected: deque[int] = deque()
        self._stamp: int | None = None
        self._since = time.perf_counter_ns()
        self.latencies_ns: list[int] = []

    def expect(self, place: int) -> None:
        """The next stamped delivery is number `place` (from 0) of those that come now."""
        self._expected.append(place * self._shape.size)

    def receive(self, buffer: bytearray) -> int:
        """Receive into the shared buffer and take the times of the sampled deliveries in it."""
        n = self._receive(buffer)
        self.look(buffer, n)
        return n

    def look(self, buffer: bytearray, n: int) -> None:
        """Take the times out of `n` bytes that were just received."""
        start, end = self._received, self._received + n
        self._received = end
        while self._expected:
            at = self._expected[0]
            stamp_at = at + self._shape.body_at
            if start <= stamp_at and stamp_at + STAMP.size <= end:
                (self._stamp,) = STAMP.unpack_from(buffer, stamp_at - start)
            if end < at + self._shape.size:
                return
            self._expected.popleft()
            if self._stamp is None:
                continue  # the stamp came in two pieces: one sample less
            now = time.perf_counter_ns()
            if not self._since <= self._stamp <= now:
                raise MISPLACED
            self.latencies_ns.append(now - self._stamp)
            self._stamp = None

    def finish(self) -> None:
        """The round is over; an error if a sampled delivery did not come where it was expected."""
        if self._expected:
            raise MISPLACED
