"""Fixes of a cluster file that a program can make: names in another spelling, a port or key with a usual value.

A fix is safe if the file can have meant nothing else: capitals, dashes for underscores, spaces around a name, a port
that is left out. A fix that is a guess, or changes what a broker does, is made only on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from topology.model.graph import Model
from topology.rules.finding import Finding

PASSES_MAX = 10
"""How often a file is checked again. A fix may uncover other findings: rules need a file that can be used."""

PORTS = {"client": 5672, "peer": 5682, "http": 15672}

NAMES = ("OC104", "OC106")
"""The findings of a name that nothing has."""

INSERTED = {
    "OC410": 'data_dir = "/var/lib/openclust"',
    "OC701": 'secret_file = "cluster.secret"',
}
"""The line to insert into [cluster] for each finding of a missing key."""


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one line: `old` in it is replaced by `new`; without `old`, `new` is inserted as a line after it."""

    code: str
    line: int
    old: str
    new: str
    is_safe: bool

    @property
    def text(self) -> str:
        what = f"{self.old} is {self.new} now" if self.old else f"{self.new} is new"
        return f"{self.code} {what} (line {self.line + (not self.old)})"


def fixes_of(text: str, findings: Iterable[Finding], model: Model | None) -> list[Fix]:
    """The fixes for findings of a file with this text. `model` is that of the file, if it can be used."""
    lines = text.splitlines()
    found: list[Fix] = []
    for finding in findings:
        if finding.code == "OC208":
            continue  # places are fixed below, all at once: one finding may stand for many lines
        found += _of_finding(finding, lines)
    if model is not None and any(each.code == "OC208" for each in findings):
        found += _of_places(model, lines)
    return list(dict.fromkeys(found))


def fixed(text: str, fixes: Sequence[Fix]) -> str:
    """The text with all fixes. Everything else stays as it is, line ends and comments too."""
    lines = text.splitlines(keepends=True)
    for fix in sorted(fixes, key=lambda each: (each.line, each.old == ""), reverse=True):
        line = lines[fix.line - 1]
        if not fix.old:
            body = line.rstrip("\r\n")
            end = line[len(body) :] or "\n"
            lines[fix.line - 1] = f"{body}{end}{fix.new}{end}"
        elif line.count(fix.old) == 1:
            lines[fix.line - 1] = line.replace(fix.old, fix.new)
    return "".join(lines)


def _of_finding(finding: Finding, lines: Sequence[str]) -> Iterator[Fix]:
    if not 0 < finding.line <= len(lines):
        return
    if finding.code in INSERTED:
        yield from _inserted(finding, lines)
    elif match := re.search(r"\.(\w+): wanted HOST:PORT.*, not '([\w.-]+|\[[0-9a-fA-F:.]+\])'$", finding.message):
        kind, address = match.groups()
        if kind in PORTS:
            yield from _replaced(finding, finding.line, lines, address, f"{address}:{PORTS[kind]}")
    elif match := re.search(r"did you mean '([^']+)'\?$", finding.message):
        good = match[1]
        bad = next(iter(re.findall(r"'([^']*)'", finding.message[: match.start()])), "")
        if finding.code in NAMES:
            # The name is in some line of the entry that begins here, or in several entries of a list.
            for number in _entry(finding.line, lines):
                yield from _replaced(finding, number, lines, bad, good)
            return
        # The finding does not name the wrong word of an enumeration: it differs from the right one only in spelling.
        line = lines[finding.line - 1]
        others = [each for each in re.findall(r"""["']([^"']*)["']""", line) if _bare(each) == _bare(good)]
        for each in (bad, *others):
            if each != good and (fixes := list(_replaced(finding, finding.line, lines, each, good))):
                yield from fixes
                return


def _entry(first: int, lines: Sequence[str]) -> Iterator[int]:
    """The numbers of the lines from the first to the next section."""
    yield first
    for number in range(first + 1, len(lines) + 1):
        if re.match(r"\s*\[\[?[\w.\s\"'-]+\]\]?\s*(?:#|$)", lines[number - 1]):
            return
        yield number


def _replaced(finding: Finding, number: int, lines: Sequence[str], bad: str, good: str) -> Iterator[Fix]:
    """The fix of a name in a line that has it exactly once, as a whole string or as a whole key."""
    line = lines[number - 1]
    is_safe = _is_same(bad, good)
    for old, new in ((f'"{bad}"', f'"{good}"'), (f"'{bad}'", f"'{good}'")):
        if line.count(old) == 1:
            yield Fix(code=finding.code, line=number, old=old, new=new, is_safe=is_safe)
            return
    is_key = re.fullmatch(r"[\w-]+", bad) and re.fullmatch(r"[\w-]+", good)
    whole = re.findall(rf"(?<![\w\"'-]){re.escape(bad)}(?=\s*[=.\]])", line) if is_key else []
    if len(whole) == 1 and line.count(bad) == 1:
        yield Fix(code=finding.code, line=number, old=bad, new=good, is_safe=is_safe)


def _is_same(bad: str, good: str) -> bool:
    """Whether these are two spellings of one name, or an address without and with its port."""
    return _bare(bad) == _bare(good) or bool(re.fullmatch(rf"{re.escape(bad)}:\d+", good))


def _bare(name: str) -> str:
    return name.strip().lower().replace("-", "_")


def _inserted(finding: Finding, lines: Sequence[str]) -> Iterator[Fix]:
    """The fix that inserts a key at the beginning of [cluster], if the file has that section."""
    for number, line in enumerate(lines, start=1):
        if re.match(r"\s*\[\s*cluster\s*\]", line):
            yield Fix(code=finding.code, line=number, old="", new=INSERTED[finding.code], is_safe=False)
            return


def _of_places(model: Model, lines: Sequence[str]) -> Iterator[Fix]:
    """Fixes of all spellings of a place but the most frequent."""
    for domain in model.domains.values():
        (usual, _), *others = domain.spellings
        for spelling, users in others:
            for what, name in users:
                section = ("topology", "nodes") if what == "node" else ("topology", "secondaries")
                if what == "broker" and model.brokers[name].is_primary:
                    section = ("cluster", "primaries")
                number = model.line(*section, name, domain.kind)
                line = lines[number - 1] if 0 < number <= len(lines) else ""
                pattern = rf"""(?<![\w-]){domain.kind}\s*=\s*(?:"{re.escape(spelling)}"|'{re.escape(spelling)}')"""
                told = re.findall(pattern, line)
                if len(told) == 1 and '"' not in usual and "\\" not in usual and usual.isprintable():
                    begin = re.split("[\"']", told[0])[0]
                    yield Fix(code="OC208", line=number, old=told[0], new=f'{begin}"{usual.strip()}"', is_safe=True)
