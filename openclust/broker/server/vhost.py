"""A virtual host: its exchanges, queues and bindings, and how they are declared and deleted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import msgspec

from openclust.broker.counts.churn import Churn
from openclust.broker.counts.message_counts import ChannelCounts
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
from openclust.broker.routing.route_counts import RouteCounts
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
    from openclust.broker.parameters.limited_use import UseKind
    from openclust.broker.parameters.parameters import ParameterTable
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
    """The cluster, as far as virtual hosts need it: see `ClusterPort`."""

    def tidy(self, change: Change) -> None: ...
    def private_binding_changed(
        self, vhost: str, exchange: str, routing_key: str, arguments: Table, count: int
    ) -> None: ...
    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None: ...
    def policies_changed(self, vhost: VirtualHost) -> None: ...
    def used_elsewhere(self, kind: UseKind, name: str) -> int: ...


class HostBroker(QueueBroker, Protocol):
    """The broker, as far as virtual hosts need it."""

    name: str
    policies: PolicyTable
    parameters: ParameterTable
    queue_count: int
    churn: Churn
    binding_count: int

    @property
    def vhosts(self) -> Mapping[str, VirtualHost]: ...
    @property
    def cluster(self) -> HostCluster: ...


class VirtualHost:
    """`elsewhere` has, by queue name, the other brokers that have a private queue of this name."""

    __slots__ = (
        "_routes",
        "_unbound",
        "broker",
        "closed_counts",
        "elsewhere",
        "exchanges",
        "metadata",
        "name",
        "private_count",
        "queues",
        "route_counts",
    )

    def __init__(self, broker: HostBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.exchanges = {each: Exchange(each, type) for each, type in PREDECLARED.items()}
        self.queues: dict[str, Queue] = {}
        # How many of the queues are private.
        self.private_count = 0
        # What people have told of it: `description`, `tags`, `default_queue_type`, `tracing`.
        self.metadata: Table = {}
        self.elsewhere: dict[str, dict[RemoteBroker, None]] = {}
        self._routes: dict[str, dict[bytes, Route]] = {}
        self._unbound: deque[str] = deque()
        self.route_counts = RouteCounts(self.exchanges)
        # What passed on channels that are closed by now.
        self.closed_counts = ChannelCounts()

    # -- routes

    def routes_for(self, user: str) -> dict[bytes, Route]:
        """The route cache of one user's connections: always the same dictionary; `topology_changed` clears it."""
        return self._routes.setdefault(user, {})

    def topology_changed(self) -> None:
        for routes in self._routes.values():
            self.route_counts.forget(routes.values())
            routes.clear()

    def routes_in_use(self) -> list[Route]:
        """All routes that are cached, to be counted."""
        return [route for routes in self._routes.values() for route in routes.values() if route.published]

    def targets(self, exchange: Exchange, routing_key: str, headers: Table) -> Iterable[Target]:
        """The targets that the bindings of `exchange` alone choose."""
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

    def declare_exchange(self, request: DeclareExchange) -> Exchange:
        if request.type not in TYPES:
            known = ", ".join(TYPES)
            raise ConnectionError(COMMAND_INVALID, f"unknown exchange type '{request.type}' (there are {known})")
        existing = self.exchanges.get(request.name)
        if existing is not None:
            self._demand_same_exchange(existing, request)
            return existing
        if len(self.exchanges) >= self.broker.limits.exchanges_max:
            raise ChannelError(
                RESOURCE_ERROR, f"vhost '{self.name}' has {len(self.exchanges)} exchanges, the most it may"
            )
        alternate = request.arguments.get("alternate-exchange")
        if alternate is not None and not isinstance(alternate, str):
            place = f"exchange '{request.name}' in vhost '{self.name}'"
            raise ChannelError(
                PRECONDITION_FAILED,
                f"invalid arg 'alternate-exchange' for {place}: a name is request, not {alternate!r}",
            )
        exchange = Exchange(
            request.name,
            request.type,
            durable=request.durable,
            auto_delete=request.auto_delete,
            internal=request.internal,
            arguments=request.arguments,
        )
        self.exchanges[request.name] = exchange
        self.apply_policy_to_exchange(exchange)
        self.broker.cluster.exchange_made(self, exchange)
        self.topology_changed()
        return exchange

    def _demand_same_exchange(self, existing: Exchange, request: DeclareExchange) -> None:
        pairs: list[tuple[str, object, object]] = [
            ("type", request.type, existing.type),
            ("durable", request.durable, existing.durable),
            ("auto_delete", request.auto_delete, existing.auto_delete),
            ("internal", request.internal, existing.internal),
            (
                "alternate-exchange",
                request.arguments.get("alternate-exchange"),
                existing.arguments.get("alternate-exchange"),
            ),
        ]
        _demand_equal(pairs, f"exchange '{existing.name}' in vhost '{self.name}'")

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange with its bindings. Succeeds if there is none, as in RabbitMQ."""
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
            self._announce(binding, -1)
        self._drop_incoming(exchange)
        self.topology_changed()

    def _drop_incoming(self, target: Target) -> None:
        incoming, target.incoming = target.incoming or {}, None
        self.broker.binding_count -= len(incoming)
        for binding in incoming:
            binding.source.drop(binding)
            self._announce(binding, -1)
            self.source_unbound(binding.source)

    def source_unbound(self, source: Exchange) -> None:
        """An exchange has lost a binding: an auto-delete exchange is deleted after its last one."""
        if source.auto_delete and not source.is_used and source.name in self.exchanges:
            # No recursion: a chain of such exchanges may be longer than the stack.
            self._unbound.append(source.name)
            if len(self._unbound) == 1:
                while self._unbound:
                    self.broker.cluster.tidy(DeleteExchange(vhost=self.name, name=self._unbound[0], if_unused=True))
                    self._unbound.popleft()

    def _announce(self, binding: Binding, count: int) -> None:
        """Tell the cluster of a binding to a private queue that was made (1) or removed (-1)."""
        if binding.target.is_private:
            self.broker.cluster.private_binding_changed(
                self.name, binding.source.name, binding.routing_key, binding.arguments, count
            )

    def apply_policy_to_exchange(self, exchange: Exchange) -> None:
        """Set the alternate exchange, by the argument or else by policy."""
        alternate = exchange.arguments.get("alternate-exchange")
        if alternate is None:
            alternate = self.broker.policies.effective(self.name, "exchange", exchange.name).get("alternate-exchange")
        exchange.alternate = alternate if isinstance(alternate, str) else None

    # -- bindings

    def bind(self, request: Bind) -> None:
        source, target = self._ends(request)
        if self.broker.binding_count >= self.broker.limits.bindings_max:
            raise ChannelError(
                RESOURCE_ERROR, f"the broker has {self.broker.limits.bindings_max} bindings, the most it may"
            )
        try:
            binding = source.bind(target, request.routing_key, request.arguments)
        except ValueError as error:
            raise ChannelError(PRECONDITION_FAILED, str(error)) from error
        if binding is not None:
            self.broker.binding_count += 1
            self._announce(binding, 1)
            self.topology_changed()

    def is_bound(self, request: Bind | Unbind) -> bool:
        source = self.exchanges.get(request.source)
        target = (self.exchanges if request.to_exchange else self.queues).get(request.destination)
        if source is None or target is None:
            return False
        return binding_key(target, request.routing_key, request.arguments) in source.bindings

    def unbind(self, request: Unbind) -> None:
        """Remove a binding. Succeeds if there is none, as in RabbitMQ."""
        source = self.exchanges.get(request.source)
        target = (self.exchanges if request.to_exchange else self.queues).get(request.destination)
        if source is None or target is None:
            return
        binding = source.unbind(target, request.routing_key, request.arguments)
        if binding is not None:
            self.broker.binding_count -= 1
            self._announce(binding, -1)
            self.topology_changed()
            self.source_unbound(source)

    def _ends(self, request: Bind) -> tuple[Exchange, Target]:
        source = self.exchange(request.source)
        if request.to_exchange:
            return source, self.exchange(request.destination)
        return source, self.queue(request.destination)

    # -- queues

    def queue(self, name: str, connection: Owner | None = None) -> Queue:
        """The queue of that name. 404 if there is none, 405 if it is exclusive to another connection."""
        queue = self.queues.get(name)
        if queue is None:
            raise ChannelError(NOT_FOUND, f"no queue '{name}' in vhost '{self.name}'")
        if connection is not None and queue.owner is not None and queue.owner is not connection:
            raise self._locked(name)
        return queue

    def demand_owner(self, queue: Queue, owner: Owner | None) -> None:
        """Raise 405 if a queue belongs to another connection, or if only one of queue and declaration is exclusive."""
        if queue.owner is not owner:
            raise self._locked(queue.name)

    def _locked(self, name: str) -> ChannelError:
        text = (
            f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'. It could be originally "
            "declared on another connection or the exclusive property value does not match that of the original "
            "declaration."
        )
        return ChannelError(RESOURCE_LOCKED, text)

    def demand_room_for_queue(self, name: str) -> None:
        """Raise 406 where a new queue would pass the limit of this virtual host. One that is there needs no room.

        It is asked where declarations are decided: at the root for shared queues, on its own broker for a private one.
        """
        limit = self.broker.parameters.limit(self.name, "max-queues")
        if limit is None or name in self.queues:
            return
        if len(self.queues) + self.broker.cluster.used_elsewhere("private_queues", self.name) >= limit:
            raise ChannelError(
                PRECONDITION_FAILED,
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({limit}) is reached",
            )

    def with_default_type(self, request: DeclareQueue) -> DeclareQueue:
        """The declaration with the type that shared queues have here where none is asked for.

        A queue that is there stays what it is: then nothing is asked for.
        """
        default = self.metadata.get("default_queue_type")
        if default != "quorum" or "x-queue-type" in request.arguments or not request.durable or request.auto_delete:
            return request
        existing = self.queues.get(request.name)
        if existing is not None and "x-queue-type" not in existing.arguments:
            return request
        return msgspec.structs.replace(request, arguments={**request.arguments, "x-queue-type": "quorum"})

    def declare_queue(self, request: DeclareQueue, owner: Owner | None) -> Queue:
        existing = self.queues.get(request.name)
        if existing is not None:
            self._demand_same_queue(existing, request, owner)
            existing.touch()
            return existing
        if self.broker.queue_count >= self.broker.limits.queues_max:
            raise ChannelError(
                RESOURCE_ERROR, f"the broker has {self.broker.limits.queues_max} queues, the most it may"
            )
        try:
            args = parse_queue_args(request.arguments, queue=request.name, vhost=self.name)
            check_properties(
                args,
                queue=request.name,
                vhost=self.name,
                durable=request.durable,
                exclusive=owner is not None,
                auto_delete=request.auto_delete,
            )
        except ValueError as error:
            raise ChannelError(PRECONDITION_FAILED, str(error)) from error
        queue = Queue(
            self,
            request.name,
            durable=request.durable,
            auto_delete=request.auto_delete,
            owner=owner,
            arguments=request.arguments,
            args=args,
            settings=self._settings(request.name, args),
        )
        self.queues[request.name] = queue
        self.broker.queue_count += 1
        if queue.owner is not None or self.broker.journal.is_in_charge:
            self.broker.churn.queue_created += 1
        if owner is not None:
            self.private_count += 1
            owner.own(queue)
            self.broker.cluster.private_binding_changed(self.name, "", queue.name, {}, 1)
        # The default exchange routes to it from now on.
        self.topology_changed()
        return queue

    def _settings(self, name: str, args: QueueArgs) -> QueueArgs:
        """The settings of a queue: its arguments under the policies in force."""
        kind: Kind = "quorum_queue" if args.queue_type == "quorum" else "classic_queue"
        return with_policy(args, self.broker.policies.effective(self.name, kind, name))

    def _demand_same_queue(self, existing: Queue, request: DeclareQueue, owner: Owner | None) -> None:
        self.demand_owner(existing, owner)
        place = f"queue '{existing.name}' in vhost '{self.name}'"
        _demand_equal(
            [
                ("durable", request.durable, existing.durable),
                ("auto_delete", request.auto_delete, existing.auto_delete),
            ],
            place,
        )
        differs = difference(request.arguments, existing.arguments)
        if differs is not None:
            text = inequivalent(*differs, queue=existing.name, vhost=self.name)
            raise ChannelError(PRECONDITION_FAILED, text)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue with its messages and bindings. Returns how many messages it had."""
        queue = self.queues.get(name)
        if queue is None:
            return 0
        if if_unused and queue.consumers.all:
            raise ChannelError(PRECONDITION_FAILED, f"queue '{name}' in vhost '{self.name}' in use")
        if if_empty and len(queue):
            raise ChannelError(PRECONDITION_FAILED, f"queue '{name}' in vhost '{self.name}' not empty")
        del self.queues[name]
        self.broker.queue_count -= 1
        if queue.owner is not None or self.broker.journal.is_in_charge:
            self.broker.churn.queue_deleted += 1
        self._drop_incoming(queue)
        self.topology_changed()
        count = queue.purge()
        self.broker.journal.page_store.dropped(queue)
        queue.deadline_ms = 0
        if queue.owner is not None:
            self.private_count -= 1
            queue.owner.disown(queue)
            self.broker.cluster.private_binding_changed(self.name, "", queue.name, {}, -1)
        for consumer in queue.consumers.clear():
            consumer.queue_deleted()
        queue.direct = None
        return count

    def queue_unused(self, queue: Queue) -> None:
        """Delete a queue that was unused for its `x-expires`."""
        if queue.is_alive:
            self._delete_unused(queue)

    def _delete_unused(self, queue: Queue) -> None:
        if queue.owner is not None:
            self.delete_queue(queue.name)
        else:
            self.broker.cluster.tidy(DeleteQueue(vhost=self.name, name=queue.name))

    def drop_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer from its queue; an auto-delete queue is deleted after its last one."""
        queue = consumer.queue
        # A reply address has none by now, and an auto-delete queue may be deleted with another consumer.
        if not queue.is_alive:
            return
        queue.remove_consumer(consumer)
        if queue.is_deserted:
            self._delete_unused(self.queues[queue.name])

    def follow_policies(self) -> None:
        """Policies have changed: apply them to all exchanges and queues."""
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
