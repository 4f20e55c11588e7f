"""A publish that arrives in pieces: method, header and body in frames of their own."""

from __future__ import annotations

import msgspec

from openclust.wire.errors import CONTENT_TOO_LARGE, ChannelError

PUBLISH_PREFIX = b"\0\x3c\0\x28"
"""How the payload of a basic.publish begins."""


class Incoming(msgspec.Struct):
    """A publish whose frames are still coming; `size` is -1 until its header came."""

    arguments: bytes
    header: bytes = b""
    size: int = -1
    got: int = 0
    pieces: list[bytes] = []


def too_large(size: int, limit: int) -> ChannelError:
    return ChannelError(
        CONTENT_TOO_LARGE, f"a message of {size} bytes is larger than the configured maximum of {limit}"
    )
