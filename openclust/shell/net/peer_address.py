"""Who is at the other end of a socket."""

from __future__ import annotations

import ipaddress
import socket
from functools import lru_cache

from openclust.broker.model.peer import NOWHERE, Peer


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own: 127.0.0.1, ::1, ::ffff:127.0.0.1. A text that is no address is not."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def local_address(sock: socket.socket) -> tuple[str, int]:
    """The address of this machine that a socket is connected at; `NOWHERE` if it is connected no more."""
    try:
        host, port, *_ = sock.getsockname()
    except OSError:
        return NOWHERE
    return shared_address(host, port)


@lru_cache(maxsize=1_024)
def shared_address(host: str, port: int) -> tuple[str, int]:
    """The same object for equal addresses: thousands of connections are made to one listener."""
    return host, port


def peer_at(
    address: tuple[str, int],
    *,
    local: tuple[str, int] = NOWHERE,
    certificate_name: str = "",
    is_tls: bool = False,
    is_peer: bool = False,
) -> Peer:
    """The other end of a socket, by its address."""
    host, port = address
    return Peer(host, port, is_loopback(host), certificate_name, is_tls, is_peer, local=local)
