"""The bounds of the cluster layer: every table, buffer and wait has its number here."""

from __future__ import annotations

import msgspec


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where the cluster layer stops."""

    state_bytes_max: int = 268_435_456
    log_entries_max: int = 100_000
    root_wait_ms: int = 30_000
    disk_stall_ms: int = 2_000
    waiting_bytes_max: int = 67_108_864
    outbox_bytes_max: int = 67_108_864
    checkpoint_bytes: int = 4_194_304
    checkpoint_messages: int = 5_000
    """So many bytes of rows, or so many messages that came or went, make a checkpoint: about 15 ms."""
    slice_max: int = 1_000
    """How many definitions a turn takes for a snapshot, sends, or makes of what was sent: about 10 ms."""
