"""The users file: users and permissions as JSON, in the shape that they have in RabbitMQ's definitions."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from openclust.broker.model.access import Permission, TopicPermission, User, UserType
from openclust.broker.parameters.parameters import USER_LIMIT_NAMES, check_limit
from openclust.shell.config.schema import ConfigError
from openclust.shell.host.atomic_file import fingerprint, not_json, replace_file
from openclust.shell.host.event_log import escape
from openclust.shell.users.passwords import from_rabbit

log = logging.getLogger("openclust.users")

FILE_BYTES_MAX = 64 * 1_048_576
NAME_BYTES_MAX = 255  # a short string of the protocol
PATTERN_CHARACTERS_MAX = 4_096
GUEST_HASH = "scrypt$16384$8$1$QbBxdKDFgBxmvUywK6OYLA==$srHGHIB5tSvDZCK1PSj4T8cTN6nLLLy8EzCkjGnfXGU="
"""Of the password `guest`. Everybody knows it, so a new salt at each start would cost 50 ms and hide nothing."""
CHECK_INTERVAL_MS = 1_000


class UsersFileError(ConfigError):
    """The users file cannot be used. The text has the problem and its place."""


class _UserEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    password_hash: str = ""
    hashing_algorithm: str | None = None  # RabbitMQ's; our own hashes name theirs
    type: UserType = "normal"
    tags: list[str] | str = []
    limits: dict[str, Any] | list[str] = []  # an empty list is what RabbitMQ before 3.9 wrote


class _PermissionEntry(msgspec.Struct, forbid_unknown_fields=True):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class _TopicPermissionEntry(msgspec.Struct, forbid_unknown_fields=True):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    users: list[_UserEntry]
    permissions: list[_PermissionEntry] = []
    topic_permissions: list[_TopicPermissionEntry] | msgspec.UnsetType = msgspec.UNSET


def load_users(path: str) -> dict[str, User]:
    """The users in the file by name, or UsersFileError with every problem found."""
    data = _read(path)
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsersFileError(f"{path}: {_malformed(data, error)}") from None
    problems: list[str] = []
    users: dict[str, User] = {}
    for entry in document.users:
        where = f"{path}: user {entry.name!r}"
        if entry.name in users:
            problems.append(f"{where}: is there twice")
        else:
            users[entry.name] = _user(entry, where, problems)
    for permission in document.permissions:
        where = f"{path}: permissions of {permission.user!r} on virtual host {permission.vhost!r}"
        user = users.get(permission.user)
        if user is None:
            problems.append(f"{where}: there is no such user in the file")
            continue
        if permission.vhost in user.permissions:
            problems.append(f"{where}: are there twice")
        patterns = {"configure": permission.configure, "write": permission.write, "read": permission.read}
        problems += [f"{where}: {text}" for text in pattern_problems(patterns)]
        # RabbitMQ takes an empty pattern for ^$; the regular expression would match every name
        user.permissions[permission.vhost] = Permission(**{action: text or "^$" for action, text in patterns.items()})
    for topic in document.topic_permissions or ():
        _permit_topic(topic, users, f"{path}: topic permissions of {topic.user!r} on {topic.exchange!r}", problems)
    if problems:
        raise UsersFileError(*problems)
    return users


def _permit_topic(topic: _TopicPermissionEntry, users: dict[str, User], where: str, problems: list[str]) -> None:
    user = users.get(topic.user)
    if user is None:
        problems.append(f"{where}: there is no such user in the file")
        return
    exchanges = user.topic_permissions.setdefault(topic.vhost, {})
    if topic.exchange in exchanges:
        problems.append(f"{where}: are there twice for virtual host {topic.vhost!r}")
    problems += [f"{where}: {text}" for text in pattern_problems({"write": topic.write, "read": topic.read})]
    exchanges[topic.exchange] = TopicPermission(topic.write, topic.read)


def save_users(path: str, users: Mapping[str, User]) -> None:
    """Replace the file in one step (a reader sees the old or the new one), readable for its owner only."""
    document = _Document(users=[_entry(users[name]) for name in sorted(users)], permissions=[])
    for name in sorted(users):
        for vhost, one in sorted(users[name].permissions.items()):
            document.permissions.append(_PermissionEntry(name, vhost, one.configure, one.write, one.read))
    topics = [
        _TopicPermissionEntry(name, vhost, exchange, one.write, one.read)
        for name in sorted(users)
        for vhost, exchanges in sorted(users[name].topic_permissions.items())
        for exchange, one in sorted(exchanges.items())
    ]
    if topics:
        document.topic_permissions = topics
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    try:
        replace_file(path, data)
    except OSError as error:
        raise UsersFileError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextlib.contextmanager
def editing(path: str, *, create: bool = False) -> Iterator[dict[str, User]]:
    """The users of the file, to be changed in place, and saved if the block raises no error. A second editor waits."""
    folder = os.path.dirname(os.path.realpath(path))
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsersFileError(f"{path}: its folder cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # of the folder, because each save replaces the file
        users = {} if create and not os.path.exists(path) else load_users(path)
        yield users
        save_users(path, users)
    finally:
        os.close(descriptor)


def guest() -> dict[str, User]:
    """The only user of a broker without a users file."""
    everything = Permission(configure=".*", write=".*", read=".*")
    user = User(name="guest", password_hash=GUEST_HASH, tags=("administrator",), permissions={"/": everything})
    return {"guest": user}


def pattern_problems(patterns: Mapping[str, str]) -> list[str]:
    """What is wrong with the patterns of a permission, each by its name (`configure`, `write`, `read`)."""
    problems = []
    for action, pattern in patterns.items():
        if len(pattern) > PATTERN_CHARACTERS_MAX:
            problems.append(f"the {action} pattern has more than {PATTERN_CHARACTERS_MAX} characters")
            continue
        try:
            re.compile(pattern)
        except re.error as error:
            place = f" at position {error.pos}" if error.pos is not None else ""
            problems.append(f"the {action} pattern {pattern!r} is no regular expression: {error.msg}{place}")
        except (RecursionError, OverflowError):
            problems.append(f"the {action} pattern is too deep")
    return problems


def name_problem(name: str) -> str | None:
    """What is wrong with a user's name, or None."""
    if not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES_MAX:
        return f"a user's name has 1 to {NAME_BYTES_MAX} bytes"
    return None if name.isprintable() else "a user's name has no control characters"


