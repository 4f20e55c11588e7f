"""What a change does to a broker, and whether it has been done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

from openclust.broker.model.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    KeepOnly,
    PutPermission,
    PutPolicy,
    PutUser,
    PutVhost,
    Unbind,
)

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost


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
