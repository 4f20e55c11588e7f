"""Frames: what pamqp makes of ours, and bodies split to the receiver's frame_max."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, heartbeat
from pamqp import frame as pamqp_frame

from openclust.wire.frames import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    HEARTBEAT,
    content_frames,
    frame,
)
from openclust.wire.properties import Properties, encode_header
from tests.support.wire import PROPERTY_TEST


def frames_in(data: bytes) -> list[tuple[int, int, bytes]]:
    """Type, channel and payload of each frame."""
    found = []
    while data:
        kind, channel, size = struct.unpack_from(">BHI", data)
        assert data[7 + size] == 0xCE
        found.append((kind, channel, data[7 : 7 + size]))
        data = data[8 + size :]
    return found


def test_a_frame_is_its_envelope_its_payload_and_206() -> None:
    assert frame(FRAME_METHOD, 0x0102, b"abc") == b"\x01\x01\x02\x00\x00\x00\x03abc\xce"
    assert len(frame(FRAME_BODY, 1, b"abc")) == 3 + FRAME_OVERHEAD


def test_pamqp_takes_our_heartbeat_for_one() -> None:
    assert isinstance(pamqp_frame.unmarshal(HEARTBEAT)[2], heartbeat.Heartbeat)


def test_pamqp_reads_our_body_frame() -> None:
    data = frame(FRAME_BODY, 65_535, b"payload")
    consumed, channel, read = pamqp_frame.unmarshal(data)
    assert isinstance(read, body.ContentBody)
    assert (consumed, channel, read.value) == (len(data), 65_535, b"payload")


@PROPERTY_TEST
@given(st.integers(0, 65_535), st.binary(max_size=300), st.integers(FRAME_OVERHEAD + 1, 80) | st.just(0))
def test_content_is_a_header_and_bodies_that_fit(channel: int, content: bytes, frame_max: int) -> None:
    header = encode_header(Properties(), len(content))
    (kind, first, payload), *bodies = frames_in(content_frames(channel, header, content, frame_max))
    assert (kind, first, payload) == (FRAME_HEADER, channel, header)
    assert all((kind, number) == (FRAME_BODY, channel) for kind, number, _ in bodies)
    assert b"".join(piece for _, _, piece in bodies) == content
    assert all(piece for _, _, piece in bodies), "an empty body has no body frame"
    if frame_max:
        # All but the last are full: no more frames than need be.
        sizes = [len(piece) + FRAME_OVERHEAD for _, _, piece in bodies]
        assert all(size == frame_max for size in sizes[:-1]) and all(size <= frame_max for size in sizes[-1:])
    else:
        assert len(bodies) == (1 if content else 0)


@pytest.mark.parametrize(
    ("size", "count"), [(0, 0), (1, 1), (4_087, 1), (4_088, 1), (4_089, 2), (8_176, 2), (8_177, 3)]
)
def test_the_overhead_counts_into_frame_max(size: int, count: int) -> None:
    assert len(frames_in(content_frames(1, b"h" * 14, b"x" * size, 4_096))) == 1 + count
