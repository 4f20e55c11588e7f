"""Why a write to the disk failed, in the words of the operating system."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress

PROBE_BYTES = 65_536

_CODE = 0xFF  # the higher bits are details of the same error
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error means that the file is damaged."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _CODE in _DAMAGED


def reason_of(error: BaseException, data_dir: str) -> str:
    """`No space left on device` rather than `database or disk is full`.

    SQLite hides the system's error, so a small file is written to see it; the file is deleted again.
    """
    if isinstance(error, OSError):
        return error.strerror or str(error)
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", None)
    if code is None or is_damage(error):  # type: ignore[arg-type]
        return f"{error} ({name or type(error).__name__})"
    if code & _CODE == sqlite3.SQLITE_FULL:
        return os.strerror(errno.ENOSPC)
    if code & _CODE in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return f"{_probed(data_dir) or error} ({name})"
    return f"{error} ({name})"


def _probed(data_dir: str) -> str:
    path = os.path.join(data_dir, ".store-probe")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, bytes(PROBE_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return error.strerror or str(error)
    finally:
        with suppress(OSError):
            os.unlink(path)
    return ""
