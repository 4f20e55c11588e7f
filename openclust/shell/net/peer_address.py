"""Who is at the other end of a socket."""

from __future__ import annotations

import ipaddress

from openclust.broker.model.peer import Peer


def peer_at(
    address: tuple[str, int], *, certificate_name: str = "", is_tls: bool = False, is_peer: bool = False
) -> Peer:
    """Who is at this address; an IPv4 address within IPv6 counts as what it is."""
    host = address[0]
    try:
        where = ipaddress.ip_address(host.partition("%")[0])
        mapped = getattr(where, "ipv4_mapped", None)
        is_loopback = (mapped or where).is_loopback
    except ValueError:
        is_loopback = False
    return Peer(host, address[1], is_loopback, certificate_name, is_tls, is_peer)
