"""One AMQP connection that waits for each answer: for setting up, for publishing, and to learn the broker's limits."""

from __future__ import annotations

import os
import socket
import struct

from openclust.bench.client import frames
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.frames import FrameCutter, ReceivedFrame
from openclust.bench.client.url import BrokerUrl

ANSWER_SECONDS = 30.0
FRAME_MAX = 131_072


class BenchConnection:
    """Connected, logged in, with channel 1 open. Close it, also after an error."""

    def __init__(self, url: BrokerUrl) -> None:
        self.url = url
        self.socket = connect(url)
        self._reader = FrameCutter()
        self._waiting: list[ReceivedFrame] = []
        try:
            self._handshake()
        except BaseException:
            self.socket.close()
            raise

    def send(self, data: bytes) -> None:
        """Send frames that have no answer."""
        self._send(data)

    def call(self, request: bytes, answer: tuple[int, int]) -> ReceivedFrame:
        """Send a method and wait for its answer. If the broker closes instead, BenchError shows its code and text."""
        self._send(request)
        return self._expect(answer)

    def close(self) -> None:
        """Close the connection, in whatever state it is."""
        try:
            self.socket.settimeout(5.0)
            self.socket.sendall(frames.connection_close())
            while self._next_frame().ids not in (frames.CONNECTION_CLOSE_OK, frames.CONNECTION_CLOSE):
                pass
        except (BenchError, OSError):
            pass
        reset(self.socket)

    def _handshake(self) -> None:
        self._send(frames.PROTOCOL_HEADER)
        start = self._expect((10, 10))
        self.product, self.version = frames.server_product(start)
        self._send(frames.start_ok(self.url.user, self.url.password))
        refused = f"{self.url.address} refused user {self.url.user!r}"
        tune = self._expect(frames.CONNECTION_TUNE, refused)
        channel_max, frame_max = frames.tune_values(tune)
        self.channel_max = min(channel_max or 8, 8)
        self.frame_max = min(frame_max or FRAME_MAX, FRAME_MAX)
        self._send(frames.tune_ok(self.channel_max, self.frame_max))
        self._send(frames.connection_open(self.url.vhost))
        self._expect(frames.CONNECTION_OPEN_OK, f"{self.url.address} refused virtual host {self.url.vhost!r}")
        self.call(frames.channel_open(1), frames.CHANNEL_OPEN_OK)

    def _send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise BenchError(f"{self.url.address}: the connection broke: {reason(error)}") from None

    def _expect(self, ids: tuple[int, int], closed: str | None = None) -> ReceivedFrame:
        closed = closed or f"{self.url.address} closed the connection"
        while True:
            frame = self._next_frame(closed)
            if frame.ids == ids:
                return frame
            closing = frames.close_reason(frame)
            if closing is not None:
                raise BenchError(f"{closed}: {closing}")

    def _next_frame(self, closed: str | None = None) -> ReceivedFrame:
        while not self._waiting:
            try:
                data = self.socket.recv(65_536)
            except TimeoutError:
                raise BenchError(f"{self.url.address} did not answer within {ANSWER_SECONDS:.0f} s") from None
            except OSError as error:
                raise BenchError(f"{closed or self.url.address}: {reason(error)}") from None
            if not data:
                raise BenchError(f"{closed or f'{self.url.address} closed the connection'} without a reason")
            if data.startswith(b"AMQP"):
                spoken = ".".join(map(str, data[4:8]))
                raise BenchError(f"{self.url.address} does not speak AMQP 0-9-1 (it offers protocol {spoken})")
            try:
                self._waiting += self._reader.feed(data)
            except ValueError:
                raise BenchError(f"{self.url.address} does not speak AMQP: is the port right?") from None
        return self._waiting.pop(0)


def connect(url: BrokerUrl) -> socket.socket:
    """A blocking TCP connection with a timeout."""
    try:
        made = socket.create_connection((url.host, url.port), timeout=ANSWER_SECONDS)
    except socket.gaierror as error:
        raise BenchError(f"cannot find host {url.host!r}: {error.strerror}") from None
    except OSError as error:
        hint = "; is a broker running there? `openclust start --cluster-key K` starts one, --start one for this run"
        raise BenchError(f"cannot connect to {url.address}: {reason(error)}{hint}") from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def reset(sock: socket.socket) -> None:
    """Close without TIME_WAIT: thousands of them would use up the local ports before the next round."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def reason(error: OSError) -> str:
    """An operating system error in words."""
    if isinstance(error, TimeoutError):
        return "timed out"
    return os.strerror(error.errno).lower() if error.errno else str(error)
