"""Who is at the other end of a connection."""

from __future__ import annotations

import msgspec

NOWHERE = ("", 0)
"""Stands for an address that is not known."""


class Peer(msgspec.Struct, frozen=True):
    """The other end of a connection, as the transport knows it."""

    host: str
    port: int
    is_loopback: bool
    certificate_name: str = ""
    is_tls: bool = False
    is_peer: bool = False
    """It has connected to the address for brokers of the cluster."""
    is_internal: bool = False
    """It is in this process, and acts for a user of the management API. It is not counted among the clients."""
    local: tuple[str, int] = NOWHERE
    """The address of this broker that it has connected to. Connections to one address share the object."""

    @property
    def is_application(self) -> bool:
        """Whether it is a client: no broker, and not the management API."""
        return not self.is_peer and not self.is_internal
