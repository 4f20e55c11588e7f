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


class User(msgspec.Struct, kw_only=True):
    """A user. `password_hash` is empty for a user who can only log in with a client certificate."""

    name: str
    password_hash: str = ""
    type: UserType = "normal"
    tags: tuple[str, ...] = ()
    permissions: dict[str, Permission] = {}

    def copy(self) -> User:
        """A copy with permissions of its own."""
        return msgspec.structs.replace(self, permissions=dict(self.permissions))

    def may(self, action: Literal["configure", "write", "read"], vhost: str, resource: str) -> bool:
        """Whether this user may do `action` to the exchange or queue named `resource`."""
        permission = self.permissions.get(vhost)
        if permission is None:
            return False
        return _pattern(getattr(permission, action)).search(resource) is not None

    def may_enter(self, vhost: str) -> bool:
        return vhost in self.permissions


@lru_cache(maxsize=4_096)
def _pattern(text: str) -> re.Pattern[str]:
    # As in RabbitMQ an empty pattern grants nothing.
    return re.compile(text or "^$")
