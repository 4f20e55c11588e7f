"""The brokers that a client knows, from its user and from brokers, and the order in which they are tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from yarl import URL

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}

_MOVED = re.compile(r"moved to (\S+:\d{1,5})(?!\S)")
_PORT_MAX = 65_535

Shuffle = Callable[[list[str]], None]


def parse_urls(urls: str | URL | Iterable[str | URL]) -> list[URL]:
    """The URLs of a list, or of a text with commas between them; each with its port. ValueError if one is malformed.

    A comma that belongs to a password or a virtual host is written %2C.
    """
    if isinstance(urls, str):
        parts: list[str | URL] = [part.strip() for part in urls.split(",")]
    elif isinstance(urls, URL):
        parts = [urls]
    else:
        parts = list(urls)
    found = [_parse_url(part) for part in parts if part]
    if not found:
        raise ValueError("no broker to connect to: give at least one URL, such as amqp://guest:guest@localhost:5672/")
    return found


def _parse_url(text: str | URL) -> URL:
    try:
        url = URL(text)
    except ValueError as error:
        # The text itself may have a password.
        raise ValueError(f"not the URL of a broker: {error}") from None
    if url.scheme not in DEFAULT_PORTS or not url.host:
        place = url.with_user(None) if url.user else url
        raise ValueError(
            f"not the URL of a broker: '{place}' (write amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://)"
        )
    return url.with_port(url.port or DEFAULT_PORTS[url.scheme])


def address_of(url: URL) -> str:
    """`host:port`, as brokers write it; IPv6 in brackets."""
    host = url.host or ""
    return f"[{host}]:{url.port}" if ":" in host else f"{host}:{url.port}"


def moved_to(text: str) -> str:
    """The address that a broker names when it closes a connection; empty if it names none."""
    found = _MOVED.search(text)
    return found[1] if found else ""


class Hosts:
    """Each broker is known by its address, `host:port`, and reached by a URL with the login and options of the user.

    The known hosts of a broker replace those of the broker before: so there are at most as many as fit into one answer
    (255 bytes), beside the user's own. The user's own are never forgotten.
    """

    def __init__(self, urls: str | URL | Iterable[str | URL], shuffle: Shuffle) -> None:
        self._given: dict[str, URL] = {}
        for url in parse_urls(urls):
            self._given.setdefault(address_of(url), url)
        self._told: dict[str, URL] = {}
        self._shuffle = shuffle
        self._preferred: URL | None = None
        self._lost = ""

    @property
    def first(self) -> URL:
        return next(iter(self._given.values()))

    @property
    def addresses(self) -> list[str]:
        """All known addresses, the user's first."""
        return list(self._given | self._told)

    def order(self) -> list[URL]:
        """The URLs in the order in which to try them.

        At first the user's order. After a loss: first the broker that the lost one named, then the others at random, so
        that the clients of a dead broker do not all turn to the same one, and the lost broker last.
        """
        known = self._told | self._given
        addresses = self.addresses
        if self._lost:
            others = [each for each in addresses if each != self._lost]
            self._shuffle(others)
            addresses = others + [each for each in addresses if each == self._lost]
        urls = [known[each] for each in addresses]
        if self._preferred is None:
            return urls
        return [self._preferred, *(each for each in urls if address_of(each) != address_of(self._preferred))]

    def is_preferred(self, url: URL) -> bool:
        """Whether the broker of the lost connection named this one."""
        return url == self._preferred

    def learn(self, known_hosts: str, via: URL) -> None:
        """Keep the known hosts, `host:port,host:port`, of a broker reached by `via`. Malformed ones are skipped."""
        told = {}
        for text in known_hosts.split(","):
            url = self.url_for(text.strip(), via)
            if url is not None:
                told[address_of(url)] = url
        if told:
            self._told = told

    def url_for(self, address: str, via: URL) -> URL | None:
        """The URL of another broker: the user's own, or `via` with another host and port; None for a malformed address.

        Scheme, login, virtual host and all parameters are those of `via`.
        """
        host, colon, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX):
            return None
        try:
            url = via.with_host(host).with_port(int(port))
        except ValueError:
            return None
        return self._given.get(address_of(url), url)

    def reached(self) -> None:
        """A connection is open: forget the lost one, and the broker that it named."""
        self._preferred, self._lost = None, ""

    def lost(self, url: URL, text: str = "") -> None:
        """The connection there is lost; `text` is the reason that the broker gave, if any."""
        self._lost = address_of(url)
        self._preferred = self.url_for(moved_to(text), url)

    def with_password(self, password: str) -> None:
        """From now on, log in with another password everywhere."""
        self._given = {address: url.with_password(password) for address, url in self._given.items()}
        self._told = {address: url.with_password(password) for address, url in self._told.items()}
        if self._preferred is not None:
            self._preferred = self._preferred.with_password(password)
