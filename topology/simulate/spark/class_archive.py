"""An archive of Spark's loaded classes, which one run writes for later runs.

A JVM spends a tenth of a short run on finding, reading and checking thousands of classes in nearly three hundred jars.
When a JVM ends it can write its loaded classes to a file, which the next JVM maps into memory. It writes after our own
process has ended: nobody waits for it.
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
"""The room on disk for an archive; with Spark 4.3 it takes 196."""
FREE_MB_MIN = 4 * SIZE_MB
KEPT = 2
"""Archives are kept for so many installations of Java and Spark."""
WRITING_S = 600.0
"""A JVM that has not finished the file after so long has failed."""
READ = "-XX:SharedArchiveFile={} -XX:+UnlockDiagnosticVMOptions -XX:+VerifySharedSpaces"
"""With these options the JVM silently ignores an archive that it cannot use, such as a damaged one."""
LEAVE = "-XX:ArchiveClassesAtExit={}"
SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder for the caches of this user's programs; None if there is none."""
    named = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return Path(named) / "openclust"
    try:
        return Path.home() / ".cache" / "openclust"
    except RuntimeError:
        return None


class ClassArchive:
    """The archive of one Java and one Spark. If there is none, a JVM started with `options` writes it."""

    def __init__(self, folder: Path, java: Path, jars: Path) -> None:
        self._path = folder / f"spark-{_digest(java, jars)}{SUFFIX}"
        self._is_there = False
        self.is_left = False
        """Whether the JVM writes the file as it ends, which takes some seconds more."""
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._adopt()
            self.is_left = not self._is_there and shutil.disk_usage(folder).free >> 20 >= FREE_MB_MIN

    @property
    def options(self) -> str:
        """Options for the command line of the JVM."""
        if self._is_there:
            return f"{READ.format(shlex.quote(str(self._path)))} {SILENT}"
        if self.is_left:
            # The file has a name of its own until it is complete: another run must not use half of it.
            new = self._path.with_suffix(f".{secrets.token_hex(4)}")
            return f"{LEAVE.format(shlex.quote(str(new)))} {SILENT}"
        return ""

    def _adopt(self) -> None:
        """Takes an archive that an earlier JVM has completed, and deletes archives that are of no more use."""
        for left in self._path.parent.glob("spark-*"):
            if left.suffix == SUFFIX:
                continue
            # Also archives of another Java or Spark, whose runs may never come back.
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
    """Whether a file is complete: the JVM writes its first bytes last."""
    with archive.open("rb") as file:
        return any(file.read(4))


def _digest(java: Path, jars: Path) -> str:
    """A digest of Java and of Spark's jars: the JVM uses an archive only with the files that it was made from."""
    of = hashlib.blake2b(digest_size=8)
    for file in (java.resolve(), *sorted(jars.glob("*.jar"))):
        about = file.stat()
        of.update(f"{file} {about.st_size} {about.st_mtime_ns}\n".encode())
    return of.hexdigest()
