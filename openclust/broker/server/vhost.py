"""A virtual host: a world of exchanges and queues of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from openclust.broker.delivery.consumer import Consumer
from openclust.broker.model.changes import Bind, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, Unbind
from openclust.broker.model.policy import Kind
from openclust.broker.model.queue_arguments import (
    QueueArgs,
    check_properties,
    difference,
    inequivalent,
    parse_queue_args,
    with_policy,
)
from openclust.broker.queues.queue import Owner, Queue, QueueBroker
from openclust.broker.routing.exchange import TYPES, Binding, Exchange, Target, binding_key
from openclust.broker.routing.route import Route
from openclust.wire.errors import (
    COMMAND_INVALID,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    RESOURCE_LOCKED,
    ChannelError,
    ConnectionError,
)
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.model.changes import Change
    from openclust.broker.model.policy import PolicyTable
    from openclust.broker.routing.remote_broker import RemoteBroker

PREDECLARED = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.topic": "topic",
}


class HostCluster(Protocol):
    """What a virtual host asks of its broker's cluster: see `ClusterPort`."""

    def tidy(self, change: Change) -> None: ...
    def wanted(self, vhost: str, exchange: str, routing_key: str, arguments: Table, count: int) -> None: ...
    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None: ...
    def policies_changed(self, vhost: VirtualHost) -> None: ...


class HostBroker(QueueBroker, Protocol):
    """What a virtual host asks of its broker."""

    policies: PolicyTable
    queue_count: int
    binding_count: int

    @property
    def vhosts(self) -> Mapping[str, VirtualHost]: ...
    @property
    def cluster(self) -> HostCluster: ...


