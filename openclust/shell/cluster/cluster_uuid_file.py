"""The cluster UUID on disk: a broker that comes back must not join another cluster of the same key."""

from __future__ import annotations

import logging
import os

from openclust.shell.config.schema import ConfigError
from openclust.shell.host.atomic_file import replace_file

log = logging.getLogger("openclust.cluster")

UUID_FILE = "cluster-uuid"
UUID_BYTES_MAX = 128


class ClusterUuidFile:
    """One small file beside the vote. `uuid` is empty until the cluster's first root has made one."""

    def __init__(self, data_dir: str | None) -> None:
        self._path = os.path.join(data_dir, UUID_FILE) if data_dir is not None else None
        self.uuid = ""
        if self._path is None:
            return
        try:
            with open(self._path, encoding="ascii") as file:
                self.uuid = file.read(UUID_BYTES_MAX).strip()
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._path}: {getattr(error, 'strerror', None) or 'is not text'}") from None

    def save(self, uuid: str) -> None:
        """Write the file. A failure is logged; the next vote tries again."""
        if not uuid or uuid == self.uuid:
            return
        try:
            if self._path is not None:
                replace_file(self._path, uuid.encode())
        except OSError as error:
            log.error("cannot write %s: %s", self._path, error.strerror)
            return
        self.uuid = uuid
