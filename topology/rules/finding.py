"""The findings of rules, and the report of one file."""

from __future__ import annotations

import enum
from collections import Counter

import msgspec


class Severity(enum.IntEnum):
    """A larger value is worse."""

    INFO = 1
    WARNING = 2
    ERROR = 3

    @property
    def word(self) -> str:
        return self.name.lower()


class Found(msgspec.Struct, frozen=True):
    """A finding as a rule yields it: one line for people, with the brokers concerned and the line in the file.

    `severity` overrides that of the rule, for a milder or a worse case. Line 0 stands for the whole file.
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
    """Findings of one rule with the same text here are merged: the first is shown, with the subjects of the others."""
    subject: str = ""
    """The thing that the finding is about, in a few words."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of one rule in one file.

    `reason` tells why the file ignores it, or with `is_old` the baseline;
    it is empty for a finding that is reported.
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
    """The findings of one file, the worst first. `ignored` are those that the file or a baseline ignores.

    With `is_bad_input` the file cannot be used: the findings tell why, and no other rule was checked.
    """

    file: str
    findings: tuple[Finding, ...]
    ignored: tuple[Finding, ...] = ()
    is_bad_input: bool = False
    brokers: int = 0
    asked: tuple[str, ...] = ()
    """The ids of all rules that were checked."""
    fixed: tuple[str, ...] = ()
    """A line for each fix that was applied to the file."""
    fixable: int = 0
    fixable_unsafe: int = 0
    fixable_codes: tuple[str, ...] = ()
    """How many findings have a safe fix, how many an unsafe one, and the ids of those with a safe one."""
    mended: int = 0
    """How many findings of the baseline are gone."""

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
