"""Spark's classes as a JVM has them once it has read them, kept by one run for those after it.

To find, read and check thousands of classes in nearly three hundred jars is a tenth of what a short run costs. A JVM
can leave them behind as it ends, in a file that the next one maps into its memory. It does so after our own process has
ended: nobody waits for it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SUFFIX = ".jsa"
SIZE_MB = 250
"""What one takes of the disk at most, as measured with Spark 4.3: 196."""
FREE_MB_MIN = 4 * SIZE_MB
KEPT = 2
"""For so many installations of Java and Spark."""
WRITING_S = 600.0
"""A file that is not complete by then never will be."""
READ = "-XX:SharedArchiveFile={} -XX:+UnlockDiagnosticVMOptions -XX:+VerifySharedSpaces"
"""One that is of no use, for a disk has spoiled it, say, is passed over by the JVM, without a word."""
LEAVE = "-XX:ArchiveClassesAtExit={}"
SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Where this user's programs keep what they can make again; None where there is no such place."""
    named = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "openclust"
    try:
        return Path.home() / ".cache" / "openclust"
    except RuntimeError:
        return None


class ClassArchive:
    """Of one Java and one Spark: either is there and used, or is left by the JVM that is started with `options`."""

    def __init__(self, folder: Path, java: Path, jars: Path) -> None:
        self._path = folder / f"spark-{_digest(java, jars)}{SUFFIX}"
        self._is_there = False
        self.is_left = False
        """The JVM takes some seconds more to end, in which it writes the file."""
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._adopt()
            self.is_left = not self._is_there and shutil.disk_usage(folder).free >> 20 >= FREE_MB_MIN

    @property
    def options(self) -> str:
        """For the command line of the JVM."""
        if self._is_there:
            return f"{READ.format(shlex.quote(str(self._path)))} {SILENT}"
        if self.is_left:
            # Under a name of its own: whoever starts meanwhile must not take half of it for the whole.
            new = self._path.with_suffix(f".{secrets.token_hex(4)}")
            return f"{LEAVE.format(shlex.quote(str(new)))} {SILENT}"
        return ""

    def _adopt(self) -> None:
        """Take what a JVM has left since, and throw away what is of no more use."""
        for left in self._path.parent.glob("spark-*"):
            if left.suffix == SUFFIX:
                continue
            # Also that of another Java or Spark: whoever left it may never start again.
            if is_complete(left):
                left.replace(left.with_suffix(SUFFIX))
            elif time.time() - left.stat().st_mtime > WRITING_S:
                left.unlink()
        self._is_there = self._path.exists()
        if self._is_there:
            os.utime(self._path)
        by_use = sorted(self._path.parent.glob(f"spark-*{SUFFIX}"), key=lambda each: each.stat().st_mtime)
        for each in by_use[:-KEPT]:
            each.unlink()


def is_complete(archive: Path) -> bool:
    """The JVM writes the beginning last."""
    with archive.open("rb") as file:
        return any(file.read(4))


def _digest(java: Path, jars: Path) -> str:
    """The JVM takes an archive only with the very files of which it was made."""
    of = hashlib.blake2b(digest_size=8)
    for file in (java.resolve(), *sorted(jars.glob("*.jar"))):
        about = file.stat()
        of.update(f"{file} {about.st_size} {about.st_mtime_ns}\n".encode())
    return of.hexdigest()
