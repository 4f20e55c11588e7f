"""Users, their types, and their permissions in each virtual host."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import msgspec

UserType = Literal["normal", "console", "cluster"]


class Permission(msgspec.Struct, frozen=True):
    """Three patterns over resource names, with RabbitMQ's meaning; the default matches nothing but the empty name."""

    configure: str = "^$"
    write: str = "^$"
    read: str = "^$"


class TopicPermission(msgspec.Struct, frozen=True):
    """Patterns over routing keys: what may be published to a topic exchange, and bound to it."""

    write: str = "^$"
    read: str = "^$"


class User(msgspec.Struct, kw_only=True):
    """A user. `password_hash` is empty for a user who can only log in with a client certificate.

    `topic_permissions` are by virtual host and exchange; an exchange without one takes all keys.
    """

    name: str
    password_hash: str = ""
    type: UserType = "normal"
    tags: tuple[str, ...] = ()
    permissions: dict[str, Permission] = {}
    topic_permissions: dict[str, dict[str, TopicPermission]] = {}
    limits: dict[str, int] = {}

    def copy(self) -> User:
        """A copy with permissions and limits of its own."""
        return msgspec.structs.replace(
            self,
            permissions=dict(self.permissions),
            topic_permissions={vhost: dict(exchanges) for vhost, exchanges in self.topic_permissions.items()},
            limits=dict(self.limits),
        )

    def may(self, action: Literal["configure", "write", "read"], vhost: str, resource: str) -> bool:
        """Whether this user may do `action` to the exchange or queue named `resource`."""
        permission = self.permissions.get(vhost)
        if permission is None:
            return False
        return _pattern(getattr(permission, action)).search(resource) is not None

    def may_use_topic(self, action: Literal["write", "read"], vhost: str, exchange: str, routing_key: str) -> bool:
        """Whether this user may publish to a topic exchange with this key (`write`), or bind with it (`read`)."""
        permission = self.topic_permissions.get(vhost, {}).get(exchange)
        if permission is None:
            return True
        pattern = getattr(permission, action)
        # Escaped: else a user named '.*' could use every topic.
        for variable, value in (("{username}", self.name), ("{vhost}", vhost)):
            if variable in pattern:
                pattern = pattern.replace(variable, re.escape(value))
        return _pattern(pattern).search(routing_key) is not None

    def may_enter(self, vhost: str) -> bool:
        return vhost in self.permissions


@lru_cache(maxsize=4_096)
def _pattern(text: str) -> re.Pattern[str]:
    # As in RabbitMQ an empty pattern grants nothing.
    return re.compile(text or "^$")
