"""Reads a cluster file and checks it by all rules."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from openclust.shell.config.load import FILE_BYTES_MAX, Loaded, load
from openclust.shell.config.schema import ConfigError, Ignore
from topology.model.building import build, hosts_of
from topology.model.graph import Model, Other
from topology.model.live_cluster import Live
from topology.model.resolving import resolve
from topology.model.words import few
from topology.rules.finding import FileReport, Finding, Found, in_order
from topology.rules.rule import RULES, UNMATCHED, Rule, all_rules

SYNTAX, UNKNOWN_KEY, WRONG_VALUE = "OC101", "OC102", "OC103"

STDIN = "-"

ALIKE_SHOWN_MAX = 4
"""Of similar findings the first is reported whole; of so many others only the subjects are named."""


def read(path: str | Path, content: bytes | None = None) -> Loaded:
    """The file's configuration of all brokers. Raises ConfigError if the file cannot be used.

    The files that it names need not exist. `STDIN` is standard input, which can be read once.
    `content` replaces the file's own.
    """
    if content is None and str(path) == STDIN:
        content = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    return load(
        path, environ={}, cluster_key_required=False, files_required=False, for_one_broker=False, content=content
    )


def check(
    path: str | Path, *, select: Sequence[str] = (), ignore: Sequence[str] = (), live: Live | None = None
) -> tuple[FileReport, Model | None]:
    """The report of a file, and its model; the model is None if the file cannot be used."""
    (found,) = check_all([path], select=select, ignore=ignore, live=live)
    return found


def check_all(
    paths: Sequence[str | Path],
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    live: Live | None = None,
    with_resolver: bool = False,
    contents: Mapping[str, bytes] | None = None,
) -> list[tuple[FileReport, Model | None]]:
    """Like `check`, for several files, which are also compared with each other. Who wants it has the resolver asked.

    `contents` are looked at in place of what stands in these files.
    """
    read_or_not: list[Loaded | ConfigError] = []
    for path in paths:
        try:
            read_or_not.append(read(path, (contents or {}).get(str(path))))
        except ConfigError as error:
            read_or_not.append(error)
    usable = [each for each in read_or_not if isinstance(each, Loaded)]
    hosts = (host for each in usable for entry in hosts_of(each) for host in entry)
    resolved = resolve(hosts) if with_resolver else None
    found: list[tuple[FileReport, Model | None]] = []
    for path, loaded in zip(paths, read_or_not, strict=True):
        if isinstance(loaded, ConfigError):
            found.append((bad_input(str(path), loaded.problems), None))
            continue
        others = tuple(
            Other(str(other), each.config)
            for other, each in zip(paths, read_or_not, strict=True)
            if isinstance(each, Loaded) and each is not loaded
        )
        model = build(loaded, file=str(path), others=others, live=live, resolved=resolved)
        found.append((lint(model, select=select, ignore=ignore), model))
    return found


def lint(model: Model, *, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> FileReport:
    """The findings of the rules in a model. `select` and `ignore` are ids or beginnings of them, such as "OC4".

    With `select` only these rules are checked; `ignore` overrules `select`.
    """
    rules = [
        each
        for each in all_rules()
        if (each.check is not None or each.code == UNMATCHED)
        and each.can_be_asked(model)
        and is_wanted(each.code, select, ignore)
    ]
    asked = tuple(each.code for each in rules)
    findings = [(_finding(model, rule, found), found) for rule in rules if rule.check for found in rule.check(model)]
    if UNMATCHED in asked:
        unmatched = _unmatched(model, [finding for finding, _ in findings], asked)
        findings += [(_finding(model, RULES[UNMATCHED], found), found) for found in unmatched]
    left, ignored = (_merged(each) for each in _without_ignored(model, findings))
    return FileReport(
        file=model.file, findings=in_order(left), ignored=in_order(ignored), brokers=len(model.brokers), asked=asked
    )


def _unmatched(model: Model, findings: list[Finding], asked: Sequence[str]) -> Iterator[Found]:
    """The entries of `[[topology.ignore]]` that match no finding, for rules that were checked."""
    for index, entry in enumerate(model.config.topology.ignore):
        if (
            entry.rule in asked
            and entry.rule != UNMATCHED
            and not any(_is_ignored_by(each, entry) for each in findings)
        ):
            of = f" of {few(entry.brokers)}" if entry.brokers else ""
            yield Found(
                f"topology.ignore: {entry.rule}{of} was not found, so that nothing is ignored",
                line=model.line("topology", "ignore", str(index)),
            )


def _is_ignored_by(finding: Finding, entry: Ignore) -> bool:
    return entry.rule == finding.code and (not entry.brokers or not {*finding.brokers}.isdisjoint(entry.brokers))


def is_wanted(code: str, select: Iterable[str], ignore: Iterable[str]) -> bool:
    chosen = tuple(select)
    return (not chosen or code.startswith(chosen)) and not code.startswith(tuple(ignore))


def bad_input(file: str, problems: Iterable[str]) -> FileReport:
    """The report of a file that cannot be used. Each problem is a line that may begin with file and place."""
    all_rules()
    return FileReport(file=file, findings=in_order([_problem(file, each) for each in problems]), is_bad_input=True)


def _problem(file: str, text: str) -> Finding:
    line = column = 0
    rest = text
    if text.startswith(file):
        rest = text[len(file) :]
        match = re.match(r"(?: line (\d+)(?:, column (\d+))?)?: ", rest)
        if match is not None:
            line, column = int(match[1] or 0), int(match[2] or 0)
            rest = rest[match.end() :]
    code = WRONG_VALUE
    if re.match(r"(?:\S+: )?unknown (?:key|section) ", rest):
        code = UNKNOWN_KEY
    elif column or _is_of_the_file(rest):
        code = SYNTAX
    rule = RULES[code]
    return Finding(code=code, severity=rule.severity, message=rest, file=file, line=line, column=column, fix=rule.fix)


def _is_of_the_file(text: str) -> bool:
    return text.startswith(
        ("no such", "the configuration file", "a configuration file", "not UTF-8", "nested too", "Exceeds the limit")
    )


def _finding(model: Model, rule: Rule, found: Found) -> Finding:
    return Finding(
        code=rule.code,
        severity=found.severity or rule.severity,
        message=found.message,
        file=model.file,
        line=found.line or next((line for each in found.brokers if (line := _line_of(model, each))), 0),
        column=found.column,
        brokers=found.brokers,
        nodes=found.nodes,
        links=found.links,
        fix=rule.fix,
    )


def _line_of(model: Model, broker: str) -> int:
    return model.brokers[broker].line if broker in model.brokers else 0


def _merged(findings: Iterable[tuple[Finding, Found]]) -> list[Finding]:
    """Merge similar findings into one: otherwise a triangle has nine, and 4,000 brokers fill the screen."""
    groups: dict[object, list[tuple[Finding, Found]]] = {}
    for number, (finding, found) in enumerate(findings):
        alike = (finding.code, finding.severity, finding.reason, found.alike) if found.alike else number
        groups.setdefault(alike, []).append((finding, found))
    return [_as_one(group) for group in groups.values()]


def _as_one(group: list[tuple[Finding, Found]]) -> Finding:
    (first, _), *others = group
    if not others:
        return first
    subjects = [found.subject for _, found in others]
    rest = [*subjects[: ALIKE_SHOWN_MAX - 1], f"{len(subjects) - ALIKE_SHOWN_MAX + 1} more"]
    shown = subjects if len(subjects) <= ALIKE_SHOWN_MAX else rest
    return msgspec.structs.replace(
        first,
        message=f"{first.message}; likewise {'; '.join(shown)}",
        brokers=tuple(dict.fromkeys(name for each, _ in group for name in each.brokers)),
        nodes=tuple(dict.fromkeys(name for each, _ in group for name in each.nodes)),
        links=tuple(dict.fromkeys(pair for each, _ in group for pair in each.links)),
    )


def _without_ignored(
    model: Model, findings: list[tuple[Finding, Found]]
) -> tuple[list[tuple[Finding, Found]], list[tuple[Finding, Found]]]:
    """The findings to report, and those that the file ignores with a reason. Without a reason they are reported."""
    left: list[tuple[Finding, Found]] = []
    ignored: list[tuple[Finding, Found]] = []
    entries = [each for each in model.config.topology.ignore if each.reason.strip()]
    for finding, found in findings:
        reasons = [each.reason for each in entries if _is_ignored_by(finding, each)]
        if reasons:
            ignored.append((msgspec.structs.replace(finding, reason=reasons[0]), found))
        else:
            left.append((finding, found))
    return left, ignored
