"""The `ClusterPort` of a broker without a cluster: it decides everything itself, at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openclust.broker.model.changes import Change, Counts
from openclust.broker.server.change_performer import ChangedBroker, demand_room, perform
from openclust.wire.errors import ACCESS_REFUSED, AmqpError, ChannelError, ConnectionError

if TYPE_CHECKING:
    from openclust.broker.amqp.bundle import Bundle
    from openclust.broker.amqp.channel import Channel
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.amqp.placement import Placement
    from openclust.broker.amqp.transaction import Unacked
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.cluster_port import Done, Verdict
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.model.access import User
    from openclust.broker.model.message import Message
    from openclust.broker.parameters.limited_use import UseKind
    from openclust.broker.queues.queue import Queue
    from openclust.broker.routing.destination import Destination
    from openclust.broker.routing.exchange import Exchange, Targets
    from openclust.broker.routing.route import ExchangeHost
    from openclust.broker.server.vhost import VirtualHost
    from openclust.wire.table import Table


class StandaloneBroker(ChangedBroker, Protocol):
    """The broker, to its `Standalone` port."""

    name: str

    def define(self, change: Change, done: Done | None = None) -> None: ...


class Standalone:
    """A cluster of one: every change holds at once, and every queue is here."""

    peer_address = ""
    client_address = ""
    closed_to_clients = ""

    def __init__(self, broker: StandaloneBroker) -> None:
        self._broker = broker

    def define(self, change: Change, done: Done) -> None:
        try:
            demand_room(self._broker, change)
            result = perform(self._broker, change)
        except AmqpError as error:
            done(error)
        else:
            done(result)

    def tidy(self, change: Change) -> None:
        self._broker.define(change)

    def dead_letters_entered(self, queue: Queue, entry: Entry, mark: int) -> None:
        pass

    def virtual_host(self, connection: Connection, name: str) -> str:
        return name

    def place(self, connection: Connection) -> Placement | None:
        return None

    def known_hosts(self, connection: Connection) -> str:
        return ""

    def admit(self, connection: Connection, response: bytes) -> User:
        raise ConnectionError(ACCESS_REFUSED, "this broker is a cluster of its own")

    def control(self, connection: Connection, body: bytes) -> None:
        raise ChannelError(ACCESS_REFUSED, "this broker is a cluster of its own")

    def reach(self, vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
        return list(targets.destinations), False

    def forward(self, channel: Channel | None, vhost: ExchangeHost, message: Message, verdict: Verdict | None) -> None:
        raise AssertionError("nothing is elsewhere")

    def forward_run(
        self, channel: Channel, vhost: VirtualHost, suffix: bytes, properties: bytes, bodies: list[bytes]
    ) -> int:
        raise AssertionError("nothing is elsewhere")

    def reply_outlet(self, address: str) -> Destination | None:
        return None

    def is_elsewhere(self, queue: Destination) -> bool:
        return False

    def home(self, queue: Queue) -> str:
        return self._broker.name

    def consume(self, consumer: Consumer, done: Done) -> None:
        raise AssertionError("nothing is elsewhere")

    def credit_changed(self, channel: Channel) -> None:
        """The queues here follow by themselves."""

    def policies_changed(self, vhost: VirtualHost) -> None:
        """The queues here have followed, with their consumers."""

    def get(self, channel: Channel, queue: Queue, no_ack: bool, done: Done) -> None:
        raise AssertionError("nothing is elsewhere")

    def purge(self, queue: Queue, done: Done) -> None:
        done(queue.purge())

    def inspect(self, queue: Queue, done: Done) -> None:
        done(Counts(len(queue), len(queue.consumers.all)))

    def commit(self, bundle: Bundle, done: Done) -> None:
        bundle.perform_here(done)

    def committed(self, item: Unacked) -> None:
        raise AssertionError("nothing is elsewhere")

    def used_elsewhere(self, kind: UseKind, name: str) -> int:
        return 0

    def private_binding_changed(
        self, vhost: str, exchange: str, routing_key: str, arguments: Table, count: int
    ) -> None:
        """There are no other brokers to tell."""

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """There are no meta-bindings."""
