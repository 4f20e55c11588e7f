"""The lock of a data directory: one process at a time uses it."""

from __future__ import annotations

import fcntl
import os

from openclust.shell.config.schema import ConfigError

LOCK_FILE = "store.lock"


class DirectoryLock:
    """Held until `release`, or until the process ends in any way. The lock file stays; it means nothing by itself."""

    def __init__(self, data_dir: str) -> None:
        self._descriptor = os.open(os.path.join(data_dir, LOCK_FILE), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise ConfigError(
                f"{data_dir}: in use by process {holder or '(unknown)'}; stop it, or take another directory"
            ) from None
        except OSError:
            os.close(self._descriptor)
            raise
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)
        except OSError:  # a full disk: the pid is for people, the lock holds without it
            pass

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def holder_of(data_dir: str) -> str:
    """The pid of the process that uses a directory, empty if none does. It takes no lock itself."""
    try:
        descriptor = os.open(os.path.join(data_dir, LOCK_FILE), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "(unknown)"
    finally:
        os.close(descriptor)
    return ""
