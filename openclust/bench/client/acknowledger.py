"""The consumer's acknowledgements: one basic.ack for each delivery, found by counting bytes."""

from __future__ import annotations

import select
import socket

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import ANSWER_SECONDS
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.frames import ACK_FRAME, BASIC_ACK, FRAME_END, METHOD, FrameCutter


class Acknowledger:
    """Acknowledges deliveries 1, 2, 3... on channel 1 of the consumer's socket."""

    def __init__(self, sock: socket.socket, queue: str) -> None:
        self.acknowledged = 0
        self._socket = sock
        self._queue = queue
        self._rest = b""

    @property
    def flushed(self) -> bool:
        """Whether every acknowledgement has left."""
        return not self._rest

    def acknowledge(self, epoll: select.epoll, up_to: int) -> None:
        """One ack for each delivery not yet acknowledged, up to and with this number; call it again when writable."""
        was_full = bool(self._rest)
        if up_to == self.acknowledged and not was_full:
            return
        pack, class_id, method_id = ACK_FRAME.pack, *BASIC_ACK
        tags = range(self.acknowledged + 1, up_to + 1)
        self.acknowledged = up_to
        acks = b"".join([pack(METHOD, 1, 13, class_id, method_id, tag, 0, FRAME_END) for tag in tags])
        data = self._rest + acks
        try:
            self._rest = data[self._socket.send(data) :]
        except BlockingIOError:
            self._rest = data
        if was_full != bool(self._rest):
            epoll.modify(self._socket, select.EPOLLIN | select.EPOLLOUT if self._rest else select.EPOLLIN)

    def fence(self) -> None:
        """Returns when the broker has handled all acknowledgements: it answers a later request after them."""
        self._socket.settimeout(ANSWER_SECONDS)
        reader = FrameCutter()
        try:
            self._socket.sendall(frames.queue_declare(1, self._queue, passive=True))
            while True:
                for frame in reader.feed(self._socket.recv(65_536)):
                    if frame.ids == frames.QUEUE_DECLARE_OK:
                        return
                    closing = frames.close_reason(frame)
                    if closing is not None:
                        raise BenchError(f"the broker closed the consumer: {closing}")
        except OSError as error:
            raise BenchError(f"the broker did not answer the consumer: {error}") from None
        finally:
            self._socket.setblocking(False)
