"""The few AMQP 0-9-1 frames that a load generator sends, and a reader of those that it receives.

It shares no code with the broker's codec, so that a mistake there is found here and not repeated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
FRAME_OVERHEAD = 8

CONNECTION_START = (10, 10)
CONNECTION_TUNE = (10, 30)
CONNECTION_OPEN_OK = (10, 41)
CONNECTION_REDIRECT = (10, 42)
CONNECTION_CLOSE = (10, 50)
CONNECTION_CLOSE_OK = (10, 51)
CONNECTION_BLOCKED = (10, 60)
CONNECTION_UNBLOCKED = (10, 61)
CHANNEL_OPEN_OK = (20, 11)
CHANNEL_CLOSE = (20, 40)
EXCHANGE_DECLARE_OK = (40, 11)
EXCHANGE_DELETE_OK = (40, 21)
QUEUE_DECLARE_OK = (50, 11)
QUEUE_BIND_OK = (50, 21)
QUEUE_DELETE_OK = (50, 41)
BASIC_QOS_OK = (60, 11)
BASIC_CONSUME_OK = (60, 21)
BASIC_RETURN = (60, 50)
BASIC_DELIVER = (60, 60)
BASIC_ACK = (60, 80)
BASIC_NACK = (60, 120)
CONFIRM_SELECT_OK = (85, 11)

# type, channel, size, class, method, delivery tag, bits, frame-end: basic.ack and basic.nack are always 21 octets.
ACK_FRAME = struct.Struct(">BHIHHQBB")
_FRAME_HEADER = struct.Struct(">BHI")
_METHOD_IDS = struct.Struct(">HH")


class ReceivedFrame(NamedTuple):
    """One frame as it came; `ids` is (class, method) for method frames and (0, 0) for others."""

    type: int
    channel: int
    ids: tuple[int, int]
    payload: bytes


def frame(type_: int, channel: int, payload: bytes) -> bytes:
    return _FRAME_HEADER.pack(type_, channel, len(payload)) + payload + b"\xce"


def method(channel: int, ids: tuple[int, int], arguments: bytes = b"") -> bytes:
    return frame(METHOD, channel, _METHOD_IDS.pack(*ids) + arguments)


def short_string(text: str) -> bytes:
    octets = text.encode()
    return bytes((len(octets),)) + octets


def long_string(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets


def table(fields: dict[str, object]) -> bytes:
    """Encode booleans, integers, strings and tables; a load generator uses no other types."""
    out = bytearray()
    for name, value in fields.items():
        out += short_string(name)
        match value:
            case bool():
                out += b"t" + bytes((value,))
            case int():
                out += b"l" + struct.pack(">q", value)
            case str():
                out += b"S" + long_string(value.encode())
            case dict():
                out += b"F" + table(value)
            case _:
                raise AssertionError(f"no table field is made of {value!r}")
    return long_string(bytes(out))


def start_ok(user: str, password: str, **said: str | bool) -> bytes:
    """The connection.start-ok; `said` are client properties of the caller's own."""
    # connection.redirect: without it openclust ignores the `insist` of connection.open.
    capabilities = {
        "authentication_failure_close": True,
        "connection.blocked": True,
        "publisher_confirms": True,
        "basic.nack": True,
        "connection.redirect": True,
    }
    properties = table({"product": "openclust bench", "capabilities": capabilities, **said})
    response = long_string(f"\0{user}\0{password}".encode())
    return method(0, (10, 11), properties + short_string("PLAIN") + response + short_string("en_US"))


def tune_ok(channel_max: int, frame_max: int, heartbeat_s: int = 0) -> bytes:
    """Heartbeats are off by default: a bench measures messages, and notices a dead broker by its silence."""
    return method(0, (10, 31), struct.pack(">HIH", channel_max, frame_max, heartbeat_s))


def heartbeat() -> bytes:
    return frame(HEARTBEAT, 0, b"")


def connection_open(vhost: str, *, insist: bool = True) -> bytes:
    """With `insist` a broker of a cluster does not redirect this client to another broker."""
    return method(0, (10, 40), short_string(vhost) + b"\0" + bytes((insist,)))


def connection_close() -> bytes:
    return method(0, CONNECTION_CLOSE, struct.pack(">H", 200) + short_string("bench done") + b"\0\0\0\0")


def connection_close_ok() -> bytes:
    return method(0, CONNECTION_CLOSE_OK)


def channel_open(channel: int) -> bytes:
    return method(channel, (20, 10), b"\0")


