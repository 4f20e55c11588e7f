"""The questions of the broker to its cluster, and the part of the cluster layer that answers each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.cluster.protocol.messages import Inspect, Purge
from openclust.cluster.shared_queues.remote_queue import GoneQueue
from openclust.cluster.shared_queues.root_requests import defined
from openclust.wire.text import encode_text

if TYPE_CHECKING:
    from openclust.broker.amqp.bundle import Bundle
    from openclust.broker.amqp.channel import Channel
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.amqp.placement import Placement
    from openclust.broker.amqp.transaction import Unacked
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.cluster_port import Done, Verdict
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.model.changes import Change
    from openclust.broker.model.message import Message
    from openclust.broker.parameters.limited_use import UseKind
    from openclust.broker.queues.queue import Queue
    from openclust.broker.routing.destination import Destination
    from openclust.broker.routing.exchange import Exchange, Targets
    from openclust.broker.routing.route import ExchangeHost
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost
    from openclust.cluster.log.cluster_uuid import ClusterUuid
    from openclust.cluster.log.replica import Replica
    from openclust.cluster.membership.admission import Admission
    from openclust.cluster.membership.control import Control
    from openclust.cluster.membership.presences import Presences
    from openclust.cluster.membership.readiness import Readiness
    from openclust.cluster.placing.placing import Placing
    from openclust.cluster.protocol.hello import Hello
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.protocol.roster import Roster
    from openclust.cluster.protocol.status import Reign
    from openclust.cluster.relay.meta_bindings import MetaBindings
    from openclust.cluster.relay.relay import Relay
    from openclust.cluster.roles.role import Role
    from openclust.cluster.shared_queues.forwarding import Forwarding
    from openclust.cluster.shared_queues.remote_consumers import RemoteConsumers
    from openclust.cluster.shared_queues.root_requests import RootRequests
    from openclust.cluster.transactions.commit_registry import CommitRegistry
    from openclust.cluster.transactions.transactions import Transactions
    from openclust.wire.table import Table


class Port:
    """The broker's `ClusterPort`, but for `admit`: `Membership` makes the parts, and lets peers in."""

    broker: Broker
    leadership: Leadership[Role]
    links: Links
    cluster_uuid: ClusterUuid
    presences: Presences
    admission: Admission
    root_requests: RootRequests
    transactions: Transactions
    commit_registry: CommitRegistry
    control_messages: Control
    remote_consumers: RemoteConsumers
    forwarding: Forwarding
    meta_bindings: MetaBindings
    placing: Placing
    readiness: Readiness
    relay: Relay
    replica: Replica

    @property
    def hello(self) -> Hello:
        """What this broker tells of itself to every peer."""
        return self.cluster_uuid.hello

    @hello.setter
    def hello(self, hello: Hello) -> None:
        self.cluster_uuid.hello = hello

    @property
    def roster(self) -> Roster:
        """All brokers, as the root told them last."""
        return self.presences.roster

    @property
    def is_draining(self) -> bool:
        """Whether this broker is being emptied of its clients."""
        return self.presences.is_draining

    @is_draining.setter
    def is_draining(self, is_draining: bool) -> None:
        self.presences.is_draining = is_draining

    @property
    def peer_address(self) -> str:
        return self.hello.peer

    @property
    def client_address(self) -> str:
        return self.presences.own.client

    @property
    def closed_to_clients(self) -> str:
        return self.readiness.closed_to_clients

    @property
    def role(self) -> Role:
        """The role of this broker at the moment."""
        return self.leadership.role

    @property
    def is_root(self) -> bool:
        return self.leadership.is_root

    @property
    def root(self) -> str:
        """The name of the root; empty where there is none."""
        return self.leadership.root

    @property
    def epoch(self) -> int:
        return self.leadership.epoch

    @property
    def reign(self) -> Reign | None:
        return self.leadership.reign

    @property
    def is_alone(self) -> bool:
        """Whether there is no other broker in the cluster, and none can come."""
        return self.links.is_alone

    @property
    def primaries(self) -> tuple[str, ...]:
        """The names of all defined primaries, as far as this broker knows them."""
        return self.links.primaries

    @property
    def heartbeat_ms(self) -> int:
        return self.links.heartbeat_ms

    @property
    def is_in_touch(self) -> bool:
        """Whether this broker is root, or its log has reached the reign of the root."""
        return self.is_root or (bool(self.root) and self.replica.position.epoch == self.epoch)

    def define(self, change: Change, done: Done) -> None:
        self.role.define(change, done)

    def tidy(self, change: Change) -> None:
        self.role.tidy(change)

    def dead_letters_entered(self, queue: Queue, entry: Entry, mark: int) -> None:
        self.commit_registry.dead_letters_entered(queue, entry.seq, self.broker.journal.taken(mark))

    def virtual_host(self, connection: Connection, name: str) -> str:
        return self.placing.virtual_host(connection, name)

    def place(self, connection: Connection) -> Placement | None:
        if len(self.roster.brokers) < 2:
            # There is no other broker.
            return None
        self.placing.heard(self.roster, self.broker.now_ms)
        return self.placing.place(connection, self.client_count(), is_draining=self.is_draining)

    def known_hosts(self, connection: Connection) -> str:
        self.placing.heard(self.roster, self.broker.now_ms)
        return self.placing.known_hosts(connection.peer.is_tls)

    def client_count(self) -> int:
        """How many connections are open here that are not a peer's link."""
        return self.presences.client_count()

    def control(self, connection: Connection, body: bytes) -> None:
        self.control_messages.heard(connection, body)

    def reach(self, vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
        return self.relay.reach(vhost, targets)

    def forward(self, channel: Channel | None, vhost: ExchangeHost, message: Message, verdict: Verdict | None) -> None:
        self.forwarding.publish(channel, vhost, message, verdict)

    def forward_run(
        self, channel: Channel, vhost: VirtualHost, suffix: bytes, properties: bytes, bodies: list[bytes]
    ) -> int:
        return self.forwarding.publish_run(channel, vhost, suffix, properties, bodies)

    def reply_outlet(self, address: str) -> Destination | None:
        return self.relay.reply_outlet(address)

    def is_elsewhere(self, queue: Destination) -> bool:
        return queue.is_shared and not self.leadership.is_root

    def home(self, queue: Queue) -> str:
        return self.root if self.is_elsewhere(queue) else self.broker.name

    def consume(self, consumer: Consumer, done: Done) -> None:
        self.remote_consumers.consume(consumer, done)

    def credit_changed(self, channel: Channel) -> None:
        self.remote_consumers.credit_changed(channel)

    def policies_changed(self, vhost: VirtualHost) -> None:
        self.remote_consumers.policies_changed(vhost)

    def get(self, channel: Channel, queue: Queue, no_ack: bool, done: Done) -> None:
        self.remote_consumers.get(channel, queue, no_ack, done)

    def purge(self, queue: Queue, done: Done) -> None:
        question = Purge(encode_text(queue.vhost.name), encode_text(queue.name))
        self.root_requests.ask(question, lambda answer: done(defined(answer)))

    def inspect(self, queue: Queue, done: Done) -> None:
        question = Inspect(encode_text(queue.vhost.name), encode_text(queue.name))
        self.root_requests.ask(question, lambda answer: done(defined(answer)))

    def commit(self, bundle: Bundle, done: Done) -> None:
        self.transactions.commit(bundle, done)

    def committed(self, item: Unacked) -> None:
        assert isinstance(item.queue, GoneQueue), "it came from the root"
        item.queue.committed(item.entry)

    def used_elsewhere(self, kind: UseKind, name: str) -> int:
        # Out of touch with the root the others' last counts may be long past: no client is refused for those.
        return self.roster.used_elsewhere(self.links.name, kind, name) if self.root else 0

    def private_binding_changed(
        self, vhost: str, exchange: str, routing_key: str, arguments: Table, count: int
    ) -> None:
        if not self.is_alone:
            self.meta_bindings.wanted(vhost, exchange, routing_key, arguments, count)
            if not exchange and count < 0:
                # A binding to the default exchange has gone, and so its private queue.
                self.replica.definitions.hidden.gone(vhost, routing_key)

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        self.meta_bindings.exchange_made(vhost, exchange)
