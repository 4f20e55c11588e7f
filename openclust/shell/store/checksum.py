"""What tells a row that was changed behind our back."""

from __future__ import annotations

from zlib import crc32


def checksum(kind: str, epoch: int, sequence: int, body: bytes) -> int:
    """CRC-32 of a row: of its place too, so that a row in the place of another is found."""
    return crc32(body, crc32(b"%b %d %d " % (kind.encode(), epoch, sequence)))


GONE = checksum("", 0, 0, b"")
"""Of a row that was cut: its place stays until the next checkpoint, so that no row can be missing unseen."""
