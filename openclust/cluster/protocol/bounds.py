"""The bounds of the cluster layer: every table, buffer and wait has its number here."""

from __future__ import annotations

import msgspec


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much the tables, buffers and waits of the cluster layer may hold or last."""

    state_bytes_max: int = 268_435_456
    log_entries_max: int = 100_000
    root_wait_ms: int = 30_000
    disk_stall_ms: int = 2_000
    waiting_bytes_max: int = 67_108_864
    outbox_bytes_max: int = 67_108_864
    checkpoint_bytes: int = 4_194_304
    checkpoint_messages: int = 5_000
    """A checkpoint is written after this many bytes of rows, or messages that came or went. It takes about 15 ms."""
    slice_max: int = 1_000
    """How many definitions of a snapshot one turn collects, sends, or carries out. That takes about 10 ms."""
