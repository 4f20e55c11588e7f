"""The broker that a client should use, and the texts and properties by which it is sent there."""

from __future__ import annotations

from typing import Literal

import msgspec

Fallback = Literal["accept", "close", "proxy"]
Reason = Literal["placing", "rebalancing", "draining"]

PROXIED = "openclust_proxied"
"""Client property of a connection that comes through another broker as proxy: it stays here."""

REDIRECTED = "openclust_redirected"
"""Client property of a connection that followed a redirect: it is redirected again only from a draining broker."""


class Placement(msgspec.Struct, frozen=True):
    """Another broker that a client should use; `address` is `host:port`."""

    name: str
    address: str
    known_hosts: str
    fallback: Fallback
    reason: Reason = "placing"


def moved(address: str, reason: Reason) -> str:
    """The text of the connection.close that sends a client to another broker. Programs may parse it."""
    return f"CONNECTION_FORCED - moved to {address} ({reason})"
