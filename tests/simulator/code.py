"""Which code a sweep ran: seeds of the same brokers add up, on whatever day and machine they were run.

The simulator has a digest of its own: where it has become better at telling right from wrong, the brokers that passed
are the same.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIGITS = 12
APART = {"__main__.py", "code.py"}
"""They decide which seeds are run, not what a seed does."""


BROKERS, SIMULATOR = "openclust", "tests"


def digest(folder: str) -> str:
    """Of all modules of that folder that are loaded: a run needs no others."""
    files = {
        Path(module.__file__)
        for module in list(sys.modules.values())
        if getattr(module, "__file__", None) and module.__file__.endswith(".py")
    }
    files = {file for file in files if file.name not in APART}
    ours = sorted(file.relative_to(ROOT) for file in files if file.is_relative_to(ROOT / folder))
    return digest_of((file.as_posix(), (ROOT / file).read_text(encoding="utf-8")) for file in ours)


def digest_of(sources: Iterable[tuple[str, str]]) -> str:
    """Blank lines, and lines that are a comment, change nothing."""
    found = hashlib.sha256()
    for name, text in sources:
        lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        found.update("\n".join([name, *lines, ""]).encode())
    return found.hexdigest()[:DIGITS]
