"""Everything a broker says on one connection, checked as a strict client would."""

from __future__ import annotations

from struct import Struct

from openclust.wire import errors
from openclust.wire.codec import decode_method, name_of
from openclust.wire.frames import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, PROTOCOL_HEADER
from openclust.wire.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionTune,
    Method,
)
from openclust.wire.properties import PREAMBLE, decode_properties

_ENVELOPE = Struct(">BHI")

HARD = {
    errors.CONNECTION_FORCED,
    errors.INVALID_PATH,
    errors.FRAME_ERROR,
    errors.SYNTAX_ERROR,
    errors.COMMAND_INVALID,
    errors.CHANNEL_ERROR,
    errors.UNEXPECTED_FRAME,
    errors.RESOURCE_ERROR,
    errors.NOT_ALLOWED,
    errors.NOT_IMPLEMENTED,
    errors.INTERNAL_ERROR,
    errors.ACCESS_REFUSED,  # the login
}
SOFT = {
    errors.CONTENT_TOO_LARGE,
    errors.NO_CONSUMERS,
    errors.ACCESS_REFUSED,
    errors.NOT_FOUND,
    errors.RESOURCE_LOCKED,
    errors.PRECONDITION_FAILED,
    errors.RESOURCE_ERROR,  # "a declare is refused with 506 and nothing else suffers"
}


class Said:
    """Give it what was written, by `hear`; an AssertionError says what a client could not have understood."""

    def __init__(self) -> None:
        self.rest = b""
        self.methods: list[tuple[int, Method]] = []
        self.bodies: list[bytes] = []
        self.tags: list[int] = []
        self.frame_max = 4_096
        self.is_closing = False
        self.is_closed = False
        self.closed_channels: set[int] = set()
        self._content: dict[int, int] = {}
        self._body: dict[int, bytes] = {}

    def hear(self, data: bytes) -> None:
        data = self.rest + data
        at = 0
        if data.startswith(b"AMQP"):
            assert data == PROTOCOL_HEADER, f"after our protocol header came {data[8:]!r}"
            return
        while len(data) - at >= 8:
            kind, channel, size = _ENVELOPE.unpack_from(data, at)
            stop = at + 7 + size
            assert stop < len(data), f"an incomplete frame was written: {data[at : at + 40]!r}"
            assert data[stop] == 0xCE, f"a frame without its end: {data[at : stop + 1]!r}"
            self._frame(kind, channel, data[at + 7 : stop])
            at = stop + 1
        self.rest = data[at:]
        assert not self.rest, f"a piece of a frame was written: {self.rest!r}"

    def forget(self) -> None:
        """Keep only what later frames are measured by."""
        self.methods.clear()
        self.bodies.clear()

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        assert not self.is_closed, f"after connection.close-ok: type {kind}, {payload!r}"
        if kind == FRAME_METHOD:
            self._method(channel, payload)
            return
        assert not self.is_closing, f"a frame of type {kind} after connection.close"
        if kind == FRAME_HEARTBEAT:
            assert channel == 0 and not payload
            return
        assert channel not in self.closed_channels, f"a frame of type {kind} after channel.close"
        assert channel in self._content, f"a frame of type {kind} where no content was announced"
        if kind == FRAME_HEADER:
            self._header(channel, payload)
            return
        assert kind == FRAME_BODY, f"unknown frame type {kind}"
        assert 0 < len(payload) <= self.frame_max - 8, f"a body frame of {len(payload)} bytes"
        self._body[channel] += payload
        self._end_content(channel)

    def _header(self, channel: int, payload: bytes) -> None:
        assert self._content[channel] < 0, "two content headers for one message"
        class_id, weight, size, _ = PREAMBLE.unpack_from(payload)
        assert (class_id, weight) == (60, 0), f"a content header of class {class_id} and weight {weight}"
        # What no client could decode must never reach one.
        decode_properties(payload)
        self._content[channel] = size
        self._body[channel] = b""
        self._end_content(channel)

    def _end_content(self, channel: int) -> None:
        size = self._content[channel]
        assert len(self._body[channel]) <= size, "a body larger than its header says"
        if len(self._body[channel]) == size:
            self.bodies.append(self._body.pop(channel))
            del self._content[channel]

    def _method(self, channel: int, payload: bytes) -> None:
        assert len(payload) + 8 <= self.frame_max, f"a method frame of {len(payload)} bytes"
        method = decode_method(payload)
        name = name_of(type(method))
        assert channel not in self._content, f"{name} on channel {channel} within a message"
        assert (channel == 0) is (method.ID[0] == 10), f"{name} on channel {channel}"
        if isinstance(method, ConnectionCloseOk):
            self.is_closed = True
        assert self.is_closed or not self.is_closing, f"{name} after connection.close"
        if channel in self.closed_channels:
            assert isinstance(method, ChannelOpenOk | ChannelCloseOk), f"{name} after channel.close"
        if isinstance(method, ConnectionClose):
            self._reason(method, HARD)
            self.is_closing = True
        elif isinstance(method, ChannelClose):
            self._reason(method, SOFT)
            self.closed_channels.add(channel)
        elif isinstance(method, ChannelOpenOk):
            self.closed_channels.discard(channel)
        elif isinstance(method, BasicDeliver | BasicGetOk | BasicReturn):
            self._content[channel] = -1
            if not isinstance(method, BasicReturn):
                self.tags = [*self.tags[-4:], method.delivery_tag]
        elif isinstance(method, ConnectionTune):
            self.frame_max = method.frame_max
        self.methods.append((channel, method))

    @staticmethod
    def _reason(method: ConnectionClose | ChannelClose, allowed: set[int]) -> None:
        assert method.reply_code in allowed, f"{name_of(type(method))} with {method.reply_code}: {method.reply_text}"
        name = errors.NAMES[method.reply_code]
        assert method.reply_text.startswith(name), f"{method.reply_code} is {name}, not {method.reply_text!r}"
        method.reply_text.encode()
