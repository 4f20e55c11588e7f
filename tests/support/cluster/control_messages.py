"""The control messages among the bytes that a broker sends on a link."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from openclust.cluster.protocol.messages import ControlMessage, decode
from openclust.cluster.protocol.outbox import CONTROL_CHANNEL
from openclust.wire.frames import ENVELOPE, FRAME_BODY, FRAME_METHOD


class Piece(NamedTuple):
    """One control message with the bytes of its frames, or one frame of another channel."""

    message: ControlMessage | None
    data: bytes


def pieces(data: bytes) -> Iterator[Piece]:
    """All that was sent, in order. `data` ends where a message ends."""
    begun = at = 0
    body = b""
    while at < len(data):
        kind, channel, size = ENVELOPE.unpack_from(data, at)
        payload = data[at + 7 : at + 7 + size]
        end = at + size + 8
        is_next_method = end == len(data) or data[end] == FRAME_METHOD
        if channel != CONTROL_CHANNEL:
            yield Piece(None, data[at:end])
            begun = end
        else:
            body += payload if kind == FRAME_BODY else b""
            if is_next_method:
                yield Piece(decode(body), data[begun:end])
                begun, body = end, b""
        at = end
