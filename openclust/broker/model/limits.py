"""The limits of one broker: the bounds of its tables, buffers and waits."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a broker. The section `[limits]` of the configuration file has the same keys."""

    frame_max: int = 131_072
    frame_max_before_login: int = 4_096
    channel_max: int = 2_047
    heartbeat_s: int = 60
    handshake_timeout_ms: int = 10_000
    connections_max: int = 100_000
    connections_before_login_max: int = 10_000
    queues_max: int = 500_000
    exchanges_max: int = 100_000
    bindings_max: int = 2_000_000
    consumers_per_channel_max: int = 10_000
    message_size_max: int = 134_217_728
    transaction_bytes_max: int = 134_217_728
    turn_bytes_max: int = 67_108_864
    unwritten_bytes_max: int = 67_108_864
    queue_memory_bytes: int = 268_435_456
    unacked_per_channel_max: int = 1_000_000
    outbox_bytes_max: int = 1_048_576
    route_cache_max: int = 20_000
    memory_high_watermark: float = 0.6
    consumer_timeout_ms: int = 1_800_000
    dedup_window_max: int = 1_000_000
