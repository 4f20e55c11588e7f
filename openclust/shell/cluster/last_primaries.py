"""The list of primaries of this broker's last run: brokers that go by different lists could elect two roots."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from openclust.shell.host.atomic_file import replace_file

log = logging.getLogger("openclust.cluster")

FILE = "primaries"
BYTES_MAX = 65_536


def last_primaries(data_dir: str) -> list[str]:
    """The list of the last run; empty if there was none. A file that cannot be read is logged."""
    path = os.path.join(data_dir, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(BYTES_MAX).split()
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        log.warning("cannot read %s: %s", path, getattr(error, "strerror", None) or "it is not text")
    return []


def look_at_primaries(data_dir: str | None, primaries: Sequence[str]) -> None:
    """Warn if the list has changed, and write it down. A file that cannot be written does not stop the broker."""
    if data_dir is None:
        return
    path = os.path.join(data_dir, FILE)
    names = sorted(primaries)
    before = last_primaries(data_dir)
    if before == names:
        return
    if before:
        log.warning(
            "the primaries were %s, and are %s now: none of them may run with the old list (docs/operating.md)",
            ", ".join(before),
            ", ".join(names),
        )
    try:
        replace_file(path, "".join(f"{name}\n" for name in names).encode())
    except OSError as error:
        log.error("cannot write %s: %s", path, error.strerror)
