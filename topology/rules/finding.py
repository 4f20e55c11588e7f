"""What a rule found, and all that was found in one file."""

from __future__ import annotations

import enum
from collections import Counter

import msgspec


class Severity(enum.IntEnum):
    """The larger, the worse."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Found(msgspec.Struct, frozen=True):
    """What a rule yields: one line for people that names the brokers concerned, and where to look.

    `severity` is for the case that is less or more grave than the rule's others. A line of 0 is none in particular.
    `nodes` are physical ones, `links` pairs of names as they stand in the file.
    """

    message: str
    brokers: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    line: int = 0
    column: int = 0
    severity: Severity | None = None
    alike: str = ""
    """Findings of one rule with the same text here are told as one: the first, and what the others are about."""
    subject: str = ""
    """What this one is about, in a few words."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of one rule in one file.

    `reason` is why it is ignored, empty where it is not: the file says so, or with `is_old` a baseline.
    """

    code: str
    severity: Severity
    message: str
    file: str
    line: int = 0
    column: int = 0
    brokers: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    fix: str = ""
    reason: str = ""
    is_old: bool = False

    @property
    def place(self) -> str:
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}{f':{self.column}' if line and self.column else ''}"


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be said of one file, the worst first. `ignored` are the findings that the file says are meant to be.

    With `is_bad_input` the file cannot be used at all: the findings say why, and no rule has looked any further.
    """

    file: str
    findings: tuple[Finding, ...]
    ignored: tuple[Finding, ...] = ()
    is_bad_input: bool = False
    brokers: int = 0
    asked: tuple[str, ...] = ()
    """The ids of the rules that were asked, also in vain."""
    fixed: tuple[str, ...] = ()
    """What was mended in the file, a line each."""
    fixable: int = 0
    fixable_unsafe: int = 0
    fixable_codes: tuple[str, ...] = ()
    """How much could be mended: safely, and with a guess; and the ids of what could be safely."""
    mended: int = 0
    """How many findings of the baseline are there no more."""

    @property
    def rules(self) -> int:
        return len(self.asked)

    @property
    def counts(self) -> Counter[Severity]:
        return Counter(each.severity for each in self.findings)

    @property
    def worst(self) -> Severity | None:
        return max((each.severity for each in self.findings), default=None)

    def exit_code(self, fail_level: Severity = Severity.ERROR) -> int:
        """0 clean, 1 findings of that level or above, 2 bad input."""
        if self.is_bad_input:
            return 2
        return int(self.worst is not None and self.worst >= fail_level)


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: (-each.severity, each.code, each.line, each.message)))
