"""The definitions that a broker is to have, and which of them it has already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from openclust.broker.model.change_codec import canonical_table, encode_canonical
from openclust.broker.model.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteGlobalParameter,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermissions,
    DeleteUser,
    DeleteVhost,
    KeepOnly,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
    Unbind,
)
from openclust.broker.parameters.parameters import LIMITS, VHOST_LIMITS, with_limit
from openclust.broker.queues.queue import Queue
from openclust.broker.routing.exchange import Binding, Exchange, Target
from openclust.broker.server.vhost import PREDECLARED
from openclust.wire.table import Table, encode_table

if TYPE_CHECKING:
    from openclust.broker.model.access import Permission
    from openclust.broker.server.vhost import VirtualHost

SharedBindingKey: TypeAlias = tuple[str, bool, str, str, bytes]
"""Source, whether to an exchange, destination, routing key, and the arguments as exchanges tell them apart."""
_End: TypeAlias = tuple[str, bool, str]
"""What a binding leads from or to: its virtual host, whether it is an exchange, and its name."""


class TargetState:
    """A state by what it is about, as changes build it: `add` them in their order, then take the `steps`.

    The changes may be those of a state that was taken while it changed, and then those that were made meanwhile: each
    holds, whether or not what came before it had it already.
    """

    def __init__(self) -> None:
        self.vhosts: dict[str, PutVhost] = {}
        self.users: dict[str, PutUser] = {}
        self.are_users_settled = False
        self.policies: dict[tuple[str, bool, str], PutPolicy] = {}
        self.parameters: dict[tuple[str, str, str], PutParameter] = {}
        self.global_parameters: dict[str, PutGlobalParameter] = {}
        self.exchanges: dict[str, dict[str, DeclareExchange]] = {}
        self.queues: dict[str, dict[str, DeclareQueue]] = {}
        self.bindings: dict[str, dict[SharedBindingKey, Bind]] = {}
        self.unfit: list[tuple[Change, str]] = []
        # When what bindings may lead from and to was deleted, and when bindings were made after the first deletion.
        self._count = 0
        self._deleted: dict[_End, int] = {}
        self._bound: dict[tuple[str, SharedBindingKey], int] = {}

    def add(self, change: Change) -> None:
        self._count += 1
        match change:
            case DeclareQueue():
                self.queues.setdefault(change.vhost, {})[change.name] = change
            case Bind() | Unbind():
                self._bind(change)
            case DeclareExchange():
                self.exchanges.setdefault(change.vhost, {})[change.name] = change
            case DeleteQueue():
                self.queues.get(change.vhost, {}).pop(change.name, None)
                self._deleted[change.vhost, False, change.name] = self._count
            case DeleteExchange():
                self.exchanges.get(change.vhost, {}).pop(change.name, None)
                self._deleted[change.vhost, True, change.name] = self._count
            case PutPolicy():
                self.policies[change.policy.vhost, change.operator, change.policy.name] = change
            case DeletePolicy():
                self.policies.pop((change.vhost, change.operator, change.name), None)
            case PutVhost():
                if change.metadata or change.vhost not in self.vhosts:
                    self.vhosts[change.vhost] = change
            case DeleteVhost():
                self._delete_vhost(change.vhost)
            case PutUser():
                self.users[change.user.name] = change
            case DeleteUser():
                self.users.pop(change.name, None)
            case PutPermission():
                self._permit(change.user, change.vhost, change.permission)
            case DeletePermission():
                self._permit(change.user, change.vhost, None)
            case PutTopicPermission():
                self._permit_topic(change)
            case DeleteTopicPermissions():
                self._forbid_topics(change.user, change.vhost)
            case PutUserLimit():
                self._limit_user(change)
            case PutVhostLimit():
                self._limit_vhost(change)
            case PutParameter():
                self.parameters[change.vhost, change.component, change.name] = change
            case DeleteParameter():
                self.parameters.pop((change.vhost, change.component, change.name), None)
            case PutGlobalParameter():
                self.global_parameters[change.name] = change
            case DeleteGlobalParameter():
                self.global_parameters.pop(change.name, None)
            case KeepOnly():
                self._keep_only(change)

    def _bind(self, change: Bind | Unbind) -> None:
        try:
            key = _wanted_key(change)
        except ValueError as error:
            self.unfit.append((change, str(error)))
            return
        bindings = self.bindings.setdefault(change.vhost, {})
        if isinstance(change, Unbind):
            bindings.pop(key, None)
            return
        bindings[key] = change
        if self._deleted:
            self._bound[change.vhost, key] = self._count

    def _delete_vhost(self, name: str) -> None:
        self.vhosts.pop(name, None)
        for table in (self.exchanges, self.queues, self.bindings):
            table.pop(name, None)
        self.policies = {key: each for key, each in self.policies.items() if key[0] != name}
        self.parameters = {key: each for key, each in self.parameters.items() if key[0] != name}
        for user, change in self.users.items():
            if name in change.user.permissions:
                self.users[user] = _permitted(change, name, None)
            self._forbid_topics(user, name)

    def _keep_only(self, change: KeepOnly) -> None:
        self.are_users_settled = True
        kept = set(change.users)
        self.users = {name: each for name, each in self.users.items() if name in kept}
        for vhost in self.vhosts.keys() - set(change.vhosts):
            self._delete_vhost(vhost)

    def _permit(self, name: str, vhost: str, permission: Permission | None) -> None:
        user = self.users.get(name)
        # There was one when the root made the change: where users were listed only later, it had gone by then.
        if user is not None:
            self.users[name] = _permitted(user, vhost, permission)

    def _permit_topic(self, change: PutTopicPermission) -> None:
        there = self.users.get(change.user)
        if there is not None:
            user = there.user.copy()
            user.topic_permissions.setdefault(change.vhost, {})[change.exchange] = change.permission
            self.users[change.user] = PutUser(user=user)

    def _forbid_topics(self, name: str, vhost: str) -> None:
        there = self.users.get(name)
        if there is not None and vhost in there.user.topic_permissions:
            user = there.user.copy()
            del user.topic_permissions[vhost]
            self.users[name] = PutUser(user=user)

    def _limit_user(self, change: PutUserLimit) -> None:
        there = self.users.get(change.user)
        if there is not None:
            user = there.user.copy()
            user.limits.pop(change.name, None)
            if change.value is not None:
                user.limits[change.name] = change.value
            self.users[change.user] = PutUser(user=user)

    def _limit_vhost(self, change: PutVhostLimit) -> None:
        key = change.vhost, VHOST_LIMITS, LIMITS
        before = self.parameters.pop(key, None)
        after = with_limit(before.value if before is not None else None, change.name, change.value)
        if after:
            self.parameters[key] = PutParameter(vhost=change.vhost, component=VHOST_LIMITS, name=LIMITS, value=after)

    def steps(self) -> Iterator[None]:
        """When all is added: bindings go that went with what they led from or to. Each step is a short one."""
        if not self._deleted:
            return
        for vhost, bindings in self.bindings.items():
            lost = []
            for key in bindings:
                yield
                source, to_exchange, destination, _, _ = key
                bound = self._bound.get((vhost, key), 0)
                ends = (vhost, True, source), (vhost, to_exchange, destination)
                if any(self._deleted.get(end, 0) > bound for end in ends):
                    lost.append(key)
            for key in lost:
                del bindings[key]


def _permitted(change: PutUser, vhost: str, permission: Permission | None) -> PutUser:
    """The same user with another permission there, or none."""
    permissions = {name: each for name, each in change.user.permissions.items() if name != vhost}
    if permission is not None:
        permissions[vhost] = permission
    return PutUser(user=msgspec.structs.replace(change.user, permissions=permissions))


class UnchangedDefinitions:
    """What of one virtual host stays as it is; complete when the `steps` are taken. Each step is a short one."""

    def __init__(self) -> None:
        self.bindings: set[SharedBindingKey] = set()
        self.exchanges: set[str] = set()
        self.queues: set[str] = set()

    def steps(
        self, vhost: VirtualHost, exchanges: dict[str, DeclareExchange], queues: dict[str, DeclareQueue]
    ) -> Iterator[None]:
        for exchange in list(vhost.exchanges.values()):
            yield
            wanted = exchanges.get(exchange.name)
            if not is_declared(exchange) or (wanted is not None and _same_exchange(exchange, wanted)):
                self.exchanges.add(exchange.name)
        for queue in list(vhost.queues.values()):
            yield
            wanted_queue = queues.get(queue.name)
            if queue.owner is None and wanted_queue is not None and _same_queue(queue, wanted_queue):
                self.queues.add(queue.name)

    def has(self, target: Target) -> bool:
        """Whether it stays; a private queue always does."""
        return target.is_private or target.name in (self.exchanges if target.is_exchange else self.queues)


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
    """Whether two policies of one name are equal."""
    try:
        return encode_canonical(one) == encode_canonical(msgspec.structs.replace(other, vhost=one.vhost))
    except ValueError:
        return one.policy == other.policy


def key_of(binding: Binding, packed: bytes) -> SharedBindingKey:
    """What a binding is called by; `packed` are its arguments as its exchange keeps them."""
    return binding.source.name, binding.target.is_exchange, binding.target.name, binding.routing_key, packed


def _wanted_key(change: Bind | Unbind) -> SharedBindingKey:
    # As `binding_key` packs them.
    packed = encode_table(dict(sorted(change.arguments.items()))) if change.arguments else b""
    return change.source, change.to_exchange, change.destination, change.routing_key, packed


def is_declared(exchange: Exchange) -> bool:
    """Whether somebody declared the exchange; the others come with their virtual host."""
    return exchange.name not in PREDECLARED


def is_shared(binding: Binding) -> bool:
    """Whether all brokers know it: private queues and what is bound to them are their own broker's."""
    return not binding.target.is_private


def _same_arguments(one: Table, other: Table) -> bool:
    """Whether they are equal in any order; other than Python, this tells 1 from True."""
    if not one or not other:
        return not one and not other
    try:
        return canonical_table(one) == canonical_table(other)
    except ValueError:
        return one == other
