"""The folder for a measured broker's data. It is on a real disk, because an fsync on tmpfs costs nothing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from openclust.bench.client.bench_errors import BenchError

IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})


class Mount(NamedTuple):
    """A mounted file system."""

    point: str
    kind: str
    device: str


def folder_on_disk(folder: Path | None = None, mounts: Sequence[Mount] | None = None) -> Path:
    """`folder`, which must exist; without it the first of TMPDIR, /var/tmp and the current folder that is on a disk."""
    if folder is not None:
        if not folder.is_dir():
            raise BenchError(f"--data-in {folder}: there is no such directory")
        return folder.resolve()
    mounts = mounts_here() if mounts is None else mounts
    for each in (Path(tempfile.gettempdir()), Path("/var/tmp"), Path.cwd()):
        if each.is_dir() and os.access(each, os.W_OK) and not _is_in_memory(mount_of(each, mounts)):
            return each.resolve()
    raise BenchError("no temporary directory is on a disk; name one with --data-in DIR")


def described(folder: Path, mounts: Sequence[Mount] | None = None) -> str:
    """`data in DIR (ext4 on /dev/vda)`, for the results, because the cost of an fsync depends on the disk."""
    mount = mount_of(folder, mounts_here() if mounts is None else mounts)
    if mount is None:
        return f"data in {folder}"
    memory = ", which is memory: syncing costs nothing there" if _is_in_memory(mount) else ""
    return f"data in {folder} ({mount.kind} on {mount.device}{memory})"


def mount_of(folder: Path, mounts: Iterable[Mount]) -> Mount | None:
    """The innermost mount that contains the folder; None if none does."""
    real = folder.resolve()
    holding = [mount for mount in mounts if real.is_relative_to(mount.point)]
    return max(holding, key=lambda mount: len(mount.point), default=None)


def forget_cached(folder: Path) -> int:
    """Ask the kernel to drop its cache of all files below, so that they are read from the disk. Returns their size.

    No process may write to these files meanwhile.
    """
    total = 0
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
            total += os.fstat(opened.fileno()).st_size
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return total


def _is_in_memory(mount: Mount | None) -> bool:
    return mount is not None and mount.kind in IN_MEMORY


def mounts_here() -> list[Mount]:
    """The file systems that are mounted on this machine."""
    return [Mount(each.mountpoint, each.fstype, each.device) for each in psutil.disk_partitions(all=True)]
