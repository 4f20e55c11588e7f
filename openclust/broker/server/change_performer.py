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

if TYPE_CHECKING:
    from openclust.broker.model.access import Permission, TopicPermission, User
    from openclust.broker.model.policy import Policy
    from openclust.broker.server.vhost import VirtualHost
    from openclust.wire.table import Table


class ChangedBroker(Protocol):
    """A broker whose users, policies and virtual hosts can be changed."""

    vhosts: dict[str, VirtualHost]
    users: dict[str, User]

    def vhost(self, name: str) -> VirtualHost: ...
    def put_vhost(self, name: str, metadata: Table = ...) -> VirtualHost: ...
    def delete_vhost(self, name: str) -> None: ...
    def put_user(self, user: User) -> None: ...
    def delete_user(self, name: str) -> None: ...
    def keep_only(self, users: Iterable[str], vhosts: Iterable[str]) -> None: ...
    def put_permission(self, user: str, vhost: str, permission: Permission) -> None: ...
    def delete_permission(self, user: str, vhost: str) -> None: ...
    def put_topic_permission(self, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None: ...
    def delete_topic_permissions(self, user: str, vhost: str) -> None: ...
    def put_user_limit(self, user: str, name: str, value: int | None) -> None: ...
    def put_vhost_limit(self, vhost: str, name: str, value: int | None) -> None: ...
    def put_parameter(self, vhost: str, component: str, name: str, value: str) -> None: ...
    def delete_parameter(self, vhost: str, component: str, name: str) -> None: ...
    def put_global_parameter(self, name: str, value: str) -> None: ...
    def delete_global_parameter(self, name: str) -> None: ...
    def put_policy(self, policy: Policy, *, operator: bool = False) -> None: ...
    def delete_policy(self, vhost: str, name: str, *, operator: bool = False) -> None: ...


def holds(broker: ChangedBroker, change: Change) -> bool:
    """Whether the change would change nothing. Whether it is allowed is not checked."""
    match change:
        case PutVhost():
            vhost = broker.vhosts.get(change.vhost)
            return vhost is not None and (not change.metadata or change.metadata == vhost.metadata)
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


def demand_room(broker: ChangedBroker, change: Change) -> None:
    """Raise ChannelError where a limit of a virtual host forbids the change. Who follows a decision does not ask."""
    if isinstance(change, DeclareQueue):
        vhost = broker.vhosts.get(change.vhost)
        if vhost is not None:
            vhost.demand_room_for_queue(change.name)


def perform(broker: ChangedBroker, change: Change) -> Any:
    """Make the change here and now; raises ChannelError where it cannot be made."""
    match change:
        case PutVhost():
            return broker.put_vhost(change.vhost, change.metadata)
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
        case PutTopicPermission():
            return broker.put_topic_permission(change.user, change.vhost, change.exchange, change.permission)
        case DeleteTopicPermissions():
            return broker.delete_topic_permissions(change.user, change.vhost)
        case PutUserLimit():
            return broker.put_user_limit(change.user, change.name, change.value)
        case PutVhostLimit():
            return broker.put_vhost_limit(change.vhost, change.name, change.value)
        case PutParameter():
            return broker.put_parameter(change.vhost, change.component, change.name, change.value)
        case DeleteParameter():
            return broker.delete_parameter(change.vhost, change.component, change.name)
        case PutGlobalParameter():
            return broker.put_global_parameter(change.name, change.value)
        case DeleteGlobalParameter():
            return broker.delete_global_parameter(change.name)
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
