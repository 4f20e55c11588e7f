"""Bytes of AMQP, cut into frames, and told to people."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from openclust.cluster.protocol.messages import decode
from openclust.wire.codec import decode_method
from openclust.wire.frames import ENVELOPE, FRAME_BODY, FRAME_METHOD


def frames(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Kind, channel and payload of each."""
    at = 0
    while at < len(data):
        kind, channel, size = ENVELOPE.unpack_from(data, at)
        yield kind, channel, data[at + 7 : at + 7 + size]
        at += size + 8


def shown(data: bytes) -> str:
    """What was sent over a link."""
    told = []
    for kind, channel, payload in frames(data):
        if kind == FRAME_METHOD and channel > 1:
            told.append(f"channel {channel}: {decode_method(payload)}")
        elif kind == FRAME_BODY:
            told.append(_message(payload) if channel == 1 else repr(payload))
    return "; ".join(told)


def _message(payload: bytes) -> str:
    try:
        return str(decode(payload))
    except msgspec.DecodeError:
        return f"a part of {len(payload)} bytes"
