"""The hosts and addresses of a cluster file's `host:port` values."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache

from openclust.shell.config.addresses import split_address


def host_of(address: str) -> str:
    """The host in its normal spelling; empty if there is none."""
    try:
        host, _ = split_address(address, port_min=0)
    except ValueError:
        return ""
    return spelled(host)


@lru_cache(maxsize=100_000)
def spelled(host: str) -> str:
    """The normal spelling of a host: capitals make no difference in names, and IP addresses have many forms."""
    host = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return "127.0.0.1" if host == "localhost" else host
    return str(getattr(address, "ipv4_mapped", None) or address)


def is_ip(host: str) -> bool:
    """Whether a host in its normal spelling is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def normal(address: str) -> str:
    """The address in its normal spelling; unchanged if it is no address."""
    try:
        host, port = split_address(address, port_min=0)
    except ValueError:
        return address
    return f"{spelled(host)}:{port}"


def with_host(address: str, host: str) -> str:
    """The address with its host replaced by this one, in the normal spelling."""
    return f"{host}:{address.rpartition(':')[2]}"


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


def names_of(entries: Iterable[Iterable[str]]) -> dict[str, str]:
    """The IP addresses of names that the file itself tells: an entry with one IP address and a name gives both.

    `entries` are the hosts of each broker in their normal spelling. A name that two entries give different addresses is
    left out.
    """
    told: dict[str, set[str]] = {}
    for hosts in entries:
        real = [each for each in dict.fromkeys(hosts) if each and each != "*"]
        addresses = [each for each in real if is_ip(each)]
        names = [each for each in real if not is_ip(each)]
        if len(addresses) == 1 and not ipaddress.ip_address(addresses[0]).is_unspecified:
            for name in names:
                told.setdefault(name, set()).add(addresses[0])
        else:
            for name in names if addresses else ():
                told.setdefault(name, set()).update(addresses)
    return {name: next(iter(addresses)) for name, addresses in told.items() if len(addresses) == 1}
