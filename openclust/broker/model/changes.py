"""Changes to the definitions that all brokers of a cluster share. Each is a struct that can be logged and sent."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from openclust.broker.model.access import Permission, TopicPermission, User
from openclust.broker.model.policy import Policy
from openclust.wire.table import Table


class _Tagged(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    """A change; encoded, its field `change` has the name of its class."""


class _Change(_Tagged, frozen=True, kw_only=True):
    """A change in one virtual host."""

    vhost: str


class PutVhost(_Change, frozen=True, kw_only=True):
    """`metadata` replaces what is told of the virtual host; where it is empty, that stays as it is."""

    metadata: Table = {}


class DeleteVhost(_Change, frozen=True, kw_only=True):
    pass


class DeclareExchange(_Change, frozen=True, kw_only=True):
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table = {}


class DeleteExchange(_Change, frozen=True, kw_only=True):
    name: str
    if_unused: bool = False


class DeclareQueue(_Change, frozen=True, kw_only=True):
    name: str
    durable: bool = True
    auto_delete: bool = False
    arguments: Table = {}


class DeleteQueue(_Change, frozen=True, kw_only=True):
    name: str
    if_unused: bool = False
    if_empty: bool = False


class _Binding(_Change, frozen=True, kw_only=True):
    """A binding: its two ends, routing key and arguments."""

    source: str
    destination: str
    to_exchange: bool = False
    routing_key: str = ""
    arguments: Table = {}


class Bind(_Binding, frozen=True, kw_only=True):
    pass


class Unbind(_Binding, frozen=True, kw_only=True):
    pass


class PutPolicy(_Change, frozen=True, kw_only=True):
    policy: Policy
    operator: bool = False


class DeletePolicy(_Change, frozen=True, kw_only=True):
    name: str
    operator: bool = False


class PutUser(_Tagged, frozen=True, kw_only=True):
    user: User


class DeleteUser(_Tagged, frozen=True, kw_only=True):
    name: str


class KeepOnly(_Tagged, frozen=True, kw_only=True):
    """Delete all other users and virtual hosts. From then on changes say who the users are, not the users file."""

    users: tuple[str, ...]
    vhosts: tuple[str, ...]


class PutPermission(_Change, frozen=True, kw_only=True):
    user: str
    permission: Permission


class DeletePermission(_Change, frozen=True, kw_only=True):
    user: str


class PutTopicPermission(_Change, frozen=True, kw_only=True):
    user: str
    exchange: str
    permission: TopicPermission


class DeleteTopicPermissions(_Change, frozen=True, kw_only=True):
    """Those for all exchanges of the virtual host."""

    user: str


class PutUserLimit(_Tagged, frozen=True, kw_only=True):
    """Without a `value` the limit goes."""

    user: str
    name: str
    value: int | None


class PutVhostLimit(_Change, frozen=True, kw_only=True):
    """One of the limits in the parameter `limits` of the component `vhost-limits`; without a `value` it goes."""

    name: str
    value: int | None


class PutParameter(_Change, frozen=True, kw_only=True):
    """`value` is JSON."""

    component: str
    name: str
    value: str


class DeleteParameter(_Change, frozen=True, kw_only=True):
    component: str
    name: str


class PutGlobalParameter(_Tagged, frozen=True, kw_only=True):
    """`value` is JSON."""

    name: str
    value: str


class DeleteGlobalParameter(_Tagged, frozen=True, kw_only=True):
    name: str


Change: TypeAlias = (
    PutVhost
    | DeleteVhost
    | DeclareExchange
    | DeleteExchange
    | DeclareQueue
    | DeleteQueue
    | Bind
    | Unbind
    | PutPolicy
    | DeletePolicy
    | PutUser
    | DeleteUser
    | KeepOnly
    | PutPermission
    | DeletePermission
    | PutTopicPermission
    | DeleteTopicPermissions
    | PutUserLimit
    | PutVhostLimit
    | PutParameter
    | DeleteParameter
    | PutGlobalParameter
    | DeleteGlobalParameter
)


class Counts(msgspec.Struct, frozen=True):
    """How many messages and consumers a queue has, as queue.declare-ok says."""

    messages: int
    consumers: int


def unconditional(change: Change) -> Change:
    """The change as other brokers perform it: its conditions are only checked on the root."""
    match change:
        case DeleteQueue():
            return msgspec.structs.replace(change, if_unused=False, if_empty=False)
        case DeleteExchange():
            return msgspec.structs.replace(change, if_unused=False)
        case _:
            return change
