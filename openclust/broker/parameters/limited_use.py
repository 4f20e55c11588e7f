"""How much clients use of what users and virtual hosts may have limits for."""

from __future__ import annotations

from typing import Literal

import msgspec

from openclust.wire.text import encode_text

UseKind = Literal["vhost_connections", "private_queues", "user_connections", "user_channels"]
"""The fields of `LimitedUse`."""

TOLD_MAX = 1_000
"""So many names are told to other brokers of each kind at most: those with the highest counts."""


class LimitedUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a broker tells the others: counts by name, as bytes, of those only that have a limit."""

    vhost_connections: dict[bytes, int] = {}
    private_queues: dict[bytes, int] = {}
    user_connections: dict[bytes, int] = {}
    user_channels: dict[bytes, int] = {}


class Usage:
    """The clients' connections by virtual host and user, their channels by user. What nobody has, is not listed."""

    __slots__ = ("user_channels", "user_connections", "vhost_connections")

    def __init__(self) -> None:
        self.vhost_connections: dict[str, int] = {}
        self.user_connections: dict[str, int] = {}
        self.user_channels: dict[str, int] = {}

    def connection_opened(self, vhost: str, user: str) -> None:
        _add(self.vhost_connections, vhost, 1)
        _add(self.user_connections, user, 1)

    def connection_closed(self, vhost: str, user: str) -> None:
        _add(self.vhost_connections, vhost, -1)
        _add(self.user_connections, user, -1)

    def channel_opened(self, user: str) -> None:
        _add(self.user_channels, user, 1)

    def channels_closed(self, user: str, count: int) -> None:
        _add(self.user_channels, user, -count)


def told(counts: dict[str, int]) -> dict[bytes, int]:
    """The counts as other brokers are told: names may hold any bytes."""
    highest = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:TOLD_MAX]
    return {encode_text(name): count for name, count in highest if count > 0}


def _add(counts: dict[str, int], name: str, number: int) -> None:
    count = counts.get(name, 0) + number
    assert count >= 0, "what was closed was opened"
    if count:
        counts[name] = count
    else:
        counts.pop(name, None)
