"""Changes to what all brokers of a cluster share: each a tagged struct, so that it can be logged and sent."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from openclust.broker.model.access import Permission, User
from openclust.broker.model.policy import Policy
from openclust.wire.table import Table


class _Change(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    """A change in one virtual host."""

    vhost: str


class PutVhost(_Change, frozen=True, kw_only=True):
    pass


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
    """The two ends of a binding, and what is between."""

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


class PutUser(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    user: User


class DeleteUser(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    name: str


class KeepOnly(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", tag=True):
    """Of all users and virtual hosts only these stay. From then on the changes say who the users are, and no file."""

    users: tuple[str, ...]
    vhosts: tuple[str, ...]


class PutPermission(_Change, frozen=True, kw_only=True):
    user: str
    permission: Permission


class DeletePermission(_Change, frozen=True, kw_only=True):
    user: str


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
)


class Counts(msgspec.Struct, frozen=True):
    """What a queue has; what declaring it tells."""

    messages: int
    consumers: int


def unconditional(change: Change) -> Change:
    """As other brokers are to perform it: whether it may be made is decided once."""
    match change:
        case DeleteQueue():
            return msgspec.structs.replace(change, if_unused=False, if_empty=False)
        case DeleteExchange():
            return msgspec.structs.replace(change, if_unused=False)
        case _:
            return change
