"""The brokers a client knows: those it was told of, those brokers told it of, and in which order to try them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from yarl import URL

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}

_MOVED = re.compile(r"moved to (\S+:\d{1,5})(?!\S)")
_PORT_MAX = 65_535

Shuffle = Callable[[list[str]], None]


def parse_urls(urls: str | URL | Iterable[str | URL]) -> list[URL]:
    """The URLs of a list, or of a text with commas between them; each with its port. ValueError for what is none.

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
        # Not the text itself: a password may be in it.
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
    """Where a broker that closes a connection says it goes; empty where it does not say."""
    found = _MOVED.search(text)
    return found[1] if found else ""


class Hosts:
    """Every broker is known by its address, `host:port`, and reached by a URL with all that its user said of it.

    What brokers tell replaces what they told before, so that the list is as long as one answer, 255 bytes, and the
    user's own list. Nothing that a broker says makes it forget one of the user's.
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
        """All that are known, the user's first."""
        return list(self._given | self._told)

    def order(self) -> list[URL]:
        """In which order to try.

        The user's order at first. After a loss: where the broker said that the connection goes, then the others in
        any order, so that the clients of a dead broker do not all turn to the same, and the lost one last.
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
        """Whether the broker of the lost connection said to go there."""
        return url == self._preferred

    def learn(self, known_hosts: str, via: URL) -> None:
        """A broker, reached by `via`, told `host:port,host:port`. What cannot be read is passed over."""
        told = {}
        for text in known_hosts.split(","):
            url = self.url_for(text.strip(), via)
            if url is not None:
                told[address_of(url)] = url
        if told:
            self._told = told

    def url_for(self, address: str, via: URL) -> URL | None:
        """The URL of another broker: the user's own, or `via` with another host and port; None for what is none.

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
        """A connection is open: what was said of the one before is no longer of use."""
        self._preferred, self._lost = None, ""

    def lost(self, url: URL, text: str = "") -> None:
        """The connection there is gone; `text` is what the broker said, if it said something."""
        self._lost = address_of(url)
        self._preferred = self.url_for(moved_to(text), url)

    def with_password(self, password: str) -> None:
        """From now on, log in with another password everywhere."""
        self._given = {address: url.with_password(password) for address, url in self._given.items()}
        self._told = {address: url.with_password(password) for address, url in self._told.items()}
        if self._preferred is not None:
            self._preferred = self._preferred.with_password(password)
