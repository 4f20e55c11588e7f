"""Logins: the users of this broker, and whether somebody is who he says."""

from __future__ import annotations

from collections.abc import Mapping

from openclust.broker.access import User
from openclust.broker.broker import Broker
from openclust.broker.changes import Change, DeleteUser, PutUser, PutVhost
from openclust.shell.passwords import PasswordChecker
from openclust.shell.users_file import UsersFile, guest
from openclust.wire.sasl import Credentials


def changes_between(before: Mapping[str, User], after: Mapping[str, User]) -> list[Change]:
    """What an edit of the users file asks for. Users that are in no broker's file are left as they are."""
    changes: list[Change] = []
    for name, user in sorted(after.items()):
        if before.get(name) != user:
            changes += [PutVhost(vhost=vhost) for vhost in sorted(user.permissions)]
            changes.append(PutUser(user=user))
    return changes + [DeleteUser(name=name) for name in sorted(before.keys() - after.keys())]


class Logins:
    """The users of the users file, or `guest` without one. A certificate's name needs no password."""

    def __init__(self, users_file: str | None) -> None:
        self._file = UsersFile(users_file) if users_file is not None else None
        self.users: dict[str, User] = self._file.users if self._file is not None else guest()
        self._checker = PasswordChecker()

    def refresh(self, broker: Broker, now_ms: int, *, is_alone: bool, at_once: bool = False) -> None:
        """Look whether the users file has changed; what has changed in it holds for the whole cluster."""
        if self._file is None or not self._file.refresh(now_ms, at_once=at_once):
            return
        before, self.users = self.users, self._file.users
        if is_alone:
            broker.replace_users(self.users.values())
            return
        for change in changes_between(before, self.users):
            broker.define(change)

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
