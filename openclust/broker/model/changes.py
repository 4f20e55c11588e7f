"""Changes to what all brokers of a cluster share: each a tagged struct, so that it can be logged and sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import msgspec

from openclust.broker.model.access import Permission, User
from openclust.broker.model.policy import Policy
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost


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


def holds(broker: Broker, change: Change) -> bool:
    """Whether the change would change nothing, if it is allowed at all."""
    match change:
        case PutVhost():
            return change.vhost in broker.vhosts
        case PutUser():
            return broker.users.get(change.user.name) == change.user
        case DeclareExchange() | DeleteExchange() | DeclareQueue() | DeleteQueue() | Bind() | Unbind():
            vhost = broker.vhosts.get(change.vhost)
            return vhost is not None and _holds_in(vhost, change)
        case _:
            return False


def _holds_in(
    vhost: VirtualHost, change: DeclareExchange | DeleteExchange | DeclareQueue | DeleteQueue | Bind | Unbind
) -> bool:
    match change:
        case DeclareExchange():
            return change.name in vhost.exchanges
        case DeleteExchange():
            return change.name not in vhost.exchanges
        case DeclareQueue():
            return change.name in vhost.queues
        case DeleteQueue():
            return change.name not in vhost.queues
        case Bind() | Unbind():
            return vhost.is_bound(change) is isinstance(change, Bind)


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


def perform(broker: Broker, change: Change) -> Any:
    """Make the change here and now; raises ChannelError where it cannot be made."""
    match change:
        case PutVhost():
            return broker.put_vhost(change.vhost)
        case DeleteVhost():
            return broker.delete_vhost(change.vhost)
        case PutUser():
            return broker.put_user(change.user)
        case DeleteUser():
            return broker.delete_user(change.name)
        case KeepOnly():
            return broker.keep_only(change.users, change.vhosts)
        case PutPermission():
            return broker.put_permission(change.user, change.vhost, change.permission)
        case DeletePermission():
            return broker.delete_permission(change.user, change.vhost)
        case PutPolicy():
            return broker.put_policy(change.policy, operator=change.operator)
        case DeletePolicy():
            return broker.delete_policy(change.vhost, change.name, operator=change.operator)
    vhost = broker.vhost(change.vhost)
    match change:
        case DeclareExchange():
            return vhost.declare_exchange(change)
        case DeleteExchange():
            return vhost.delete_exchange(change.name, if_unused=change.if_unused)
        case DeclareQueue():
            return vhost.declare_queue(change, None)
        case DeleteQueue():
            return vhost.delete_queue(change.name, if_unused=change.if_unused, if_empty=change.if_empty)
        case Bind():
            return vhost.bind(change)
        case Unbind():
            return vhost.unbind(change)
        case _:
            assert_never(change)
