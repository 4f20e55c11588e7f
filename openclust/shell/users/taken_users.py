"""Digests of the users that the cluster last took from a users file: a user with another digest was edited since.

They are in a file beside the store. Without a data directory they are in memory only, and edits made while the broker
was stopped are not known.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping

import msgspec

from openclust.broker.model.access import User
from openclust.broker.model.change_codec import encode_canonical
from openclust.broker.model.changes import PutUser
from openclust.shell.host.atomic_file import replace_file

log = logging.getLogger("openclust.users")

FILE = "users-taken.json"
BYTES_MAX = 64 * 1_048_576


def digest(user: User) -> str:
    """A short text that differs if anything about the user does."""
    return hashlib.sha256(encode_canonical(PutUser(user=user))).hexdigest()[:32]


def digests(users: Mapping[str, User]) -> dict[str, str]:
    """Of each user by name."""
    return {name: digest(user) for name, user in users.items()}


class TakenUsers:
    """`users` are the digests by name. If none are on disk, all users of the file count as taken."""

    def __init__(self, data_dir: str | None, users: Mapping[str, User]) -> None:
        self._path = os.path.join(data_dir, FILE) if data_dir is not None else None
        kept = self._read() if self._path is not None else None
        self.users = digests(users) if kept is None else kept
        self._is_kept = kept is not None

    def _read(self) -> dict[str, str] | None:
        assert self._path is not None, "asked before"
        try:
            with open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(BYTES_MAX), type=dict[str, str])
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            log.warning("%s: %s; edits of the users file since the last run are not known", self._path, reason)
            return None

    def keep(self) -> None:
        """Write the digests, if they are not on disk yet."""
        if not self._is_kept:
            self.save()

    def save(self) -> None:
        """Write the digests. A failure is only logged: to take an edit twice does no harm."""
        self._is_kept = True
        if self._path is None:
            return
        try:
            replace_file(self._path, msgspec.json.encode(self.users, order="deterministic"))
        except OSError as error:
            log.error("cannot write %s: %s", self._path, error.strerror)
