"""Frames: all bytes after the protocol header are in frames."""

from __future__ import annotations

from struct import Struct

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

EARLIER_HEADERS = (b"AMQP\x01\x01\x00\x09", b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01")
"""The headers of 0-9 and, in two spellings, of 0-8: clients that begin with them are answered in 0-9-1."""

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8

FRAME_END = b"\xce"
FRAME_OVERHEAD = 8
"""The bytes of a frame beside its payload: type, channel, size and end."""

FRAME_MIN = 4_096
"""0-9-1 1.4: no peer may negotiate a smaller maximum."""

ENVELOPE = Struct(">BHI")

HEARTBEAT = ENVELOPE.pack(FRAME_HEARTBEAT, 0, 0) + FRAME_END


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One whole frame."""
    return b"%b%b\xce" % (ENVELOPE.pack(kind, channel, len(payload)), payload)


def content_frames(channel: int, header: bytes, body: bytes, frame_max: int) -> bytes:
    """Header frame and body frames of one message, split to the receiver's `frame_max` (0: no limit)."""
    size = len(body)
    envelope = ENVELOPE.pack(FRAME_HEADER, channel, len(header))
    if not size:
        return b"%b%b\xce" % (envelope, header)
    piece = frame_max - FRAME_OVERHEAD
    if size <= piece or frame_max == 0:
        return b"%b%b\xce%b%b\xce" % (envelope, header, ENVELOPE.pack(FRAME_BODY, channel, size), body)
    parts = [envelope, header, FRAME_END]
    for at in range(0, size, piece):
        chunk = body[at : at + piece]
        parts += (ENVELOPE.pack(FRAME_BODY, channel, len(chunk)), chunk, FRAME_END)
    return b"".join(parts)
