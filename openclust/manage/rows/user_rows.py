"""Users, their permissions and limits as rows."""

from __future__ import annotations

from openclust.broker.model.access import User
from openclust.broker.model.password_hash import to_rabbit
from openclust.manage.gather.selection import Row


def user_row(user: User) -> Row:
    """A user with its password hash: for administrators only."""
    password_hash, algorithm = to_rabbit(user.password_hash)
    return {
        "name": user.name,
        "password_hash": password_hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "type": user.type,
        "limits": dict(user.limits),
    }


def permission_rows(user: User, only: str | None = None) -> list[Row]:
    """Its permissions in one virtual host, or in all."""
    return [
        {"user": user.name, "vhost": vhost, "configure": each.configure, "write": each.write, "read": each.read}
        for vhost, each in sorted(user.permissions.items())
        if only is None or only == vhost
    ]


def topic_permission_rows(user: User, only: str | None = None) -> list[Row]:
    """Its topic permissions in one virtual host, or in all."""
    return [
        {"user": user.name, "vhost": vhost, "exchange": exchange, "write": each.write, "read": each.read}
        for vhost, exchanges in sorted(user.topic_permissions.items())
        if only is None or only == vhost
        for exchange, each in sorted(exchanges.items())
    ]