def exchange_declare(channel: int, name: str, kind: str) -> bytes:
    """Auto-delete, so that nothing stays behind even if this process is killed."""
    return method(channel, (40, 10), b"\0\0" + short_string(name) + short_string(kind) + b"\x04" + table({}))


def exchange_delete(channel: int, name: str) -> bytes:
    return method(channel, (40, 20), b"\0\0" + short_string(name) + b"\0")


def queue_declare(
    channel: int,
    name: str,
    *,
    passive: bool = False,
    durable: bool = False,
    exclusive: bool = False,
    arguments: dict[str, object] | None = None,
) -> bytes:
    bits = passive | durable << 1 | exclusive << 2
    return method(channel, (50, 10), b"\0\0" + short_string(name) + bytes((bits,)) + table(arguments or {}))


def queue_bind(channel: int, queue: str, exchange: str, routing_key: str) -> bytes:
    names = short_string(queue) + short_string(exchange) + short_string(routing_key)
    return method(channel, (50, 20), b"\0\0" + names + b"\0" + table({}))


def queue_delete(channel: int, name: str) -> bytes:
    return method(channel, (50, 40), b"\0\0" + short_string(name) + b"\0")


def basic_qos(channel: int, prefetch: int) -> bytes:
    return method(channel, (60, 10), struct.pack(">IHB", 0, prefetch, 0))


def basic_consume(channel: int, queue: str, tag: str, *, no_ack: bool) -> bytes:
    names = short_string(queue) + short_string(tag)
    return method(channel, (60, 20), b"\0\0" + names + bytes((no_ack << 1,)) + table({}))


def confirm_select(channel: int) -> bytes:
    return method(channel, (85, 10), b"\0")


def publish(channel: int, exchange: str, routing_key: str, body: bytes, *, frame_max: int, persistent: bool) -> bytes:
    """A whole message: method, content header and as many body frames as the frame size asks for."""
    out = bytearray(method(channel, (60, 40), b"\0\0" + short_string(exchange) + short_string(routing_key) + b"\0"))
    properties = b"\x10\x00\x02" if persistent else b"\x00\x00"  # delivery-mode is the fourth of the properties
    out += frame(HEADER, channel, struct.pack(">HHQ", 60, 0, len(body)) + properties)
    step = frame_max - FRAME_OVERHEAD if frame_max else max(1, len(body))
    for start in range(0, len(body), step):
        out += frame(BODY, channel, body[start : start + step])
    return bytes(out)


class FrameCutter:
    """Collects bytes and gives back whole frames; feed everything that one socket received."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[ReceivedFrame]:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= FRAME_OVERHEAD:
            type_, channel, size = _FRAME_HEADER.unpack_from(buffer)
            if type_ not in (METHOD, HEADER, BODY, HEARTBEAT):
                raise ValueError("no AMQP 0-9-1 frame")
            if len(buffer) < size + FRAME_OVERHEAD:
                return
            if buffer[size + 7] != FRAME_END:
                raise ValueError("no frame-end where the frame ends")
            payload = bytes(buffer[7 : size + 7])
            del buffer[: size + FRAME_OVERHEAD]
            ids = _METHOD_IDS.unpack_from(payload) if type_ == METHOD and size >= 4 else (0, 0)
            yield ReceivedFrame(type_, channel, (ids[0], ids[1]), payload)


def close_reason(closing: ReceivedFrame) -> str | None:
    """`404 NOT_FOUND ...` when the frame closes a connection or channel, else None."""
    if closing.ids not in (CONNECTION_CLOSE, CHANNEL_CLOSE) or len(closing.payload) < 7:
        return None
    code, length = struct.unpack_from(">HB", closing.payload, 4)
    return f"{code} {closing.payload[7 : 7 + length].decode(errors='replace')}"


def message_count(declared: ReceivedFrame) -> int:
    """How many messages queue.declare-ok says there are."""
    count: int = struct.unpack_from(">I", declared.payload, 5 + declared.payload[4])[0]
    return count


def tune_values(tune: ReceivedFrame) -> tuple[int, int]:
    """channel-max and frame-max of connection.tune."""
    channel_max, frame_max, _ = struct.unpack_from(">HIH", tune.payload, 4)
    return channel_max, frame_max


def server_product(start: ReceivedFrame) -> tuple[str, str]:
    """Product and version of connection.start; empty if the broker does not name them."""
    return _string_field(start.payload, "product"), _string_field(start.payload, "version")


def _string_field(payload: bytes, name: str) -> str:
    at = payload.find(short_string(name) + b"S")
    if at < 0:
        return ""
    at += len(name) + 2
    (length,) = struct.unpack_from(">I", payload, at)
    return payload[at + 4 : at + 4 + length].decode(errors="replace")
