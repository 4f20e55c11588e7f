"""Runs brokers in memory as the shell runs them: turns of a node, or of a broker that is in no cluster.

The far end of each connection is its `transport`: a `FarEnd`, which hears what the broker writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, assert_never, cast
from weakref import WeakKeyDictionary

from openclust.broker.amqp.connection import Connection
from openclust.broker.journal.store_rows import Write
from openclust.broker.model.effects import CheckLogin, CloseTransport, Effect, Note, Proxy, Resume, StartHeartbeats
from openclust.broker.server.broker import Broker
from openclust.cluster.protocol.outbox import Outbox
from openclust.node import Node, perform, settle

TURNS_MAX = 1_000


class FarEnd(Protocol):
    """Whoever is at the other end of a connection."""

    def flush(self) -> None:
        """Take what is in the connection's outbox."""

    def finish(self) -> None:
        """The broker closes the socket."""

    def resume(self) -> None:
        """The broker reads again what it was sent."""

    def knows(self, effect: CheckLogin) -> bool:
        """Whether the password is right."""

    def proxied(self, effect: Proxy) -> None:
        """Another broker is to serve this connection."""

    def noted(self, note: Note) -> None:
        """The broker says something about the connection."""


def far_end(connection: Connection) -> FarEnd:
    assert connection.transport is not None, "the connection is lost"
    return cast(FarEnd, connection.transport)


class Driver:
    """The host of one broker. A broker of a cluster has a node; `writes` and `messages` wait for whoever takes them."""

    def __init__(self, broker: Broker, node: Node | None = None) -> None:
        self.broker = broker
        self.node = node
        self.writes: list[Write] = []
        self.messages: list[Outbox] = []
        self.on_note: Callable[[Note], None] = lambda note: None
        _drivers[broker] = self

    def turn(self) -> None:
        """One turn."""
        if self.node is None:
            perform(settle(self.broker), self)
            self.broker.turn_done()
        else:
            perform(self.node.turn(), self)
            self.node.written()

    def rest(self) -> None:
        """ConsumerRotation until nothing is left to do."""
        for _ in range(TURNS_MAX):
            self.turn()
            if not self.is_busy:
                return
        raise AssertionError(f"the broker is still busy after {TURNS_MAX} turns")

    @property
    def is_busy(self) -> bool:
        if self.node is not None:
            return self.node.is_busy
        broker = self.broker
        return bool(broker.dirty or broker.effects or broker.dead_letters or broker.confirming)

    # -- the host

    def write(self, writes: list[Write]) -> None:
        self.writes += writes

    def send(self, messages: list[Outbox]) -> None:
        self.messages += messages

    def effect(self, effect: Effect) -> None:
        match effect:
            case CheckLogin():
                user = self.broker.users.get(effect.credentials.name)
                knows = far_end(effect.connection).knows(effect)
                effect.connection.checked(effect.credentials, user if knows else None)
            case CloseTransport():
                effect.connection.append_close_ok(effect.close_ok)
                far_end(effect.connection).flush()
                far_end(effect.connection).finish()
            case Resume():
                far_end(effect.connection).resume()
            case Proxy():
                far_end(effect.connection).proxied(effect)
            case Note():
                self.on_note(effect)
                if effect.connection is not None and effect.connection.transport is not None:
                    far_end(effect.connection).noted(effect)
            case StartHeartbeats():
                assert effect.interval_s > 0
            case _:
                assert_never(effect)

    def flush(self, connections: list[Connection]) -> None:
        for connection in connections:
            far_end(connection).flush()

    def farewell(self, connection: Connection) -> None:
        """Its client answers, or does not."""


_drivers: WeakKeyDictionary[Broker, Driver] = WeakKeyDictionary()


def driver_of(broker: Broker) -> Driver:
    """Who drives this broker: as one that is in no cluster, unless a driver was made for it."""
    driver = _drivers.get(broker)
    return driver if driver is not None else Driver(broker)


def turn(broker: Broker) -> None:
    """ConsumerRotation until nothing is left to do."""
    driver_of(broker).rest()


def later(broker: Broker, ms: int) -> None:
    """So much time passes."""
    broker.tick(broker.now_ms + ms)
    turn(broker)
