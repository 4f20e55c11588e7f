"""A wanted state beside a broker's own: what of it is there already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from openclust.broker.change_codec import canonical_table, encode_canonical
from openclust.broker.changes import Bind, Change, DeclareExchange, DeclareQueue, PutPolicy, PutUser, PutVhost
from openclust.broker.exchange import Binding, Exchange, Target
from openclust.broker.queue import Queue
from openclust.broker.vhost import PREDECLARED
from openclust.wire.table import Table, encode_table

if TYPE_CHECKING:
    from openclust.broker.vhost import VirtualHost

BindingKey: TypeAlias = tuple[str, bool, str, str, bytes]
"""Source, whether to an exchange, destination, routing key, and the arguments as exchanges tell them apart."""


class Wanted:
    """The wanted state by what it is about: of several changes about the same, the last counts."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self.vhosts: dict[str, PutVhost] = {}
        self.users: dict[str, PutUser] = {}
        self.policies: dict[tuple[str, bool, str], PutPolicy] = {}
        self.exchanges: dict[str, dict[str, DeclareExchange]] = {}
        self.queues: dict[str, dict[str, DeclareQueue]] = {}
        self.bindings: dict[str, dict[BindingKey, Bind]] = {}
        self.unfit: list[tuple[Change, str]] = []
        for change in changes:
            self._add(change)

    def _add(self, change: Change) -> None:
        match change:
            case PutVhost():
                self.vhosts[change.vhost] = change
            case PutUser():
                self.users[change.user.name] = change
            case PutPolicy():
                self.policies[change.policy.vhost, change.operator, change.policy.name] = change
            case DeclareExchange():
                self.exchanges.setdefault(change.vhost, {})[change.name] = change
            case DeclareQueue():
                self.queues.setdefault(change.vhost, {})[change.name] = change
            case Bind():
                try:
                    self.bindings.setdefault(change.vhost, {})[_wanted_key(change)] = change
                except ValueError as error:
                    self.unfit.append((change, str(error)))
            case _:
                self.unfit.append((change, "a state consists of what is there, not of what is to go"))


class Kept:
    """What of one virtual host stays as it is."""

    def __init__(
        self, vhost: VirtualHost | None, exchanges: dict[str, DeclareExchange], queues: dict[str, DeclareQueue]
    ) -> None:
        self.bindings: set[BindingKey] = set()
        self.private: list[Binding] = []
        self.exchanges: set[str] = set()
        self.queues: set[str] = set()
        if vhost is None:
            return
        for exchange in vhost.exchanges.values():
            wanted = exchanges.get(exchange.name)
            if not is_declared(exchange) or (wanted is not None and _same_exchange(exchange, wanted)):
                self.exchanges.add(exchange.name)
        for queue in vhost.queues.values():
            wanted_queue = queues.get(queue.name)
            if queue.owner is None and wanted_queue is not None and _same_queue(queue, wanted_queue):
                self.queues.add(queue.name)

    def has(self, target: Target) -> bool:
        """Whether it stays; a private queue always does."""
        if isinstance(target, Queue):
            return target.owner is not None or target.name in self.queues
        return target.name in self.exchanges


def _same_exchange(exchange: Exchange, wanted: DeclareExchange) -> bool:
    return (
        exchange.type == wanted.type
        and exchange.durable is wanted.durable
        and exchange.auto_delete is wanted.auto_delete
        and exchange.internal is wanted.internal
        and _same_arguments(exchange.arguments, wanted.arguments)
    )


def _same_queue(queue: Queue, wanted: DeclareQueue) -> bool:
    return (
        queue.durable is wanted.durable
        and queue.auto_delete is wanted.auto_delete
        and _same_arguments(queue.arguments, wanted.arguments)
    )


def same_policy(one: PutPolicy, other: PutPolicy) -> bool:
    """Whether two policies of one name say the same."""
    try:
        return encode_canonical(one) == encode_canonical(msgspec.structs.replace(other, vhost=one.vhost))
    except ValueError:
        return one.policy == other.policy


def key_of(binding: Binding, packed: bytes) -> BindingKey:
    """What a binding is called by; `packed` are its arguments as its exchange keeps them."""
    return binding.source.name, isinstance(binding.target, Exchange), binding.target.name, binding.routing_key, packed


def _wanted_key(change: Bind) -> BindingKey:
    # As `binding_key` packs them.
    packed = encode_table(dict(sorted(change.arguments.items()))) if change.arguments else b""
    return change.source, change.to_exchange, change.destination, change.routing_key, packed


def is_declared(exchange: Exchange) -> bool:
    """Whether somebody made it; the others are there with their virtual host."""
    return exchange.name not in PREDECLARED


def is_shared(binding: Binding) -> bool:
    """Whether all brokers know it: private queues and what is bound to them are their own broker's."""
    return not isinstance(binding.target, Queue) or binding.target.owner is None


def _same_arguments(one: Table, other: Table) -> bool:
    """Whether they are equal in any order; other than Python, this tells 1 from True."""
    if not one or not other:
        return not one and not other
    try:
        return canonical_table(one) == canonical_table(other)
    except ValueError:
        return one == other
