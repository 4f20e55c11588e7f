"""Who may do what: users, their types, and their permissions per virtual host."""

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
    """A login. `password_hash` is empty for users who may only come with a client certificate."""

    name: str
    password_hash: str = ""
    type: UserType = "normal"
    tags: tuple[str, ...] = ()
    permissions: dict[str, Permission] = {}

    def copy(self) -> User:
        """The same user, whose permissions can change without changing this one's."""
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
    # RabbitMQ reads an empty pattern as one that grants nothing.
    return re.compile(text or "^$")
