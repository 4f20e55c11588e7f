"""AMQP URLs, and the NAME=URL pairs of the command line."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

import msgspec

from openclust.bench.client.bench_errors import BenchError

AMQP_PORT = 5672


class BrokerUrl(msgspec.Struct, frozen=True):
    """Host, port and virtual host of a broker, and the login."""

    host: str
    port: int = AMQP_PORT
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"

    @property
    def address(self) -> str:
        """`host:port`, for messages to the user."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_url(text: str) -> BrokerUrl:
    """Read an amqp:// URL; an empty path means the virtual host `/`."""
    parts = urlsplit(text)
    if parts.scheme == "amqps":
        raise BenchError(f"{text!r}: the bench speaks plain TCP only; give the amqp:// address of the broker")
    if parts.scheme != "amqp" or not parts.hostname:
        raise BenchError(f"{text!r} is not an AMQP URL; write amqp://user:password@host:port/vhost")
    try:
        port = parts.port
    except ValueError:
        raise BenchError(f"{text!r}: the port is not a number from 1 to 65535") from None
    if parts.path.count("/") > 1:
        raise BenchError(f"{text!r}: a virtual host with a slash in its name is written %2F")
    return BrokerUrl(
        host=parts.hostname,
        port=port or AMQP_PORT,
        user=unquote(parts.username) if parts.username is not None else "guest",
        password=unquote(parts.password) if parts.password is not None else "guest",
        vhost=unquote(parts.path[1:]) or "/",
    )


def parse_named_urls(text: str) -> tuple[str, list[BrokerUrl]]:
    """Read a `--compare`: NAME=URL, or NAME=URL,URL... for the brokers of one cluster."""
    match = re.fullmatch(r"([\w.-]+)=(.+)", text)
    if match is None:
        raise BenchError(f"--compare {text!r}: write NAME=URL, for example rabbitmq=amqp://127.0.0.1:5673/")
    return match[1], [parse_url(url) for url in re.split(r",(?=amqps?://)", match[2])]
