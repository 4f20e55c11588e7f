"""The definitions that all brokers of a cluster share, as the list of changes that makes them from nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from openclust.broker.model.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    KeepOnly,
    PutGlobalParameter,
    PutParameter,
    PutPolicy,
    PutUser,
    PutVhost,
)
from openclust.broker.queues.queue import Queue
from openclust.broker.routing.exchange import Binding, Exchange
from openclust.cluster.definitions.target_state import SharedBindingKey, is_declared, is_shared, key_of

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost


def state_in_passing(broker: Broker) -> Iterator[Change]:
    """The shared state of `broker`, each change after those it needs. Private queues and their bindings are no part.

    It may be taken while the broker goes on: what changes meanwhile may be there as before or as after.
    """
    for name in list(broker.vhosts):
        if name in broker.vhosts:
            yield PutVhost(vhost=name, metadata=broker.vhosts[name].metadata)
    for name in list(broker.users):
        if name in broker.users:
            yield PutUser(user=broker.users[name].copy())
    for operator in (False, True):
        for policy in broker.policies.list(operator=operator):
            yield PutPolicy(vhost=policy.vhost, policy=policy, operator=operator)
    for parameter in broker.parameters.list():
        yield PutParameter(**parameter._asdict())
    for name, value in sorted(broker.parameters.global_values.items()):
        yield PutGlobalParameter(name=name, value=value)
    for name in list(broker.vhosts):
        vhost = broker.vhosts.get(name)
        if vhost is not None:
            yield from _state_of(vhost)
    if broker.are_users_settled:
        # At the end: they may be settled while the state is taken.
        yield _keep_only(broker)


def settled_users(broker: Broker) -> list[Change]:
    """The changes that make the users of `broker` those of all brokers, whatever their users files said before."""
    changes: list[Change] = [PutVhost(vhost=vhost) for vhost in sorted(broker.vhosts)]
    changes += [PutUser(user=broker.users[name].copy()) for name in sorted(broker.users)]
    return [*changes, _keep_only(broker)]


def _keep_only(broker: Broker) -> KeepOnly:
    return KeepOnly(users=tuple(sorted(broker.users)), vhosts=tuple(sorted(broker.vhosts)))


def _state_of(vhost: VirtualHost) -> Iterator[Change]:
    for name in list(vhost.exchanges):
        exchange = vhost.exchanges.get(name)
        if exchange is not None and is_declared(exchange):
            yield _exchange_change(vhost, exchange)
    for name in list(vhost.queues):
        queue = vhost.queues.get(name)
        if queue is not None and queue.owner is None:
            yield _queue_change(vhost, queue)
    for name in list(vhost.exchanges):
        exchange = vhost.exchanges.get(name)
        found = [] if exchange is None else list(exchange.bindings.items())
        for (_, _, packed), binding in found:
            if is_shared(binding):
                yield binding_change(vhost, key_of(binding, packed), binding)


def _exchange_change(vhost: VirtualHost, exchange: Exchange) -> DeclareExchange:
    return DeclareExchange(
        vhost=vhost.name,
        name=exchange.name,
        type=exchange.type,
        durable=exchange.durable,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        arguments=exchange.arguments,
    )


def _queue_change(vhost: VirtualHost, queue: Queue) -> DeclareQueue:
    return DeclareQueue(
        vhost=vhost.name,
        name=queue.name,
        durable=queue.durable,
        auto_delete=queue.auto_delete,
        arguments=queue.arguments,
    )


def binding_change(vhost: VirtualHost, key: SharedBindingKey, binding: Binding) -> Bind:
    source, to_exchange, destination, routing_key, _ = key
    return Bind(
        vhost=vhost.name,
        source=source,
        destination=destination,
        to_exchange=to_exchange,
        routing_key=routing_key,
        arguments=binding.arguments,
    )
