"""Logins: the users of this broker, and whether somebody is who he says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from openclust.broker.access import User
from openclust.broker.broker import Broker
from openclust.broker.changes import Change, DeleteUser, PutUser, PutVhost
from openclust.broker.cluster_port import Done
from openclust.shell.passwords import PasswordChecker
from openclust.shell.saved_users import save_changed_users, users_now
from openclust.shell.users_file import UsersFile, guest
from openclust.wire.errors import NOT_FOUND, AmqpError
from openclust.wire.sasl import Credentials


def changes_between(before: Mapping[str, User], after: Mapping[str, User]) -> list[Change]:
    """What an edit of the users file asks for. Users that are in no broker's file are left as they are."""
    changes: list[Change] = []
    for name, user in sorted(after.items()):
        if before.get(name) != user:
            changes += [PutVhost(vhost=vhost) for vhost in sorted(user.permissions)]
            changes.append(PutUser(user=user))
    return changes + [DeleteUser(name=name) for name in sorted(before.keys() - after.keys())]


def _unless_gone(broker: Broker) -> Done:
    """Log a refusal, but for that of a user whom another broker has deleted already: its file was edited first."""

    def done(result: Any) -> None:
        if isinstance(result, AmqpError) and result.code != NOT_FOUND:
            broker.note("warning", "a change was refused", text=result.reply_text)

    return done


class Logins:
    """The users of the users file, or `guest` without one. A certificate's name needs no password."""

    def __init__(self, users_file: str | None) -> None:
        self._file = UsersFile(users_file) if users_file is not None else None
        self.users: dict[str, User] = self._file.users if self._file is not None else guest()
        self._checker = PasswordChecker()
        # How many threads write the file.
        self._saving = 0

    def refresh(self, broker: Broker, now_ms: int, *, is_alone: bool, at_once: bool = False) -> None:
        """Look whether the users file has changed; what has changed in it holds for the whole cluster."""
        if self._file is None or self._saving or not self._file.refresh(now_ms, at_once=at_once):
            return
        before, self.users = self.users, self._file.users
        if is_alone:
            broker.replace_users(self.users.values())
            return
        for change in changes_between(before, self.users):
            broker.define(change, _unless_gone(broker) if isinstance(change, DeleteUser) else None)

    async def save(self, broker: Broker, names: Iterable[str]) -> None:
        """Write these users to the users file as they are now; ConfigError where that cannot be done.

        What this broker writes is no edit of the file: the next `refresh` asks for nothing because of it.
        """
        if self._file is None:
            return
        changed = users_now(broker, names)
        self._saving += 1
        try:
            await asyncio.to_thread(save_changed_users, self._file.path, changed)
        finally:
            self._saving -= 1
        self._file.saved(changed)
        self.users = self._file.users

    def known(self, user: User | None, credentials: Credentials) -> bool | None:
        """Whether the credentials are right, as far as that is known without work; None: call `check`."""
        if credentials.password is None:
            return user is not None
        return self._checker.cached(user, credentials.password)

    async def check(self, user: User | None, credentials: Credentials) -> bool:
        assert credentials.password is not None, "`known` answers for certificates"
        return await self._checker.check(user, credentials.password)

    def close(self) -> None:
        self._checker.close()
