"""What a `host:port` of a cluster file says of where it is."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from openclust.shell.config_cluster import split_address


def host_of(address: str) -> str:
    """The host, in one spelling; empty where there is none."""
    try:
        host, _ = split_address(address, port_min=0)
    except ValueError:
        return ""
    return spelled(host)


@lru_cache(maxsize=100_000)
def spelled(host: str) -> str:
    """One spelling of a host: names are the same in capitals, and addresses have many forms."""
    host = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "127.0.0.1" if host == "localhost" else host
    return str(getattr(address, "ipv4_mapped", None) or address)


def normal(address: str) -> str:
    """The address in one spelling; as it is where it is none."""
    try:
        host, port = split_address(address, port_min=0)
    except ValueError:
        return address
    return f"{spelled(host)}:{port}"


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(host_of(address)).is_loopback
    except ValueError:
        return False


def is_wildcard(address: str) -> bool:
    """Whether it is every address of a machine, which nobody can dial."""
    host = host_of(address)
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host in ("", "*")
