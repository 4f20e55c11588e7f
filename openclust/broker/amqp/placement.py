"""Where a client should be, and how it is brought there: the best way that it understands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from openclust.broker.model.effects import Proxy
from openclust.wire.codec import method_frame
from openclust.wire.errors import CONNECTION_FORCED
from openclust.wire.methods import ConnectionOpen, ConnectionRedirect
from openclust.wire.sasl import AMQPLAIN, PLAIN

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection

Fallback = Literal["accept", "close", "proxy"]
Reason = Literal["placing", "rebalancing", "draining"]

PROXIED = "openclust_proxied"
"""Client property of a connection that came through another broker: it stays where it is."""

REDIRECTED = "openclust_redirected"
"""Client property of a connection that followed a redirect: one is enough, unless this broker is to be emptied."""

_PROXIED_MECHANISMS = (PLAIN, AMQPLAIN)


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


def send_away(connection: Connection, placement: Placement, method: ConnectionOpen, response: bytes) -> bool:
    """Bring a client that opens to where it should be. False where it is to be let in here all the same."""
    note = connection.broker.note
    if connection.can("connection.redirect"):
        note("debug", "client redirected", connection, to=placement.name, reason=placement.reason)
        redirect = ConnectionRedirect(host=placement.address, known_hosts=placement.known_hosts)
        connection.send(method_frame(0, redirect))
        connection.end()
        return True
    if placement.fallback == "close":
        note("debug", "client told to go elsewhere", connection, to=placement.name, reason=placement.reason)
        connection.close(CONNECTION_FORCED, moved(placement.address, placement.reason), *ConnectionOpen.ID)
        return True
    if placement.fallback == "proxy" and _can_be_proxied(connection):
        connection.hold = "proxy"
        connection.broker.effects.append(Proxy(connection, placement, method, response))
        return True
    return False


def _can_be_proxied(connection: Connection) -> bool:
    """Who came by TLS is not handed on in the clear, and nobody can log in elsewhere with a certificate not theirs."""
    return connection.mechanism in _PROXIED_MECHANISMS and not connection.peer.is_tls