class UsersFile:
    """The users file of a running broker, read again when it changes. A broken file leaves the users as they were."""

    def __init__(self, path: str) -> None:
        """Read the file, or raise UsersFileError."""
        self.path = path
        self._seen = fingerprint(path)
        self.users = load_users(path)
        self._next_check_ms = 0

    def refresh(self, now_ms: int, *, at_once: bool = False) -> bool:
        """Whether `users` is new. It looks at most once a second, unless asked to look `at_once`."""
        if now_ms < self._next_check_ms and not at_once:
            return False
        self._next_check_ms = now_ms + CHECK_INTERVAL_MS
        seen = fingerprint(self.path)
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            self.users = load_users(self.path)
        except UsersFileError as error:
            for problem in error.problems[:10]:
                log.error("%s; the users stay as they were", problem)
            return False
        log.info("read %d users from %s", len(self.users), self.path)
        return True

    def saved(self, changed: Mapping[str, User | None]) -> None:
        """These users were written to the file, or taken out of it, as `users` has them from now on."""
        users = dict(self.users)
        for name, user in changed.items():
            if user is None:
                users.pop(name, None)
            else:
                users[name] = user
        self.users = users


def _user(entry: _UserEntry, where: str, problems: list[str]) -> User:
    if problem := name_problem(entry.name):
        problems.append(f"{where}: {problem}")
    limits = entry.limits if isinstance(entry.limits, dict) else {}
    for limit, value in limits.items():
        try:
            check_limit(limit, value, USER_LIMIT_NAMES)
        except ValueError as error:
            problems.append(f"{where}: {error}")
    if isinstance(entry.limits, list) and entry.limits:
        problems.append(f"{where}: limits are an object")
    password_hash = ""
    try:
        password_hash = from_rabbit(entry.password_hash, entry.hashing_algorithm or "rabbit_password_hashing_sha256")
    except ValueError as error:
        problems.append(f"{where}: password_hash: {error}")
    tags = entry.tags.split(",") if isinstance(entry.tags, str) else entry.tags  # RabbitMQ before 3.9 wrote "a,b"
    return User(
        name=entry.name,
        password_hash=password_hash,
        type=entry.type,
        tags=tuple(tag.strip() for tag in tags if tag.strip()),
        permissions={},
        limits=limits,
    )


def _entry(user: User) -> _UserEntry:
    return _UserEntry(
        name=user.name,
        password_hash=user.password_hash,
        type=user.type,
        tags=list(user.tags),
        limits=dict(user.limits) or [],
    )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o007:
                _warn_once(path)
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise UsersFileError(
            f"{path}: no such users file; make one with: openclust users add NAME --file {path}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsersFileError(f"{path}: the users file cannot be read: {reason}") from None
    if len(data) > FILE_BYTES_MAX:
        raise UsersFileError(f"{path}: a users file has at most {FILE_BYTES_MAX} bytes")
    return data


@functools.lru_cache(maxsize=16)
def _warn_once(path: str) -> None:
    log.warning("%s holds password hashes and everybody can read it; chmod 600 it", path)


def _malformed(data: bytes, error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        hint = ""
        if "unknown field" in str(error) and str(error).count("$") == 0:
            hint = "; only users and permissions belong here, the rest in the file that [definitions] names"
        return f"{escape(str(error))}{hint}"
    return not_json(data, error)
