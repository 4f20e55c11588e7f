"""Turns a definitions document into changes, and checks all of them before the first is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from openclust.broker.definitions.document import (
    BindingEntry,
    ExchangeEntry,
    GlobalParameterEntry,
    ParameterEntry,
    PermissionEntry,
    PolicyEntry,
    QueueEntry,
    Reader,
    TopicPermissionEntry,
    UserEntry,
    VhostEntry,
    as_table,
    place,
)
from openclust.broker.definitions.rules import (
    check_name,
    check_policy,
    check_short,
    checked_arguments,
    permission_of,
    topic_permission_of,
    vhost_metadata,
)
from openclust.broker.model.access import User
from openclust.broker.model.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutTopicPermission,
    PutUser,
    PutVhost,
)
from openclust.broker.model.field_type import type_name, value_text
from openclust.broker.model.password_hash import RABBIT_DEFAULT, from_rabbit
from openclust.broker.model.policy import ApplyTo, Policy, ignored_keys
from openclust.broker.model.queue_arguments import check_properties, parse_queue_args
from openclust.broker.parameters.parameters import (
    COMPONENTS,
    LIMITS,
    USER_LIMIT_NAMES,
    VHOST_LIMITS,
    check_limit,
    check_parameter,
)
from openclust.broker.routing.exchange import TYPES, binding_key
from openclust.broker.routing.headers import HeadersMatcher
from openclust.broker.server.vhost import PREDECLARED
from openclust.wire.errors import AmqpError
from openclust.wire.table import encode_table

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost

OPERATOR_POLICY = "operator_policy"
_CLUSTER_ID = "internal_cluster_id"
"""The global parameter by which a RabbitMQ cluster is told from others: that of another one means nothing here."""

_DESCRIBES = ("description", "tags", "default_queue_type", "tracing")
"""What is kept of a virtual host beside its name."""

Step: TypeAlias = "tuple[str, Change]"
"""A place in the document, and the change for it."""


class Planner:
    """Iterate `plan` to its end; it changes nothing. Then `steps` are the changes for all entries without a problem.

    An entry that needs one with a problem has a problem too: for example, a binding to a queue that is refused.
    With `takes_what_has_room` a document that would pass a limit is accepted, and the broker refuses what is too much.
    """

    def __init__(self, broker: Broker, document: Mapping[str, Any], *, takes_what_has_room: bool = False) -> None:
        self.broker = broker
        self._takes_what_has_room = takes_what_has_room
        self.reader = Reader(document)
        self.steps: list[Step] = []
        self.unchanged = 0
        self._seen: dict[tuple[Any, ...], tuple[str, Change]] = {}
        self._where = ""
        self._vhosts = set(broker.vhosts)
        self._users = set(broker.users)
        self._exchange_types: dict[tuple[str, str], str] = {}
        self._queues: set[tuple[str, str]] = set()
        self._new = {"exchanges": 0, "queues": 0, "bindings": 0}

    def plan(self) -> Iterator[str]:
        """Check one entry after the other, and yield its place, so that the caller can stop in between."""
        for index, user in self.reader.entries("users", UserEntry):
            yield self._at(place("users", index, user.name), self._user, user)
        for index, vhost in self.reader.entries("vhosts", VhostEntry):
            yield self._at(place("vhosts", index, vhost.name), self._vhost, vhost)
        for index, permission in self.reader.entries("permissions", PermissionEntry):
            where = place("permissions", index, permission.user, permission.vhost)
            yield self._at(where, self._permission, permission)
        for index, topic in self.reader.entries("topic_permissions", TopicPermissionEntry):
            where = place("topic_permissions", index, topic.user, topic.vhost)
            yield self._at(where, self._topic_permission, topic)
        for index, policy in self.reader.entries("policies", PolicyEntry):
            yield self._at(place("policies", index, policy.name, policy.vhost), self._policy, policy)
        for index, parameter in self.reader.entries("parameters", ParameterEntry):
            yield self._at(place("parameters", index, parameter.name, parameter.vhost), self._parameter, parameter)
        for index, global_parameter in self.reader.entries("global_parameters", GlobalParameterEntry):
            where = place("global_parameters", index, global_parameter.name)
            yield self._at(where, self._global_parameter, global_parameter)
        for index, exchange in self.reader.entries("exchanges", ExchangeEntry):
            yield self._at(place("exchanges", index, exchange.name, exchange.vhost), self._exchange, exchange)
        for index, queue in self.reader.entries("queues", QueueEntry):
            yield self._at(place("queues", index, queue.name, queue.vhost), self._queue, queue)
        for index, binding in self.reader.entries("bindings", BindingEntry):
            yield self._at(place("bindings", index, _arrow(binding), binding.vhost), self._binding, binding)
        if not self._takes_what_has_room:
            self._check_room()

    def _at(self, where: str, check: Callable[[Any], None], entry: Any) -> str:
        """Check one entry: a ValueError or AmqpError is a problem at this place."""
        self._where = where
        try:
            check(entry)
        except (ValueError, AmqpError) as error:
            text = error.text if isinstance(error, AmqpError) else str(error)
            self.reader.problems.add(where, _without_place(text, entry))
        return where

    def _ignore(self, text: str) -> None:
        self.reader.ignored.add(self._where, text)

    def _add(self, identity: tuple[Any, ...], change: Change, *, holds: bool) -> bool:
        """Plan a change, unless it `holds` already or the document has it twice. Returns whether it was planned."""
        before = self._seen.get(identity)
        if before is not None:
            if before[1] != change:
                raise ValueError(f"is there twice, and differs from {before[0]}")
            return False
        self._seen[identity] = (self._where, change)
        if holds:
            self.unchanged += 1
            return False
        self.steps.append((self._where, change))
        return True

    # -- users, virtual hosts, permissions

    def _user(self, entry: UserEntry) -> None:
        check_name(entry.name, "a user's name")
        if entry.password is not None:
            raise ValueError("a password in plain text is not taken; give password_hash (see: openclust users hash)")
        limits = dict(entry.limits)
        for limit, value in limits.items():
            check_limit(limit, value, USER_LIMIT_NAMES)
        try:
            password_hash = from_rabbit(entry.password_hash, entry.hashing_algorithm or RABBIT_DEFAULT)
        except ValueError as error:
            raise ValueError(f"password_hash: {error}") from None
        tags = entry.tags.split(",") if isinstance(entry.tags, str) else entry.tags  # RabbitMQ before 3.9 wrote "a,b"
        existing = self.broker.users.get(entry.name)
        user = User(
            name=entry.name,
            password_hash=password_hash,
            type=entry.type,
            tags=tuple(tag.strip() for tag in tags if tag.strip()),
            limits=limits,
        )
        if existing is not None:
            there = existing.copy()
            user.permissions, user.topic_permissions = there.permissions, there.topic_permissions
        self._users.add(entry.name)
        self._add(("user", entry.name), PutUser(user=user), holds=user == existing)

    def _vhost(self, entry: VhostEntry) -> None:
        check_name(entry.name, "the name of a virtual host")
        plain = {key: getattr(entry, key) for key in _DESCRIBES}
        told = entry.metadata | {key: value for key, value in plain.items() if value is not None}
        unknown = sorted(told.keys() - set(_DESCRIBES))
        if unknown:
            self._ignore(f"{', '.join(unknown)} of a virtual host: not supported")
        there = self.broker.vhosts.get(entry.name)
        before = there.metadata if there is not None else {}
        described = {key: value for key, value in told.items() if key in _DESCRIBES}
        metadata = vhost_metadata({key: value for key, value in described.items() if value or key in before}, before)
        self._vhosts.add(entry.name)
        holds = there is not None and metadata == before
        self._add(("vhost", entry.name), PutVhost(vhost=entry.name, metadata=metadata), holds=holds)
        if entry.limits:
            self._component_parameter(entry.name, VHOST_LIMITS, LIMITS, dict(entry.limits))

    def _permission(self, entry: PermissionEntry) -> None:
        self._demand_vhost(entry.vhost)
        self._demand_user(entry.user)
        permission = permission_of(entry.configure, entry.write, entry.read)
        existing = self.broker.users.get(entry.user)
        holds = existing is not None and existing.permissions.get(entry.vhost) == permission
        change = PutPermission(vhost=entry.vhost, user=entry.user, permission=permission)
        self._add(("permission", entry.vhost, entry.user), change, holds=holds)

    def _topic_permission(self, entry: TopicPermissionEntry) -> None:
        self._demand_vhost(entry.vhost)
        self._demand_user(entry.user)
        check_short(entry.exchange, "the name of an exchange")
        permission = topic_permission_of(entry.write, entry.read)
        user = self.broker.users.get(entry.user)
        there = user.topic_permissions.get(entry.vhost, {}) if user is not None else {}
        change = PutTopicPermission(vhost=entry.vhost, user=entry.user, exchange=entry.exchange, permission=permission)
        identity = ("topic permission", entry.vhost, entry.user, entry.exchange)
        self._add(identity, change, holds=there.get(entry.exchange) == permission)

    # -- policies and parameters

    def _policy(self, entry: PolicyEntry, *, operator: bool = False) -> None:
        self._demand_vhost(entry.vhost)
        if entry.apply_to == "streams":
            self._ignore("applies to streams, of which there are none here")
            return
        policy = Policy(
            vhost=entry.vhost,
            name=entry.name,
            pattern=entry.pattern,
            definition=as_table(entry.definition),
            apply_to=cast(ApplyTo, entry.apply_to),
            priority=entry.priority,
        )
        check_policy(policy, operator=operator)
        if keys := ignored_keys(policy.definition):
            self._ignore(f"{', '.join(keys)}: taken, and without effect here")
        holds = policy in self.broker.policies.list(entry.vhost, operator=operator)
        change = PutPolicy(vhost=entry.vhost, policy=policy, operator=operator)
        self._add(("policy", operator, entry.vhost, entry.name), change, holds=holds)

    def _parameter(self, entry: ParameterEntry) -> None:
        if entry.component in COMPONENTS:
            self._demand_vhost(entry.vhost)
            check_name(entry.name, "the name of a parameter")
            value = dict(entry.value) if _is_pairs(entry.value) else entry.value
            self._component_parameter(entry.vhost, entry.component, entry.name, value)
            return
        if entry.component != OPERATOR_POLICY:
            self._ignore(f"parameters of the component '{value_text(entry.component)}' are not supported")
            return
        if not isinstance(entry.value, dict):
            raise ValueError("the value of an operator policy is an object")
        value = {**entry.value, "vhost": entry.vhost, "name": entry.name}
        read = self.reader.convert(value, PolicyEntry, self._where)
        if read is not None:
            self._policy(read, operator=True)

    def _component_parameter(self, vhost: str, component: str, name: str, value: Any) -> None:
        check_parameter(component, name, value)
        text = msgspec.json.encode(value, order="sorted").decode()
        change = PutParameter(vhost=vhost, component=component, name=name, value=text)
        there = self.broker.parameters.get(vhost, component, name)
        holds = there is not None and msgspec.json.decode(there) == value
        self._add(("parameter", vhost, component, name), change, holds=holds)

    def _global_parameter(self, entry: GlobalParameterEntry) -> None:
        if entry.name == _CLUSTER_ID:
            return
        check_name(entry.name, "the name of a parameter")
        text = msgspec.json.encode(entry.value, order="sorted").decode()
        there = self.broker.parameters.global_values.get(entry.name)
        holds = there is not None and msgspec.json.decode(there) == entry.value
        self._add(("global parameter", entry.name), PutGlobalParameter(name=entry.name, value=text), holds=holds)

    # -- exchanges, queues, bindings

    def _exchange(self, entry: ExchangeEntry) -> None:
        vhost = self._demand_vhost(entry.vhost)
        check_name(entry.name, "the name of an exchange")
        if entry.type not in TYPES:
            raise ValueError(f"unknown exchange type '{value_text(entry.type)}' (there are {', '.join(TYPES)})")
        exists = vhost is not None and entry.name in vhost.exchanges
        if entry.name.startswith("amq.") and not exists:
            raise ValueError("the names of exchanges that begin with amq. are the broker's own")
        arguments = checked_arguments(as_table(entry.arguments))
        alternate = arguments.get("alternate-exchange", "")
        if not isinstance(alternate, str):
            raise ValueError(f"invalid arg 'alternate-exchange': a name is wanted, not {type_name(alternate)}")
        self._exchange_types[entry.vhost, entry.name] = entry.type
        change = DeclareExchange(
            vhost=entry.vhost,
            name=entry.name,
            type=entry.type,
            durable=entry.durable,
            auto_delete=entry.auto_delete,
            internal=entry.internal,
            arguments=arguments,
        )
        if exists and vhost is not None:
            vhost.declare_exchange(change)  # changes nothing, and refuses what differs
        if self._add(("exchange", entry.vhost, entry.name), change, holds=exists):
            self._new["exchanges"] += 1

    def _queue(self, entry: QueueEntry) -> None:
        vhost = self._demand_vhost(entry.vhost)
        check_name(entry.name, "the name of a queue")
        arguments = checked_arguments(as_table(entry.arguments))
        if entry.type not in (None, "classic"):
            arguments.setdefault("x-queue-type", entry.type)
        args = parse_queue_args(arguments, queue=entry.name, vhost=entry.vhost)
        check_properties(
            args,
            queue=entry.name,
            vhost=entry.vhost,
            durable=entry.durable,
            exclusive=False,
            auto_delete=entry.auto_delete,
        )
        self._queues.add((entry.vhost, entry.name))
        change = DeclareQueue(
            vhost=entry.vhost,
            name=entry.name,
            durable=entry.durable,
            auto_delete=entry.auto_delete,
            arguments=arguments,
        )
        exists = vhost is not None and entry.name in vhost.queues
        if exists and vhost is not None:
            vhost.declare_queue(change, None)  # changes nothing, and refuses what differs
        if self._add(("queue", entry.vhost, entry.name), change, holds=exists):
            self._new["queues"] += 1

    def _binding(self, entry: BindingEntry) -> None:
        self._demand_vhost(entry.vhost)
        to_exchange = entry.destination_type == "exchange"
        if not entry.source or (to_exchange and not entry.destination):
            raise ValueError("the default exchange is bound to every queue by itself, and to nothing else")
        type = self._type_of(entry.vhost, entry.source)
        if to_exchange:
            self._type_of(entry.vhost, entry.destination)
        elif (entry.vhost, entry.destination) not in self._queues and not self._has_queue(entry):
            raise _missing("queue", entry.destination)
        check_short(entry.routing_key, "the routing key")
        arguments = checked_arguments(as_table(entry.arguments))
        if type == "headers":
            HeadersMatcher(arguments)
        change = Bind(
            vhost=entry.vhost,
            source=entry.source,
            destination=entry.destination,
            to_exchange=to_exchange,
            routing_key=entry.routing_key,
            arguments=arguments,
        )
        key = encode_table(dict(sorted(arguments.items())))
        identity = ("binding", entry.vhost, entry.source, to_exchange, entry.destination, entry.routing_key, key)
        if identity in self._seen:
            return
        if self._add(identity, change, holds=self._is_bound(change)):
            self._new["bindings"] += 1

    def _type_of(self, vhost: str, name: str) -> str:
        known = self._exchange_types.get((vhost, name))
        if known is not None:
            return known
        there = self.broker.vhosts.get(vhost)
        if there is not None and name in there.exchanges:
            return there.exchanges[name].type
        if there is None and name in PREDECLARED:
            return PREDECLARED[name]  # of a virtual host that is yet to be made
        raise _missing("exchange", name)

    def _has_queue(self, entry: BindingEntry) -> bool:
        vhost = self.broker.vhosts.get(entry.vhost)
        queue = vhost.queues.get(entry.destination) if vhost is not None else None
        return queue is not None and queue.owner is None

    def _is_bound(self, change: Bind) -> bool:
        vhost = self.broker.vhosts.get(change.vhost)
        if vhost is None or change.source not in vhost.exchanges:
            return False
        target = (vhost.exchanges if change.to_exchange else vhost.queues).get(change.destination)
        if target is None:
            return False
        key = binding_key(target, change.routing_key, change.arguments)
        return key in vhost.exchanges[change.source].bindings

    # -- checks across entries

    def _demand_user(self, name: str) -> None:
        if name not in self._users:
            raise ValueError(f"no user '{value_text(name)}', neither in the document nor in the broker")

    def _demand_vhost(self, name: str) -> VirtualHost | None:
        """The virtual host; None if the document will make it."""
        if name not in self._vhosts:
            raise ValueError(f"no vhost '{value_text(name)}', neither in the document nor in the broker")
        return self.broker.vhosts.get(name)

    def _check_room(self) -> None:
        limits = self.broker.limits
        most = {
            "queues": (limits.queues_max, self.broker.queue_count),
            "bindings": (limits.bindings_max, self.broker.binding_count),
        }
        for kind, (maximum, there) in most.items():
            if there + self._new[kind] > maximum:
                text = f"{self._new[kind]} more than the {there} there are would pass limits.{kind}_max ({maximum})"
                self.reader.problems.add(kind, text)


def _is_pairs(value: Any) -> bool:
    """Whether it is a mapping as `rabbitmqctl export_definitions` of RabbitMQ 3.10 writes it."""
    return isinstance(value, list) and all(isinstance(each, list) and len(each) == 2 for each in value)


def _missing(kind: str, name: str) -> ValueError:
    hint = "; rabbitmqctl export_definitions of RabbitMQ leaves internal exchanges out" if kind == "exchange" else ""
    return ValueError(f"no {kind} '{value_text(name)}', neither in the document nor in the broker{hint}")


def _arrow(entry: BindingEntry) -> str:
    return f"{entry.source} -> {entry.destination}"


def _without_place(text: str, entry: Any) -> str:
    """The text of a broker's error without the name of the queue or exchange, which the place in the document has."""
    for kind, type in (("queue", QueueEntry), ("exchange", ExchangeEntry)):
        if isinstance(entry, type):
            text = text.replace(f" for {kind} '{value_text(entry.name)}' in vhost '{value_text(entry.vhost)}'", "", 1)
    return " ".join(text.split())
