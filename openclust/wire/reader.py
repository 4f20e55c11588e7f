"""Cuts the bytes of a peer into frames and, on the hot path, into whole messages.

If the method, header and body frames of a publish are all in the buffer, the sink gets it in one call. Further
publishes behind it that differ in their bodies only are a run: the sink gets all of them in one call. All other frames
go one by one. If the sink returns False, it has not taken the frame: the reader keeps it, and offers it again at the
next `read`.
"""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from openclust.wire.errors import FRAME_ERROR, UNEXPECTED_FRAME, ConnectionError
from openclust.wire.frames import (
    ENVELOPE,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
)

_PUBLISH = b"\x00\x3c\x00\x28"
_ACK = b"\x00\x3c\x00\x50"
_ACK_FRAME = Struct(">BHII QB B")
_ACK_SIZE = 21
_CONTENT = Struct(">BHIHHQ")
"""The beginning of a header frame: envelope, class, weight and body size."""
_BODY_SIZE = Struct(">Q")
_WAIT_MAX = 30
"""The reader skips at most so many publishes before it looks for a run again."""
_ALIKE_SIZE = 23
"""The bytes of a publish before its body size, without its arguments: two envelopes, ids, an end, class, weight."""


class Sink(Protocol):
    """Takes the frames. Each method returns whether it took them; its errors pass through `read`."""

    def on_publish(self, channel: int, arguments: bytes, header: bytes, body: bytes) -> bool: ...
    def on_run(self, channel: int, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Publishes that differ in their bodies only. Returns how many it took, from the first on.

        `properties` are the bytes of a content header behind the body size: flags and properties.
        """

    def on_ack(self, channel: int, delivery_tag: int, multiple: bool) -> bool: ...
    def on_method(self, channel: int, payload: bytes) -> bool: ...
    def on_header(self, channel: int, payload: bytes) -> bool: ...
    def on_body(self, channel: int, payload: bytes) -> bool: ...


class FrameReader:
    """Cuts the stream of one peer into frames. `frame_max` bounds a frame, and so the bytes kept between reads."""

    __slots__ = ("frame_max", "rest", "sink")

    def __init__(self, sink: Sink, frame_max: int) -> None:
        self.sink = sink
        self.frame_max = frame_max
        self.rest = b""

    def read(self, data: bytes) -> None:
        """Hand all complete frames in `data` to the sink. Bytes that are left over wait for the next call."""
        if self.rest:
            data = self.rest + data
        at = 0
        end = len(data)
        sink = self.sink
        on_publish = sink.on_publish
        on_ack = sink.on_ack
        # If all publishes differ, the reader looks for runs more and more seldom.
        wait = misses = 0
        try:
            while end - at >= FRAME_OVERHEAD:
                if data[at] == FRAME_METHOD:
                    operation = data[at + 7 : at + 11]
                    if operation == _PUBLISH:
                        whole = self._whole_publish(data, at, end)
                        if whole:
                            after, channel, arguments, header, body = whole
                            if wait:
                                wait -= 1
                            elif after < end:
                                bodies = self._run(data, at, after, len(arguments) + _ALIKE_SIZE, len(body))
                                if bodies:
                                    misses = 0
                                    taken = sink.on_run(channel, arguments, header[12:], bodies)
                                    at += taken * (after - at - len(body)) + sum(map(len, bodies[:taken]))
                                    if taken < len(bodies):
                                        return
                                    continue
                                wait, misses = misses, min(misses + 1, _WAIT_MAX)
                            if not on_publish(channel, arguments, header, body):
                                return
                            at = after
                            continue
                    elif operation == _ACK and end - at >= _ACK_SIZE:
                        _, channel, size, _, tag, bits, mark = _ACK_FRAME.unpack_from(data, at)
                        if size == 13 and mark == 0xCE:
                            if not on_ack(channel, tag, bits & 1 == 1):
                                return
                            at += _ACK_SIZE
                            continue
                after_frame = self._frame(data, at, end)
                if not after_frame:
                    return
                at = after_frame
        except BaseException:
            # The frame with the error is consumed: after it only the peer's close counts.
            at = self._skip(data, at, end)
            raise
        finally:
            self.rest = data[at:] if at < end else b""

    def _whole_publish(self, data: bytes, at: int, end: int) -> tuple[int, int, bytes, bytes, bytes] | None:
        """A publish whose body is one frame: its end, channel, arguments, header, body. None: go frame by frame."""
        _, channel, size = ENVELOPE.unpack_from(data, at)
        method_end = at + 7 + size
        header_at = method_end + 1
        if end - header_at < 22 or data[method_end] != 0xCE:
            return None
        kind, header_channel, header_size, class_id, weight, body_size = _CONTENT.unpack_from(data, header_at)
        header_end = header_at + 7 + header_size
        if (
            kind != FRAME_HEADER
            or header_channel != channel
            or class_id != 60
            or weight
            or header_size < 14
            or header_end >= end
            or data[header_end] != 0xCE
        ):
            return None
        if not body_size:
            if header_end - at > self.frame_max:
                return None
            return header_end + 1, channel, data[at + 11 : method_end], data[header_at + 7 : header_end], b""
        body_at = header_end + 8
        body_end = body_at + body_size
        if body_end >= end or data[body_end] != 0xCE:
            return None
        kind, body_channel, frame_size = ENVELOPE.unpack_from(data, header_end + 1)
        if (
            kind != FRAME_BODY
            or body_channel != channel
            or frame_size != body_size
            or body_end - at > self.frame_max  # Perhaps a frame is too large: the slow way checks that.
        ):
            return None
        return (
            body_end + 1,
            channel,
            data[at + 11 : method_end],
            data[header_at + 7 : header_end],
            data[body_at:body_end],
        )

    def _run(self, data: bytes, at: int, after: int, alike: int, body_size: int) -> list[bytes]:
        """The bodies of the publish from `at` to `after`, and of those behind it that differ in their bodies only.

        Empty if there are none behind it. `alike` is the number of bytes before the body size.
        """
        before = after - at - body_size - 1
        if not body_size or not data.startswith(data[at : at + alike], after):
            return []
        behind = data[at + alike + 8 : at + before - 4]
        if not data.startswith(behind, after + alike + 8):
            return []
        beginning, end, size = data[at : at + before], len(data), after - at
        upto = beginning[:alike]
        bodies: list[bytes] = []
        # Mostly the bodies are of one size: then each takes one step of a loop in C.
        same = memoryview(data)[at : at + (end - at) // size * size]
        for begins, body, mark in Struct(f"{before}s{body_size}sc").iter_unpack(same):
            if begins != beginning or mark != FRAME_END:
                break
            bodies.append(body)
            at += size
        while data.startswith(upto, at) and data.startswith(behind, at + alike + 8):
            body_at = at + before
            (body_size,) = _BODY_SIZE.unpack_from(data, at + alike)
            stop = body_at + body_size
            if (
                not body_size
                or stop >= end
                or stop - at > self.frame_max
                or data[stop] != 0xCE
                or data[body_at - 4 : body_at] != body_size.to_bytes(4, "big")
            ):
                break
            bodies.append(data[body_at:stop])
            at = stop + 1
        return bodies if len(bodies) > 1 else []

    def _frame(self, data: bytes, at: int, end: int) -> int:
        """Hand over the frame at `at`. Returns where the next one begins; 0 if this one is incomplete or not taken."""
        kind, channel, size = ENVELOPE.unpack_from(data, at)
        # By the specification envelope and end count too. As in RabbitMQ, clients that do not count them are accepted.
        if size > self.frame_max:
            raise ConnectionError(FRAME_ERROR, f"a frame of {size} bytes where at most {self.frame_max} were agreed")
        stop = at + 7 + size
        if stop >= end:
            return 0
        if data[stop] != 0xCE:
            raise ConnectionError(FRAME_ERROR, f"a frame ends with octet {data[stop]}, not 206")
        payload = data[at + 7 : stop]
        if kind == FRAME_METHOD:
            taken = self.sink.on_method(channel, payload)
        elif kind == FRAME_BODY:
            taken = self.sink.on_body(channel, payload)
        elif kind == FRAME_HEADER:
            taken = self.sink.on_header(channel, payload)
        elif kind == FRAME_HEARTBEAT:
            if size:
                raise ConnectionError(FRAME_ERROR, f"a heartbeat with {size} bytes in it")
            if channel:
                raise ConnectionError(UNEXPECTED_FRAME, f"a heartbeat on channel {channel}")
            taken = True
        else:
            raise ConnectionError(FRAME_ERROR, f"unknown frame type {kind}")
        return stop + 1 if taken else 0

    def _skip(self, data: bytes, at: int, end: int) -> int:
        """Where the stream goes on after the refused frame at `at`; its end, if that cannot be known."""
        size: int = ENVELOPE.unpack_from(data, at)[2]
        stop = at + 7 + size
        if stop < end and data[stop] == 0xCE and data[at] in (1, 2, 3, 8):
            return stop + 1
        return end
