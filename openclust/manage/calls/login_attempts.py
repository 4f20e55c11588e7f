"""Wrong logins over HTTP: how many a user name and an address may have before they must wait."""

from __future__ import annotations

import ipaddress
import math
from typing import NamedTuple

INTERVAL_MS = 60_000
NAMES_PER_ADDRESS = 10
"""An address may have this many times the wrong logins that one user name may have from there."""
ENTRIES_MAX = 10_000
NAME_CHARACTERS_MAX = 100
IPV6_NETWORK_BITS = 64
"""One customer of a provider has that much of an address to himself: it counts as one."""


class _WrongLogins(NamedTuple):
    """How many wrong logins there were at that time; they are forgotten evenly."""

    wrong: float
    at_ms: int


class LoginAttempts:
    """Counts wrong logins. `wrong_max` a minute for a user name from one address, 0: no limit.

    Call `wait_ms` before a password is checked, and check none before that time has gone by. A right password is
    refused too in that time: otherwise whoever guesses would learn of it.
    """

    def __init__(self, wrong_max: int) -> None:
        self._wrong_max = wrong_max
        self._counts: dict[tuple[str, str], _WrongLogins] = {}

    def wait_ms(self, address: str, name: str, now_ms: int) -> int:
        """How long this user name has to wait at this address; 0: it may try."""
        if not self._wrong_max:
            return 0
        return max(self._wait_ms(key, most, now_ms) for key, most in self._keys(address, name))

    def wrong(self, address: str, name: str, now_ms: int) -> None:
        """A login was wrong."""
        if not self._wrong_max:
            return
        for key, most in self._keys(address, name):
            count = self._left(key, most, now_ms) + 1
            # The key is put at the end: the entry that goes out is the one that was not used for the longest time.
            self._counts.pop(key, None)
            if len(self._counts) >= ENTRIES_MAX:
                del self._counts[next(iter(self._counts))]
            self._counts[key] = _WrongLogins(count, now_ms)

    def right(self, address: str, name: str) -> None:
        """A login was right: its user name starts anew at this address. The address does not."""
        self._counts.pop((network(address), name[:NAME_CHARACTERS_MAX]), None)

    def __len__(self) -> int:
        return len(self._counts)

    def _keys(self, address: str, name: str) -> tuple[tuple[tuple[str, str], int], ...]:
        where = network(address)
        return (
            ((where, name[:NAME_CHARACTERS_MAX]), self._wrong_max),
            ((where, ""), self._wrong_max * NAMES_PER_ADDRESS),
        )

    def _left(self, key: tuple[str, str], most: int, now_ms: int) -> float:
        count = self._counts.get(key)
        return 0.0 if count is None else max(0.0, count.wrong - (now_ms - count.at_ms) * most / INTERVAL_MS)

    def _wait_ms(self, key: tuple[str, str], most: int, now_ms: int) -> int:
        count = self._counts.get(key)
        if count is None:
            return 0
        return max(0, count.at_ms - now_ms + math.ceil((count.wrong + 1 - most) * INTERVAL_MS / most))


def network(address: str) -> str:
    """The address by which wrong logins are counted: of IPv6, the network of a customer."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK_BITS), strict=False))
