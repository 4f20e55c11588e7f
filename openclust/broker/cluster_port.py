"""The interface from a broker to its cluster: the only way by which the broker knows of other brokers.

A broker without a cluster decides everything itself, at once (`server/standalone.py`). In a cluster the root orders the
changes, shared queues are active at the root, and clients may be sent to other brokers.
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
    from openclust.broker.parameters.limited_use import UseKind
    from openclust.broker.queues.queue import Queue
    from openclust.broker.routing.destination import Destination
    from openclust.broker.routing.exchange import Exchange, Targets
    from openclust.broker.routing.route import ExchangeHost
    from openclust.broker.server.vhost import VirtualHost
    from openclust.wire.table import Table

Done = Callable[[Any], None]
"""Called once, with the result or with the AmqpError that prevented it."""

Verdict = Callable[[bool, bool], None]
"""Called once for a message: whether it was routed to a queue, and whether all of its queues accepted it."""


class GetResult(NamedTuple):
    """A message that basic.get has fetched, and how many are left. The queue settles the entry later."""

    queue: Origin
    entry: Entry
    left: int


class ClusterPort(Protocol):
    """The cluster, to its broker."""

    @property
    def peer_address(self) -> str:
        """Where other brokers connect to this one, as `host:port`; empty if none can."""

    @property
    def client_address(self) -> str:
        """Where clients connect to this broker, as `host:port`; empty if that is not known."""

    @property
    def closed_to_clients(self) -> str:
        """Why no client may log in at this time; empty if clients may."""

    def define(self, change: Change, done: Done) -> None:
        """Make a change on all brokers. `done` is called when it holds here: at once, or later."""

    def tidy(self, change: Change) -> None:
        """Delete an unused queue or exchange. Only the root does it; other brokers do nothing."""

    def dead_letters_entered(self, queue: Queue, entry: Entry, mark: int) -> None:
        """The messages that entered the journal's open batch since that `mark` are dead letters of this entry."""

    def virtual_host(self, connection: Connection, name: str) -> str:
        """The virtual host of this name, which may be a cluster key instead. ConnectionError for a wrong key."""

    def place(self, connection: Connection) -> Placement | None:
        """The broker that a client should use; None for this one."""

    def known_hosts(self, connection: Connection) -> str:
        """The brokers that clients may use, for connection.open-ok: `host:port,host:port`."""

    def admit(self, connection: Connection, response: bytes) -> User:
        """Check the answer of another broker to `connection.nonce`. Returns its user, or raises ConnectionError."""

    def control(self, connection: Connection, body: bytes) -> None:
        """Handle a control message of another broker. ChannelError if it makes no sense."""

    # -- messages

    def reach(self, vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
        """Where an application's message goes from here, and whether the root must get it as well."""

    def forward(self, channel: Channel | None, vhost: ExchangeHost, message: Message, verdict: Verdict | None) -> None:
        """Send the root a message for its shared queues. The channel's connection may have to wait."""

    def forward_run(
        self, channel: Channel, vhost: VirtualHost, suffix: bytes, properties: bytes, bodies: list[bytes]
    ) -> int:
        """Send the root messages that need no confirm. Returns how many of the first were sent."""

    def reply_outlet(self, address: str) -> Destination | None:
        """The destination for a reply address that is at another broker; None if that cannot be reached."""

    # -- shared queues

    def is_elsewhere(self, queue: Destination) -> bool:
        """Whether a queue is shared and this broker is not the root: then the queue is active elsewhere, or nowhere."""

    def home(self, queue: Queue) -> str:
        """The broker on which a queue is active; empty if there is no root."""

    def consume(self, consumer: Consumer, done: Done) -> None:
        """Let a consumer here receive from a queue at the root."""

    def credit_changed(self, channel: Channel) -> None:
        """The prefetch of a whole channel has changed."""

    def policies_changed(self, vhost: VirtualHost) -> None:
        """Policies of a virtual host have changed: consumers here of queues at the root must follow them."""

    def get(self, channel: Channel, queue: Queue, no_ack: bool, done: Done) -> None:
        """basic.get from a queue at the root. `done` is called with a `GetResult`, or None if it is empty."""

    def purge(self, queue: Queue, done: Done) -> None:
        """Purge a queue at the root. `done` is called with the number of messages."""

    def inspect(self, queue: Queue, done: Done) -> None:
        """Count the messages and consumers of a queue at the root. `done` is called with `Counts`."""

    # -- transactions

    def commit(self, bundle: Bundle, done: Done) -> None:
        """Commit a transaction, on all brokers or on none. `done` is called when it cannot be lost any more."""

    def committed(self, item: Unacked) -> None:
        """A delivery of the root was settled there by a transaction: the root need not be told again."""

    # -- limits

    def used_elsewhere(self, kind: UseKind, name: str) -> int:
        """How much the other brokers use of something that has a limit, as they told a second or two ago."""

    # -- private queues

    def private_binding_changed(
        self, vhost: str, exchange: str, routing_key: str, arguments: Table, count: int
    ) -> None:
        """A binding to a private queue was made (`count` 1) or removed (-1)."""

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        """An exchange was declared: meta-bindings to it can be bound now."""
