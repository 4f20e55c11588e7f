"""Who is at the other end of a socket."""

from __future__ import annotations

import ipaddress

from openclust.broker.model.peer import Peer


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own: 127.0.0.1, ::1, ::ffff:127.0.0.1. A text that is no address is not."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def peer_at(
    address: tuple[str, int], *, certificate_name: str = "", is_tls: bool = False, is_peer: bool = False
) -> Peer:
    """The other end of a socket, by its address."""
    host, port = address
    return Peer(host, port, is_loopback(host), certificate_name, is_tls, is_peer)
