"""The one seam between a broker and a cluster: what a broker asks of whoever decides with it.

A broker alone decides by itself, at once (`server/standalone.py`). In a cluster the root orders the changes, and a
client may be better off elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from openclust.broker.model.changes import Change

if TYPE_CHECKING:
    from openclust.broker.amqp.bundle import Bundle
    from openclust.broker.amqp.channel import Channel
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.amqp.placement import Placement
    from openclust.broker.amqp.transaction import Unacked
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.delivery.consumer import Consumer, Origin
    from openclust.broker.model.access import User
    from openclust.broker.model.message import Message
    from openclust.broker.queues.queue import Queue
    from openclust.broker.routing.destination import Destination
    from openclust.broker.routing.exchange import Exchange, Targets
    from openclust.broker.routing.route import ExchangeHost
    from openclust.broker.server.vhost import VirtualHost
    from openclust.wire.table import Table

Done = Callable[[Any], None]
"""Called once: with the result, or with the AmqpError that stood against it."""

Verdict = Callable[[bool, bool], None]
"""Called once with what became of a message: whether a queue wanted it, and whether all that did accepted it."""


class GetResult(NamedTuple):
    """What basic.get has fetched. The queue is asked to forget the entry, or to take it back."""

    queue: Origin
    entry: Entry
    left: int


class ClusterPort(Protocol):
    """What a broker asks."""

    @property
    def peer_address(self) -> str:
        """Where other brokers reach this one, as `host:port`; empty where it takes none."""

    @property
    def client_address(self) -> str:
        """Where applications reach this broker, as `host:port`; empty where that is not known."""

    @property
    def closed_to_clients(self) -> str:
        """Why no client can be let in at this time; empty where one can."""

    def define(self, change: Change, done: Done) -> None:
        """Make a change that all brokers share, and call `done` when it holds here: at once, or later."""

    def tidy(self, change: Change) -> None:
        """Delete what nobody uses any more. Brokers that do not decide leave it to the one that does."""

    def came_of(self, queue: Queue, entry: Entry, mark: int) -> None:
        """What has entered the journal's open batch since that mark are dead letters of this message."""

    def virtual_host(self, connection: Connection, name: str) -> str:
        """The virtual host that a client means by a name; ConnectionError where it wants another cluster."""

    def place(self, connection: Connection) -> Placement | None:
        """Where a client that opens should be; None is here."""

    def known_hosts(self, connection: Connection) -> str:
        """The brokers that a client may turn to, as open-ok tells them: `host:port,host:port`."""

    def admit(self, connection: Connection, response: bytes) -> User:
        """The user that a broker is here, by its answer to `connection.nonce`; ConnectionError where it is none."""

    def control(self, connection: Connection, body: bytes) -> None:
        """Another broker says something. Raises ChannelError where it makes no sense."""

    # -- messages

    def reach(self, vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
        """Where an application's message goes from here, and whether the root must get it as well."""

    def forward(self, channel: Channel | None, vhost: ExchangeHost, message: Message, verdict: Verdict | None) -> None:
        """Give the root a message for its shared queues; the channel's connection may be made to wait."""

    def forward_run(
        self, channel: Channel, vhost: VirtualHost, suffix: bytes, properties: bytes, bodies: list[bytes]
    ) -> int:
        """Give the root messages of which nobody wants to be told: how many of them are on their way."""

    def reply_outlet(self, address: str) -> Destination | None:
        """Where a reply address of another broker is reached."""

    # -- shared queues

    def is_elsewhere(self, queue: Destination) -> bool:
        """Whether a queue is only known here, and active on another broker."""

    def home(self, queue: Queue) -> str:
        """The broker on which a queue is active; empty where there is none at this time."""

    def consume(self, consumer: Consumer, done: Done) -> None:
        """Let a consumer here receive from a queue elsewhere."""

    def credit_changed(self, channel: Channel) -> None:
        """The consumers of a channel may hold more deliveries together, or fewer."""

    def policies_changed(self, vhost: VirtualHost) -> None:
        """The queues of a virtual host follow other policies; consumers here of queues elsewhere have to, too."""

    def get(self, channel: Channel, queue: Queue, no_ack: bool, done: Done) -> None:
        """basic.get from a queue elsewhere; `done` is called with a `GetResult`, or None where it is empty."""

    def purge(self, queue: Queue, done: Done) -> None:
        """Purge a queue elsewhere; `done` is called with how many messages that were."""

    def inspect(self, queue: Queue, done: Done) -> None:
        """Count a queue elsewhere; `done` is called with `Counts`."""

    # -- transactions

    def commit(self, bundle: Bundle, done: Done) -> None:
        """Have a transaction happen, here and elsewhere, or not at all; `done` is called when it is sure to stay."""

    def committed(self, item: Unacked) -> None:
        """A delivery from elsewhere was settled there with its transaction: nobody need be told."""

    # -- private queues

    def wanted(self, vhost: str, exchange: str, routing_key: str, arguments: Table, count: int) -> None:
        """A binding to a private queue is made (1) or gone (-1)."""

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """An exchange came to be: what others want of it can be bound."""
