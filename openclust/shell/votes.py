"""The vote of this broker on disk: it must outlive the process, or an epoch could have two roots."""

from __future__ import annotations

import os

import msgspec

from openclust.cluster.status import Reign
from openclust.shell.config import ConfigError
from openclust.shell.whole_file import replace_file


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
            replace_file(self._path, msgspec.json.encode(vote))
        self.last = vote
