"""Checksums of rows: they tell if a row was changed on the disk."""

from __future__ import annotations

from zlib import crc32


def checksum(kind: str, epoch: int, sequence: int, body: bytes) -> int:
    """CRC-32 of a row and its place, so that a row in the place of another is noticed."""
    return crc32(body, crc32(b"%b %d %d " % (kind.encode(), epoch, sequence)))


GONE = checksum("", 0, 0, b"")
"""The checksum of a row that was cut. The row stays, empty, until the next checkpoint: a gap would mean a lost row."""
