"""Users and their permissions as rows."""

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
        "limits": {},
    }


def permission_rows(user: User) -> list[Row]:
    return [
        {"user": user.name, "vhost": vhost, "configure": each.configure, "write": each.write, "read": each.read}
        for vhost, each in sorted(user.permissions.items())
    ]
