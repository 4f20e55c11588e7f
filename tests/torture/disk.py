"""A small disk in memory, which can be filled up to the last byte."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

SIZE_MB = 192
"""More than what a long run needs: what is to be full is filled."""
FILLER = "filler"


class SmallDisk:
    """`mount` it, and `unmount` it whatever happened."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.is_full = False
        self._source = source

    def mount(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = f"size={SIZE_MB}m,mode=700"
        command = ["mount", "-t", "tmpfs", "-o", options, self._source, str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        assert done.returncode == 0, done.stderr

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, timeout=10)

    def fill(self) -> None:
        """To the last block."""
        self.is_full = True
        with (self.folder / FILLER).open("ab", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                # Others write at the same time: what is free is not known before it is taken.
                with contextlib.suppress(OSError):
                    while filler.write(bytes(size)) == size:
                        pass

    def empty(self) -> None:
        (self.folder / FILLER).unlink(missing_ok=True)
        self.is_full = False

    def used(self) -> int:
        """Bytes, without the filler."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file() and path.name != FILLER)

    def copy(self, to: Path) -> None:
        """What is on it, for somebody to look at after it is gone."""
        shutil.copytree(self.folder, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns(FILLER))
