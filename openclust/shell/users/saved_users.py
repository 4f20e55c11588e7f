"""Writes users that were changed in a running broker to its users file, so that they survive a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openclust.broker.model.access import User
from openclust.broker.server.broker import Broker
from openclust.shell.users.users_file import editing


def users_now(broker: Broker, names: Iterable[str]) -> dict[str, User | None]:
    """Copies of these users as they are now, for another thread to write; None for a deleted user."""
    found: dict[str, User | None] = {}
    for name in names:
        user = broker.users.get(name)
        found[name] = user.copy() if user is not None else None
    return found


def save_changed_users(path: str, changed: Mapping[str, User | None]) -> None:
    """Write these users to the file; its other users stay. It waits for the disk: do not call it in the event loop.

    UsersFileError if the file cannot be read or written.
    """
    if not changed:
        return
    with editing(path, create=True) as users:
        for name, user in changed.items():
            if user is None:
                users.pop(name, None)
            else:
                users[name] = user
