"""What tells one finding from another, from run to run: for code scanners, and for a baseline."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath

from topology.rules.finding import Finding


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """A fingerprint of each, no two alike: a second finding that reads the same is the second of its kind."""
    alike: Counter[str] = Counter()
    found = []
    for each in findings:
        print_ = fingerprint(each)
        alike[print_] += 1
        found.append(print_ if alike[print_] == 1 else f"{print_}:{alike[print_]}")
    return found


def fingerprint(finding: Finding) -> str:
    """The same as long as the finding is: it does not hang on lines, which move, nor on quantities, which change.

    The message is part of it, since one rule may find several things wrong with one broker.
    """
    names = {*finding.brokers, *finding.nodes, *(name for pair in finding.links for name in pair)}
    file = PurePath(finding.file).as_posix()
    parts = (finding.code, file, *sorted(names), _without_quantities(finding.message))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _without_quantities(message: str) -> str:
    """The message with 0 for numbers that stand alone. Those in names, addresses and quotes stay as they are."""
    return re.sub(r"(?<![\w.:'\"/@-])\d[\d,]*(?:\.\d+)?(?![\w:'\"/@-]|\.\w)", "0", message)
