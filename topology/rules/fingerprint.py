"""Fingerprints, by which code scanners and baselines recognise a finding in a later run."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath

from topology.rules.finding import Finding


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """A unique fingerprint for each finding. Findings with equal text are numbered."""
    alike: Counter[str] = Counter()
    found = []
    for each in findings:
        print_ = fingerprint(each)
        alike[print_] += 1
        found.append(print_ if alike[print_] == 1 else f"{print_}:{alike[print_]}")
    return found


def fingerprint(finding: Finding) -> str:
    """A hash that stays the same when lines move and quantities change.

    The message is part of it, because one rule may have several findings about one broker.
    """
    names = {*finding.brokers, *finding.nodes, *(name for pair in finding.links for name in pair)}
    file = PurePath(finding.file).as_posix()
    parts = (finding.code, file, *sorted(names), _without_quantities(finding.message))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _without_quantities(message: str) -> str:
    """The message with each number replaced by 0, except in names, addresses and quotes."""
    return re.sub(r"(?<![\w.:'\"/@-])\d[\d,]*(?:\.\d+)?(?![\w:'\"/@-]|\.\w)", "0", message)
