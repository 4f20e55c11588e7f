"""Logins: the users of this broker, and whether a client's credentials are right."""

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
"""So many changes of an edited users file are asked of the root at a time."""
RETRY_MS = 5_000
CALM_MS = 1_000
"""The file and the cluster's users are compared when neither has changed for so long."""
TOLD_EVERY_MS = 60_000
NAMES_TOLD_MAX = 5


def changes_between(before: Mapping[str, User], after: Mapping[str, User]) -> list[Change]:
    """The changes that an edit of the users file asks for. Users that are not in the file stay as they are."""
    return changes_since(digests(before), after)


def changes_since(taken: Mapping[str, str], after: Mapping[str, User]) -> list[Change]:
    """As `changes_between`, by the digests of the users that the file had before."""
    changes: list[Change] = []
    vhosts: set[str] = set()
    for name, user in sorted(after.items()):
        if taken.get(name) != digest(user):
            changes += [PutVhost(vhost=vhost) for vhost in sorted(user.permissions.keys() - vhosts)]
            vhosts |= user.permissions.keys()
            changes.append(PutUser(user=user))
    return changes + [DeleteUser(name=name) for name in sorted(taken.keys() - after.keys())]


def difference(file: Mapping[str, User], cluster: Mapping[str, User]) -> str:
    """Which users differ between the file and the cluster; empty if none."""
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

    In a cluster the log has the users, and edits of the file become changes in the log. For edits that were made while
    the broker was stopped, the data directory has digests of the users that were last taken from the file.
    """

    def __init__(self, users_file: str | None, data_dir: str | None = None) -> None:
        self._file = UsersFile(users_file) if users_file is not None else None
        self.users: dict[str, User] = self._file.users if self._file is not None else guest()
        self._taken = TakenUsers(data_dir, self.users)
        self._checker = PasswordChecker()
        # How many calls of `save` are under way.
        self._saving = 0
        self._digests = digests(self.users)
        # How many changes wait for an answer, and why one was refused.
        self._asking = 0
        self._refused = ""
        self._next_ms = 0
        self._repeats = Repeats()
        # The users that were compared last, and the difference that was logged.
        self._compared: tuple[int, dict[str, str]] | None = None
        self._compare_ms = 0
        self._told = ""
        self._told_ms = -TOLD_EVERY_MS

    def refresh(
        self, broker: Broker, now_ms: int, *, is_alone: bool, is_in_touch: bool = True, at_once: bool = False
    ) -> None:
        """Read the users file again if it has changed. An edit applies to the whole cluster.

        `is_in_touch`: there is a root, and this broker has all of the root's definitions.
        """
        if self._file is not None and not self._saving and self._file.refresh(now_ms, at_once=at_once):
            self.users = self._file.users
            self._digests = digests(self.users)
            self._next_ms = 0
            if is_alone or not broker.are_users_settled:
                # The users of no other broker are known yet.
                broker.replace_users(self.users.values())
        if not is_alone and is_in_touch and broker.are_users_settled:
            self._taken.keep()
            if self._file is not None and not self._asking and not self._saving:
                self._agree(broker, self._file.path, now_ms)

    def log_says(self, users: Mapping[str, User]) -> None:
        """A broker alone has these users in its log. If it joins others later, what differs in its file is an edit."""
        self._taken.users = digests(users)
        self._taken.save()

    def _agree(self, broker: Broker, path: str, now_ms: int) -> None:
        """Ask the root for the edits of the file; then log in which users the file and the cluster differ."""
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
        # A user may be gone already, if the file of another broker was edited first.
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
                log.warning("%s: its edits are not applied yet: %s%s", path, escape(self._refused), again)
        else:
            log.info("%s: its edits are applied to the cluster", path)

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
        """Write these users to the users file as they are now; ConfigError if that fails.

        This does not count as an edit of the file: the next `refresh` asks the root for nothing.
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
        """Whether the credentials are right, if that can be told without hashing; None: call `check`."""
        if credentials.password is None:
            return user is not None
        return self._checker.cached(user, credentials.password)

    async def check(self, user: User | None, credentials: Credentials) -> bool:
        assert credentials.password is not None, "`known` answers for certificates"
        return await self._checker.check(user, credentials.password)

    def close(self) -> None:
        self._checker.close()
