"""Logins: the users of this broker, and whether somebody is who he says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from openclust.broker.model.access import User
from openclust.broker.model.changes import Change, DeleteUser, PutUser, PutVhost
from openclust.broker.queues.repeats import Repeats
from openclust.broker.server.broker import Broker
from openclust.shell.host.event_log import escape
from openclust.shell.users.passwords import PasswordChecker
from openclust.shell.users.saved_users import save_changed_users, users_now
from openclust.shell.users.taken_users import TakenUsers, digest, digests
from openclust.shell.users.users_file import UsersFile, guest
from openclust.wire.errors import NOT_FOUND, AmqpError
from openclust.wire.sasl import Credentials

log = logging.getLogger("openclust.users")


ASKED_MAX = 1_000
"""So many changes of an edited users file are asked for at a time."""
RETRY_MS = 5_000
CALM_MS = 1_000
"""For so long nothing must have changed before the file and the cluster's users are compared."""
TOLD_EVERY_MS = 60_000
NAMES_TOLD_MAX = 5


def changes_between(before: Mapping[str, User], after: Mapping[str, User]) -> list[Change]:
    """What an edit of the users file asks for. Users that are in no broker's file are left as they are."""
    return changes_since(digests(before), after)


def changes_since(taken: Mapping[str, str], after: Mapping[str, User]) -> list[Change]:
    """The same, by the digests of what the file said before."""
    changes: list[Change] = []
    vhosts: set[str] = set()
    for name, user in sorted(after.items()):
        if taken.get(name) != digest(user):
            changes += [PutVhost(vhost=vhost) for vhost in sorted(user.permissions.keys() - vhosts)]
            vhosts |= user.permissions.keys()
            changes.append(PutUser(user=user))
    return changes + [DeleteUser(name=name) for name in sorted(taken.keys() - after.keys())]


def difference(file: Mapping[str, User], cluster: Mapping[str, User]) -> str:
    """Which users are not the same in the file and in the cluster; empty where all are."""
    groups = (
        ("only in the file", file.keys() - cluster.keys()),
        ("only in the cluster", cluster.keys() - file.keys()),
        ("not the same", {name for name in file.keys() & cluster.keys() if file[name] != cluster[name]}),
    )
    return "; ".join(f"{what}: {_some(names)}" for what, names in groups if names)


def _some(names: Collection[str]) -> str:
    told = ", ".join(escape(name) for name in sorted(names)[:NAMES_TOLD_MAX])
    return told if len(names) <= NAMES_TOLD_MAX else f"{told} and {len(names) - NAMES_TOLD_MAX} more"


class Logins:
    """The users of the users file, or `guest` without one. A certificate's name needs no password.

    In a cluster the log says who the users are, and the file's edits are changes to it: those that were made while the
    broker was stopped too, as it keeps in its data directory what the file said when it was last taken.
    """

    def __init__(self, users_file: str | None, data_dir: str | None = None) -> None:
        self._file = UsersFile(users_file) if users_file is not None else None
        self.users: dict[str, User] = self._file.users if self._file is not None else guest()
        self._taken = TakenUsers(data_dir, self.users)
        self._checker = PasswordChecker()
        # How many threads write the file.
        self._saving = 0
        self._digests = digests(self.users)
        # How many changes are asked for and not answered, and why some were refused.
        self._asking = 0
        self._refused = ""
        self._next_ms = 0
        self._repeats = Repeats()
        # The users that were compared last, and what was told of that.
        self._compared: tuple[int, dict[str, str]] | None = None
        self._compare_ms = 0
        self._told = ""
        self._told_ms = -TOLD_EVERY_MS

    def refresh(
        self, broker: Broker, now_ms: int, *, is_alone: bool, is_in_touch: bool = True, at_once: bool = False
    ) -> None:
        """Look whether the users file has changed; what has changed in it holds for the whole cluster.

        `is_in_touch` says whether there is a root, and this broker knows what that has made.
        """
        if self._file is not None and not self._saving and self._file.refresh(now_ms, at_once=at_once):
            self.users = self._file.users
            self._digests = digests(self.users)
            self._next_ms = 0
            if is_alone or not broker.are_users_settled:
                # No other broker has a say yet.
                broker.replace_users(self.users.values())
        if not is_alone and is_in_touch and broker.are_users_settled:
            self._taken.keep()
            if self._file is not None and not self._asking and not self._saving:
                self._agree(broker, self._file.path, now_ms)

    def log_says(self, users: Mapping[str, User]) -> None:
        """Of a broker of one: what is different in its file is an edit, should it become a primary among others."""
        self._taken.users = digests(users)
        self._taken.save()

    def _agree(self, broker: Broker, path: str, now_ms: int) -> None:
        """Ask for what was edited in the file; then tell in what it differs from the cluster's users."""
        if self._taken.users == self._digests:
            self._compare(broker, path, now_ms)
        elif now_ms >= self._next_ms:
            changes = changes_since(self._taken.users, self.users)[:ASKED_MAX]
            self._asking, self._refused = len(changes), ""
            for change in changes:
                broker.define(change, partial(self._answered, change, path, now_ms))

    def _answered(self, change: Change, path: str, now_ms: int, result: object) -> None:
        self._asking -= 1
        is_deleted = isinstance(change, DeleteUser)
        # A user may be gone already: the file of another broker was edited first.
        if isinstance(result, AmqpError) and not (is_deleted and result.code == NOT_FOUND):
            self._refused = result.reply_text
        elif isinstance(change, DeleteUser):
            self._taken.users.pop(change.name, None)
        elif isinstance(change, PutUser):
            self._taken.users[change.user.name] = digest(change.user)
        if self._asking:
            return
        self._taken.save()
        if self._refused:
            self._next_ms = now_ms + RETRY_MS
            again = self._repeats.again(self._refused, now_ms)
            if again is not None:
                log.warning("%s: what was edited is not taken yet: %s%s", path, escape(self._refused), again)
        else:
            log.info("%s: what was edited holds for the cluster", path)

    def _compare(self, broker: Broker, path: str, now_ms: int) -> None:
        users = broker.users_version, self._digests
        if users != self._compared:
            self._compared, self._compare_ms = users, max(now_ms + CALM_MS, self._told_ms + TOLD_EVERY_MS)
        elif self._compare_ms and now_ms >= self._compare_ms:
            self._compare_ms = 0
            text = difference(self.users, broker.users)
            if text and text != self._told:
                self._told_ms = now_ms
                log.warning(
                    "%s is not what the cluster's users are, and those hold: %s; to take what the file has: openclust "
                    "definitions import %s; for all ways out see docs/operating.md, users files",
                    path,
                    text,
                    path,
                )
            self._told = text

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
        self._digests = digests(self.users)
        for name, user in changed.items():
            if user is None:
                self._taken.users.pop(name, None)
            else:
                self._taken.users[name] = digest(user)
        self._taken.save()

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
