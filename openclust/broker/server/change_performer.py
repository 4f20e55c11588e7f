"""Performs a change on a broker, and tells whether the broker has it already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, assert_never

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
    from openclust.broker.model.access import Permission, User
    from openclust.broker.model.policy import Policy
    from openclust.broker.server.vhost import VirtualHost


class ChangedBroker(Protocol):
    """A broker whose users, policies and virtual hosts can be changed."""

    vhosts: dict[str, VirtualHost]
    users: dict[str, User]

    def vhost(self, name: str) -> VirtualHost: ...
    def put_vhost(self, name: str) -> VirtualHost: ...
    def delete_vhost(self, name: str) -> None: ...
    def put_user(self, user: User) -> None: ...
    def delete_user(self, name: str) -> None: ...
    def keep_only(self, users: Iterable[str], vhosts: Iterable[str]) -> None: ...
    def put_permission(self, user: str, vhost: str, permission: Permission) -> None: ...
    def delete_permission(self, user: str, vhost: str) -> None: ...
    def put_policy(self, policy: Policy, *, operator: bool = False) -> None: ...
    def delete_policy(self, vhost: str, name: str, *, operator: bool = False) -> None: ...


def holds(broker: ChangedBroker, change: Change) -> bool:
    """Whether the change would change nothing. Whether it is allowed is not checked."""
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


def perform(broker: ChangedBroker, change: Change) -> Any:
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
