"""What the pika tests say over and over, in their own words."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from tests.support.clients.broker_process import Broker

Arguments = dict[str, Any]
WAIT_S = 5.0
_names = itertools.count(1)


class Received:
    """One delivery: the method, the properties and the body."""

    def __init__(self, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        self.method, self.properties, self.body = method, properties, body

    @property
    def headers(self) -> dict[str, Any]:
        return self.properties.headers or {}


class Client:
    """Connections to one broker, all closed at the end of the test."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._connections: list[BlockingConnection] = []

    def connect(self, **parameters: Any) -> BlockingConnection:
        """A new connection; `parameters` replace those of the broker's URL, for instance `frame_max=4096`."""
        settings = pika.URLParameters(self.broker.url)
        settings.socket_timeout = settings.stack_timeout = 10
        for name, value in parameters.items():
            setattr(settings, name, value)
        connection = BlockingConnection(settings)
        self._connections.append(connection)
        return connection

    def channel(self, **parameters: Any) -> BlockingChannel:
        """A channel on a connection of its own, so that errors of one test's parts stay apart."""
        return self.connect(**parameters).channel()

    def close(self) -> None:
        for connection in self._connections:
            if connection.is_open:
                with contextlib.suppress(Exception):
                    connection.close()

    def vanish(self) -> None:
        """End all connections without a word."""
        for connection in self._connections:
            with contextlib.suppress(Exception):
                connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        self._connections.clear()


def unique(prefix: str) -> str:
    return f"test.{prefix}.{time.time_ns():x}.{next(_names)}"


def temporary_queue(channel: BlockingChannel, **arguments: Any) -> str:
    """An exclusive server-named queue with these arguments (written with `_` for `-`)."""
    spelled = {key.replace("_", "-"): value for key, value in arguments.items()}
    return str(channel.queue_declare("", exclusive=True, arguments=spelled).method.queue)


def temporary_exchange(channel: BlockingChannel, kind: str, **options: Any) -> str:
    """An exchange that goes when its last binding goes, or with the broker."""
    name = unique(kind)
    channel.exchange_declare(name, kind, **{"auto_delete": True, **options})
    return name


def publish(
    channel: BlockingChannel, queue: str, body: bytes | str = b"", exchange: str = "", **properties: Any
) -> None:
    channel.basic_publish(exchange, queue, body, pika.BasicProperties(**properties))


def get(channel: BlockingChannel, queue: str, within_s: float = WAIT_S, auto_ack: bool = True) -> Received:
    """The next message of `queue`, waiting for it."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        method, properties, body = channel.basic_get(queue, auto_ack=auto_ack)
        if method is not None:
            return Received(method, properties, body)
        channel.connection.process_data_events(0.02)
    raise AssertionError(f"no message in {queue!r} within {within_s} s")


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """All bodies that are in `queue` now."""
    bodies: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return bodies
        bodies.append(body)


def depth(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def wait_for_depth(channel: BlockingChannel, queue: str, expected: int, within_s: float = WAIT_S) -> None:
    pump(channel, lambda: depth(channel, queue) == expected, within_s)


def consume(channel: BlockingChannel, queue: str, **options: Any) -> list[Received]:
    """Start a consumer; the list that comes back fills while the connection is pumped."""
    received: list[Received] = []
    channel.basic_consume(
        queue, lambda _, method, properties, body: received.append(Received(method, properties, body)), **options
    )
    return received


def pump(channel: BlockingChannel, condition: Callable[[], object], within_s: float = WAIT_S) -> None:
    """Process what comes in on the channel's connection until `condition` holds."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not true within {within_s} s")
        channel.connection.process_data_events(0.02)


def arrive(channel: BlockingChannel, inbox: list[Received], count: int, within_s: float = WAIT_S) -> None:
    """Wait until a consumer's inbox has `count` deliveries."""
    pump(channel, lambda: len(inbox) >= count, within_s)
    assert len(inbox) == count


def bodies(received: list[Received]) -> list[bytes]:
    return [delivery.body for delivery in received]


@contextlib.contextmanager
def channel_closed(code: int, *words: str) -> Iterator[None]:
    """The body ends with the broker closing the channel with `code` and a text that has all `words`."""
    with pytest.raises(ChannelClosedByBroker) as closed:
        yield
    assert closed.value.reply_code == code, closed.value.reply_text
    assert all(word in closed.value.reply_text for word in words), closed.value.reply_text


@contextlib.contextmanager
def connection_closed(code: int, *words: str) -> Iterator[None]:
    """The body ends with the broker closing the connection with `code` and a text that has all `words`."""
    with pytest.raises(ConnectionClosedByBroker) as closed:
        yield
    assert closed.value.reply_code == code, closed.value.reply_text
    assert all(word in closed.value.reply_text for word in words), closed.value.reply_text
