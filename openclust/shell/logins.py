"""Logins: the users of this broker, and whether somebody is who he says."""

from __future__ import annotations

from openclust.broker.access import User
from openclust.shell.passwords import PasswordChecker
from openclust.shell.users_file import UsersFile, guest
from openclust.wire.sasl import Credentials


class Logins:
    """The users of the users file, or `guest` without one. A certificate's name needs no password."""

    def __init__(self, users_file: str | None) -> None:
        self._file = UsersFile(users_file) if users_file is not None else None
        self.users: dict[str, User] = self._file.users if self._file is not None else guest()
        self._checker = PasswordChecker()

    def refresh(self, now_ms: int, *, at_once: bool = False) -> bool:
        """Whether `users` is new because the users file has changed."""
        if self._file is None or not self._file.refresh(now_ms, at_once=at_once):
            return False
        self.users = self._file.users
        return True

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
