"""A client that says exactly what it is told to, right or wrong: frames by pamqp, bytes by hand."""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import Any, Self, TypeVar

from pamqp import commands, encode, exceptions, frame, heartbeat

from tests.support.clients.broker_process import Broker

T = TypeVar("T")

AMQP_0_9_1 = b"AMQP\x00\x00\x09\x01"


class RawClient:
    """One socket. Use as a context manager."""

    def __init__(self, broker: Broker, timeout_s: float = 5.0) -> None:
        self.broker = broker
        self.socket = socket.create_connection((broker.host, broker.port), timeout=timeout_s)
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, value: Any, channel: int = 0) -> None:
        self.send_bytes(frame.marshal(value, channel))

    def bytes_of(self, value: Any, channel: int) -> bytes:
        return bytes(frame.marshal(value, channel))

    def receive(self) -> tuple[int, Any]:
        """The next frame as (channel, value). Raises EOFError when the broker has closed the socket."""
        while True:
            if len(self._buffer) >= 7:
                try:
                    used, channel, value = frame.unmarshal(self._buffer)
                except exceptions.UnmarshalingException as error:
                    if "Not all data" not in str(error):
                        raise
                else:
                    self._buffer = self._buffer[used:]
                    return channel, value
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError("the broker closed the socket")
            self._buffer += data

    def expect(self, kind: type[T], within_s: float = 5.0) -> T:
        """The next frame that is not a heartbeat: it must be of this kind."""
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            _, value = self.receive()
            if not isinstance(value, heartbeat.Heartbeat) or kind is heartbeat.Heartbeat:
                assert isinstance(value, kind), (
                    f"expected {kind.__name__}, came {value!r} {getattr(value, 'reply_text', '')}"
                )
                return value
        raise AssertionError(f"no {kind.__name__} within {within_s} s")

    def read_until_closed(self) -> bytes:
        """Everything that still comes until the broker closes the socket."""
        data, self._buffer = self._buffer, b""
        try:
            while chunk := self.socket.recv(65536):
                data += chunk
        except ConnectionResetError:
            pass
        return data

    def start(self, greeting: bytes = AMQP_0_9_1) -> commands.Connection.Start:
        self.send_bytes(greeting)
        return self.expect(commands.Connection.Start)

    def log_in(self, mechanism: str = "PLAIN", *, greeting: bytes = AMQP_0_9_1) -> commands.Connection.Tune:
        """From the protocol header to Tune."""
        self.start(greeting)
        user, password = self.broker.user, self.broker.password
        if mechanism == "AMQPLAIN":
            # A field table without its length in front.
            table = encode.field_table({"LOGIN": user, "PASSWORD": password})
            response = table[4:].decode("latin-1")
        else:
            response = f"\0{user}\0{password}"
        self.send(commands.Connection.StartOk({}, mechanism, response, "en_US"))
        return self.expect(commands.Connection.Tune)

    def open(
        self,
        frame_max: int = 131072,
        heartbeat_s: int = 0,
        channel_max: int = 100,
        mechanism: str = "PLAIN",
        greeting: bytes = AMQP_0_9_1,
    ) -> Self:
        """The whole handshake and channel 1."""
        self.log_in(mechanism, greeting=greeting)
        self.send(commands.Connection.TuneOk(channel_max, frame_max, heartbeat_s))
        self.send(commands.Connection.Open(self.broker.vhost))
        self.expect(commands.Connection.OpenOk)
        self.send(commands.Channel.Open(), 1)
        self.expect(commands.Channel.OpenOk)
        return self


def frame_of(kind: int, channel: int, payload: bytes) -> bytes:
    """A frame around any payload, by hand."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method_payload(class_id: int, method_id: int) -> bytes:
    return struct.pack(">HH", class_id, method_id)