class VirtualHost:
    """`routes` are the known routes of each user; any change of the topology forgets them all.

    `elsewhere` are the brokers that have private queues of a name, and want what is sent to it.
    """

    __slots__ = ("_routes", "_unbound", "broker", "elsewhere", "exchanges", "name", "queues")

    def __init__(self, broker: HostBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.exchanges = {each: Exchange(each, type) for each, type in PREDECLARED.items()}
        self.queues: dict[str, Queue] = {}
        self.elsewhere: dict[str, dict[RemoteBroker, None]] = {}
        self._routes: dict[str, dict[bytes, Route]] = {}
        self._unbound: deque[str] = deque()

    # -- routes

    def routes_for(self, user: str) -> dict[bytes, Route]:
        """The route cache of one user's connections; it stays the same object."""
        return self._routes.setdefault(user, {})

    def topology_changed(self) -> None:
        for routes in self._routes.values():
            routes.clear()

    def targets(self, exchange: Exchange, routing_key: str, headers: Table) -> Iterable[Target]:
        """Where `exchange` itself sends a message next."""
        if exchange.name:
            found = exchange.table.match(routing_key, headers)
            if exchange.remote_table is not None:
                return chain(found, exchange.remote_table.match(routing_key, headers))
            return found
        queue = self.queues.get(routing_key)
        here: tuple[Target, ...] = () if queue is None else (queue,)
        if self.elsewhere and routing_key in self.elsewhere:
            return chain(here, self.elsewhere[routing_key])
        return here

    # -- exchanges

    def exchange(self, name: str) -> Exchange:
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise ChannelError(NOT_FOUND, f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def declare_exchange(self, wanted: DeclareExchange) -> Exchange:
        if wanted.type not in TYPES:
            known = ", ".join(TYPES)
            raise ConnectionError(COMMAND_INVALID, f"unknown exchange type '{wanted.type}' (there are {known})")
        existing = self.exchanges.get(wanted.name)
        if existing is not None:
            self._demand_same_exchange(existing, wanted)
            return existing
        if len(self.exchanges) >= self.broker.limits.exchanges_max:
            raise ChannelError(
                RESOURCE_ERROR, f"vhost '{self.name}' has {len(self.exchanges)} exchanges, the most it may"
            )
        alternate = wanted.arguments.get("alternate-exchange")
        if alternate is not None and not isinstance(alternate, str):
            place = f"exchange '{wanted.name}' in vhost '{self.name}'"
            raise ChannelError(
                PRECONDITION_FAILED,
                f"invalid arg 'alternate-exchange' for {place}: a name is wanted, not {alternate!r}",
            )
        exchange = Exchange(
            wanted.name,
            wanted.type,
            durable=wanted.durable,
            auto_delete=wanted.auto_delete,
            internal=wanted.internal,
            arguments=wanted.arguments,
        )
        self.exchanges[wanted.name] = exchange
        self.apply_policy_to_exchange(exchange)
        self.broker.cluster.exchange_made(self, exchange)
        self.topology_changed()
        return exchange

    def _demand_same_exchange(self, existing: Exchange, wanted: DeclareExchange) -> None:
        pairs: list[tuple[str, object, object]] = [
            ("type", wanted.type, existing.type),
            ("durable", wanted.durable, existing.durable),
            ("auto_delete", wanted.auto_delete, existing.auto_delete),
            ("internal", wanted.internal, existing.internal),
            (
                "alternate-exchange",
                wanted.arguments.get("alternate-exchange"),
                existing.arguments.get("alternate-exchange"),
            ),
        ]
        _demand_equal(pairs, f"exchange '{existing.name}' in vhost '{self.name}'")

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete it with its bindings; deleting what is not there succeeds, as in RabbitMQ."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.is_used:
            raise ChannelError(PRECONDITION_FAILED, f"exchange '{name}' in vhost '{self.name}' in use")
        del self.exchanges[name]
        self.broker.binding_count -= len(exchange.bindings)
        for binding in list(exchange.bindings.values()):
            exchange.drop(binding)
            assert binding.target.incoming is not None, "a target knows the bindings to it"
            del binding.target.incoming[binding]
            self._told(binding, -1)
        self._drop_incoming(exchange)
        self.topology_changed()

    def _drop_incoming(self, target: Target) -> None:
        incoming, target.incoming = target.incoming or {}, None
        self.broker.binding_count -= len(incoming)
        for binding in incoming:
            binding.source.drop(binding)
            self._told(binding, -1)
            self.source_unbound(binding.source)

    def source_unbound(self, source: Exchange) -> None:
        """An exchange has lost a binding: one that is deleted with its last may go."""
        if source.auto_delete and not source.is_used and source.name in self.exchanges:
            # One after another: a chain of such exchanges may be longer than any stack.
            self._unbound.append(source.name)
            if len(self._unbound) == 1:
                while self._unbound:
                    self.broker.cluster.tidy(DeleteExchange(vhost=self.name, name=self._unbound[0], if_unused=True))
                    self._unbound.popleft()

    def _told(self, binding: Binding, count: int) -> None:
        """Other brokers send here what private queues want, as long as they want it."""
        if binding.target.is_private:
            self.broker.cluster.wanted(self.name, binding.source.name, binding.routing_key, binding.arguments, count)

    def apply_policy_to_exchange(self, exchange: Exchange) -> None:
        """The alternate exchange, by argument or by policy."""
        alternate = exchange.arguments.get("alternate-exchange")
        if alternate is None:
            alternate = self.broker.policies.effective(self.name, "exchange", exchange.name).get("alternate-exchange")
        exchange.alternate = alternate if isinstance(alternate, str) else None

    # -- bindings

    def bind(self, wanted: Bind) -> None:
        source, target = self._ends(wanted)
        if self.broker.binding_count >= self.broker.limits.bindings_max:
            raise ChannelError(
                RESOURCE_ERROR, f"the broker has {self.broker.limits.bindings_max} bindings, the most it may"
            )
        try:
            binding = source.bind(target, wanted.routing_key, wanted.arguments)
        except ValueError as error:
            raise ChannelError(PRECONDITION_FAILED, str(error)) from error
        if binding is not None:
            self.broker.binding_count += 1
            self._told(binding, 1)
            self.topology_changed()

    def is_bound(self, wanted: Bind | Unbind) -> bool:
        source = self.exchanges.get(wanted.source)
        target = (self.exchanges if wanted.to_exchange else self.queues).get(wanted.destination)
        if source is None or target is None:
            return False
        return binding_key(target, wanted.routing_key, wanted.arguments) in source.bindings

    def unbind(self, wanted: Unbind) -> None:
        """Unbinding what is not bound succeeds, as in RabbitMQ."""
        source = self.exchanges.get(wanted.source)
        target = (self.exchanges if wanted.to_exchange else self.queues).get(wanted.destination)
        if source is None or target is None:
            return
        binding = source.unbind(target, wanted.routing_key, wanted.arguments)
        if binding is not None:
            self.broker.binding_count -= 1
            self._told(binding, -1)
            self.topology_changed()
            self.source_unbound(source)

    def _ends(self, wanted: Bind) -> tuple[Exchange, Target]:
        source = self.exchange(wanted.source)
        if wanted.to_exchange:
            return source, self.exchange(wanted.destination)
        return source, self.queue(wanted.destination)

    # -- queues

    def queue(self, name: str, connection: Owner | None = None) -> Queue:
        """The queue of that name, as `connection` may use it: 404 or 405 otherwise."""
        queue = self.queues.get(name)
        if queue is None:
            raise ChannelError(NOT_FOUND, f"no queue '{name}' in vhost '{self.name}'")
        if connection is not None and queue.owner is not None and queue.owner is not connection:
            raise self._locked(name)
        return queue

    def demand_owner(self, queue: Queue, owner: Owner | None) -> None:
        """Raise 405 where a queue is declared exclusive and is not, or the other way round, or is somebody else's."""
        if queue.owner is not owner:
            raise self._locked(queue.name)

    def _locked(self, name: str) -> ChannelError:
        text = (
            f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'. It could be originally "
            "declared on another connection or the exclusive property value does not match that of the original "
            "declaration."
        )
        return ChannelError(RESOURCE_LOCKED, text)

    def declare_queue(self, wanted: DeclareQueue, owner: Owner | None) -> Queue:
        existing = self.queues.get(wanted.name)
        if existing is not None:
            self._demand_same_queue(existing, wanted, owner)
            existing.touch()
            return existing
        if self.broker.queue_count >= self.broker.limits.queues_max:
            raise ChannelError(
                RESOURCE_ERROR, f"the broker has {self.broker.limits.queues_max} queues, the most it may"
            )
        try:
            args = parse_queue_args(wanted.arguments, queue=wanted.name, vhost=self.name)
            check_properties(
                args,
                queue=wanted.name,
                vhost=self.name,
                durable=wanted.durable,
                exclusive=owner is not None,
                auto_delete=wanted.auto_delete,
            )
        except ValueError as error:
            raise ChannelError(PRECONDITION_FAILED, str(error)) from error
        queue = Queue(
            self,
            wanted.name,
            durable=wanted.durable,
            auto_delete=wanted.auto_delete,
            owner=owner,
            arguments=wanted.arguments,
            args=args,
            settings=self._settings(wanted.name, args),
        )
        self.queues[wanted.name] = queue
        self.broker.queue_count += 1
        if owner is not None:
            owner.own(queue)
            self.broker.cluster.wanted(self.name, "", queue.name, {}, 1)
        # The default exchange knows it from now on.
        self.topology_changed()
        return queue

    def _settings(self, name: str, args: QueueArgs) -> QueueArgs:
        """What holds for a queue: its arguments under the policies in force."""
        kind: Kind = "quorum_queue" if args.queue_type == "quorum" else "classic_queue"
        return with_policy(args, self.broker.policies.effective(self.name, kind, name))

    def _demand_same_queue(self, existing: Queue, wanted: DeclareQueue, owner: Owner | None) -> None:
        self.demand_owner(existing, owner)
        place = f"queue '{existing.name}' in vhost '{self.name}'"
        _demand_equal(
            [
                ("durable", wanted.durable, existing.durable),
                ("auto_delete", wanted.auto_delete, existing.auto_delete),
            ],
            place,
        )
        differs = difference(wanted.arguments, existing.arguments)
        if differs is not None:
            text = inequivalent(*differs, queue=existing.name, vhost=self.name)
            raise ChannelError(PRECONDITION_FAILED, text)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete it with its messages and bindings; how many messages that were."""
        queue = self.queues.get(name)
        if queue is None:
            return 0
        if if_unused and queue.turns.all:
            raise ChannelError(PRECONDITION_FAILED, f"queue '{name}' in vhost '{self.name}' in use")
        if if_empty and len(queue):
            raise ChannelError(PRECONDITION_FAILED, f"queue '{name}' in vhost '{self.name}' not empty")
        del self.queues[name]
        self.broker.queue_count -= 1
        self._drop_incoming(queue)
        self.topology_changed()
        count = queue.purge()
        self.broker.journal.library.dropped(queue)
        queue.deadline_ms = 0
        if queue.owner is not None:
            queue.owner.disown(queue)
            self.broker.cluster.wanted(self.name, "", queue.name, {}, -1)
        for consumer in queue.turns.clear():
            consumer.queue_gone()
        queue.direct = None
        return count

    def queue_unused(self, queue: Queue) -> None:
        """A queue's `x-expires` has run out."""
        if queue.is_alive:
            self._delete_unused(queue)

    def _delete_unused(self, queue: Queue) -> None:
        if queue.owner is not None:
            self.delete_queue(queue.name)
        else:
            self.broker.cluster.tidy(DeleteQueue(vhost=self.name, name=queue.name))

    def drop_consumer(self, consumer: Consumer) -> None:
        """A consumer ends: its queue goes on without it, or goes too if that was the last of an auto-delete queue."""
        queue = consumer.queue
        # A reply address has ended by now; and an auto-delete queue may have gone with another consumer.
        if not queue.is_alive:
            return
        queue.remove_consumer(consumer)
        if queue.is_deserted:
            self._delete_unused(self.queues[queue.name])

    def follow_policies(self) -> None:
        """Look up again which policies apply to what is here."""
        for exchange in self.exchanges.values():
            self.apply_policy_to_exchange(exchange)
        for queue in list(self.queues.values()):
            queue.follow(self._settings(queue.name, queue.args))
        self.broker.cluster.policies_changed(self)
        self.topology_changed()


def _demand_equal(pairs: Iterable[tuple[str, object, object]], place: str) -> None:
    for name, wanted, current in pairs:
        if wanted != current:
            text = (
                f"inequivalent arg '{name}' for {place}: received '{_shown(wanted)}' but current is '{_shown(current)}'"
            )
            raise ChannelError(PRECONDITION_FAILED, text)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)
