"""The vote of this broker on disk: it must outlive the process, or an epoch could have two roots."""

from __future__ import annotations

import contextlib
import os
import tempfile

import msgspec

from openclust.cluster.status import Reign
from openclust.shell.config import ConfigError


class Votes:
    """One small file. Without a directory the vote is only in memory: a restarted broker could vote twice."""

    def __init__(self, data_dir: str | None) -> None:
        self._path = os.path.join(data_dir, "vote.json") if data_dir is not None else None
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
        """After this the vote is on disk, and `last`. OSError where it cannot be."""
        if self._path is not None:
            self._write(self._path, vote)
        self.last = vote

    @staticmethod
    def _write(path: str, vote: Reign) -> None:
        folder = os.path.dirname(path)
        descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".vote-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(vote))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
