"""The vote of this broker on disk: if a restart forgot the vote, an epoch could have two roots."""

from __future__ import annotations

import contextlib
import errno
import os

import msgspec

from openclust.cluster.protocol.status import Reign
from openclust.shell.config.schema import ConfigError
from openclust.shell.host.atomic_file import replace_file, sync_folder

VOTE_FILE = "vote.json"
RESERVE_BYTES = 4_096


class Votes:
    """One small file. Without a directory the vote is only in memory: a restarted broker could vote twice.

    A second file of 4 KiB beside it keeps room for a vote on a full disk: a broker that cannot vote is silent.
    """

    def __init__(self, data_dir: str | None) -> None:
        self._path = os.path.join(data_dir, VOTE_FILE) if data_dir is not None else None
        self.last: Reign | None = None
        if data_dir is None or self._path is None:
            return
        try:
            os.makedirs(data_dir, mode=0o700, exist_ok=True)
            with open(self._path, "rb") as file:
                self.last = msgspec.json.decode(file.read(), type=Reign)
        except FileNotFoundError:
            pass
        except msgspec.DecodeError as error:
            way_out = "restore the file, or empty the directory while the rest of the cluster is running"
            raise ConfigError(f"{self._path}: not a vote: {error}; {way_out}") from None
        except OSError as error:
            raise ConfigError(f"cluster.data_dir = {data_dir!r}: {error.strerror}") from None

    def save(self, vote: Reign) -> None:
        """Write the vote; then it is `last`. OSError if the disk does not take it."""
        if self._path is not None:
            data = msgspec.json.encode(vote)
            try:
                replace_file(self._path, data)
            except OSError as error:
                if error.errno != errno.ENOSPC or not self._use_reserve(self._path, data):
                    raise
            self._lay_aside()
        self.last = vote

    def _use_reserve(self, path: str, data: bytes) -> bool:
        """Write the vote into the reserve file and rename that; False if there is no reserve."""
        if len(data) > RESERVE_BYTES or not os.path.exists(path + ".reserve"):
            return False
        with open(path + ".reserve", "r+b") as file:
            file.write(data.ljust(RESERVE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".reserve", path)
        sync_folder(os.path.dirname(path))
        return True

    def _lay_aside(self) -> None:
        """Make the reserve file, if there is none and the disk has room."""
        if self._path is None or os.path.exists(self._path + ".reserve"):
            return
        with contextlib.suppress(OSError):
            replace_file(self._path + ".reserve", b" " * RESERVE_BYTES)
