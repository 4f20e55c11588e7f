"""Where a client should be, and how it is brought there: the best way that it understands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    pass

Fallback = Literal["accept", "close", "proxy"]
Reason = Literal["placing", "rebalancing", "draining"]

PROXIED = "openclust_proxied"
"""Client property of a connection that came through another broker: it stays where it is."""

REDIRECTED = "openclust_redirected"
"""Client property of a connection that followed a redirect: one is enough, unless this broker is to be emptied."""


class Placement(msgspec.Struct, frozen=True):
    """Another broker, as `host:port`, where a client should be rather than here."""

    name: str
    address: str
    known_hosts: str
    fallback: Fallback
    reason: Reason = "placing"


def moved(address: str, reason: Reason) -> str:
    """What a client is told whose connection is closed because it should be elsewhere; programs may read it."""
    return f"CONNECTION_FORCED - moved to {address} ({reason})"
