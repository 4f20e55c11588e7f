"""Text of the protocol: UTF-8. A peer may also send other bytes, and gets the same bytes back."""

from __future__ import annotations

from typing import Final

_ANY_BYTES: Final = "surrogateescape"


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", _ANY_BYTES)


def decode_text(raw: bytes) -> str:
    return raw.decode("utf-8", _ANY_BYTES)
