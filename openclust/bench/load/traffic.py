"""Rounds of traffic between one publisher and its subscribers, with the times and the CPU around each."""

from __future__ import annotations

import socket
import time

from openclust.bench.brokers.broker_process import BrokerProcess
from openclust.bench.client import frames
from openclust.bench.client.acknowledger import Acknowledger
from openclust.bench.client.bench_connection import ANSWER_SECONDS
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.frames import FRAME_OVERHEAD, FrameCutter
from openclust.bench.load.latency import DeliveryShape, SampledStream
from openclust.bench.load.publisher import Publisher
from openclust.bench.load.round import Progress, Round
from openclust.bench.load.work import Figures, LoadWork


class Traffic:
    """The sockets are non-blocking, and nothing is on its way to them. Call `calibrate` once, then `run` a round."""

    def __init__(
        self,
        work: LoadWork,
        publisher: Publisher,
        subscribers: list[socket.socket],
        acknowledger: Acknowledger | None,
        stop_fd: int | None,
    ) -> None:
        self._work, self._publisher, self._subscribers = work, publisher, subscribers
        self._acknowledger, self._stop_fd = acknowledger, stop_fd
        self._sampled = subscribers[work.sampled_subscriber]
        self._shape = DeliveryShape(0, 0)

    def calibrate(self) -> None:
        """Send one message: its delivery shows how long all deliveries are, and all subscribers must get it."""
        round_ = self._round(SampledStream(self._sampled, self._shape))
        try:
            self._publisher.publish(1, 0)
            self._publisher.flush()
            self._shape = self._measure_delivery()
        finally:
            round_.close()
        round_ = self._round(SampledStream(self._sampled, self._shape), already_sent=1)
        round_.received = self._shape.size
        try:
            round_.pump(0.0, 1, lambda _: None)
        finally:
            round_.close()

    def run(self, seconds: float, count: int | None, broker: BrokerProcess | None, progress: Progress) -> Figures:
        """One round. Times are taken before the first publish and after the last delivery (or ack)."""
        stream = SampledStream(self._sampled, self._shape)
        round_ = self._round(stream)
        try:
            cpu = broker.cpu_s() if broker else 0.0
            own_cpu, started = time.process_time(), time.perf_counter()
            round_.pump(seconds, count, progress)
            if self._acknowledger:
                self._acknowledger.fence()
            stream.finish()
            elapsed, own_cpu = time.perf_counter() - started, time.process_time() - own_cpu
            blocked = self._publisher.blocked
            return Figures(
                messages=self._publisher.sent,
                deliveries=round_.received // self._shape.size,
                elapsed_s=elapsed,
                broker_cpu_s=broker.cpu_s() - cpu if broker else None,
                generator_cpu_s=own_cpu,
                latencies_ns=stream.latencies_ns,
                confirm_latencies_ns=self._publisher.confirm_latencies_ns,
                confirmed_at_ns=self._publisher.confirmed_at_ns,
                broker_rss=broker.rss() if broker else None,
                notes=[f"the broker blocked the publisher for a while: {blocked}"] if blocked else [],
            )
        finally:
            round_.close()

    def _round(self, stream: SampledStream, already_sent: int = 0) -> Round:
        made = Round(self._work, self._publisher, self._subscribers, stream, self._acknowledger, self._stop_fd)
        if already_sent:
            self._publisher.count_as_sent(already_sent)
        return made

    def _measure_delivery(self) -> DeliveryShape:
        address = self._publisher.connection.url.address
        self._sampled.settimeout(ANSWER_SECONDS)
        reader, size, left, body_at = FrameCutter(), 0, -1, 0
        try:
            while left:
                data = self._sampled.recv(65_536)
                if not data:
                    raise BenchError(f"{address} closed a subscriber's connection without a reason")
                for frame in reader.feed(data):
                    closing = frames.close_reason(frame)
                    if closing is not None:
                        raise BenchError(f"{address} closed a subscriber: {closing}")
                    size += len(frame.payload) + FRAME_OVERHEAD
                    if frame.type == frames.HEADER:
                        left = int.from_bytes(frame.payload[4:12], "big")
                        body_at = size + 7
                    elif frame.type == frames.BODY:
                        left -= len(frame.payload)
        except OSError:
            raise BenchError(f"{address} did not deliver the first message: nothing to measure") from None
        finally:
            self._sampled.setblocking(False)
        return DeliveryShape(size, body_at)
