"""Files that are written and read as a whole: replaced in one step, looked at for changes, and checked for JSON."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from typing import NamedTuple


class Fingerprint(NamedTuple):
    """Of a file. If it differs from before, the file was written or replaced."""

    modified_ns: int
    size: int
    inode: int


def fingerprint(path: str) -> Fingerprint | None:
    """The file's fingerprint now; None if there is no file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return Fingerprint(found.st_mtime_ns, found.st_size, found.st_ino)


def replace_file(path: str, data: bytes) -> None:
    """Replace the contents of the file; they are on disk when this returns. OSError leaves the old contents.

    A reader sees the old or the new contents. A symbolic link stays one. Only the owner, who stays the same, can read
    the file.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=f".{os.path.basename(target)}-")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            _keep_owner(target, file.fileno())
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def not_json(data: bytes, error: Exception) -> str:
    """What is wrong with JSON that msgspec refused, with line and column, which only the standard parser tells."""
    try:
        json.loads(data)
    except json.JSONDecodeError as better:
        return f"line {better.lineno}, column {better.colno}: {better.msg}"
    except (UnicodeDecodeError, RecursionError):
        return "not JSON in UTF-8"
    return str(error)


def _keep_owner(path: str, descriptor: int) -> None:
    """If the system's root edits a file of the broker's account, the broker must still be able to read it."""
    with contextlib.suppress(OSError):
        owner = os.stat(path)
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
