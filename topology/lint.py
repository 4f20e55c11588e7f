"""Reading a cluster file and asking all rules about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from openclust.shell.config import Config, ConfigError
from openclust.shell.config_file import Loaded, load
from topology.building import build
from topology.finding import Finding, Found, Report, in_order
from topology.live import Live
from topology.model import Model
from topology.rule import RULES, Rule, all_rules

SYNTAX, UNKNOWN_KEY, WRONG_VALUE = "OC101", "OC102", "OC103"


def read(path: str | Path) -> Loaded:
    """What the file says, of all brokers; ConfigError where it cannot be used. The files it names need not be there."""
    return load(path, environ={}, cluster_key_required=False, files_required=False, for_one_broker=False)


def check(
    path: str | Path, *, select: Sequence[str] = (), ignore: Sequence[str] = (), live: Live | None = None
) -> tuple[Report, Model | None]:
    """The report of a file, and its model, which there is none of where the file cannot be used."""
    (found,) = check_all([path], select=select, ignore=ignore, live=live)
    return found


def check_all(
    paths: Sequence[str | Path], *, select: Sequence[str] = (), ignore: Sequence[str] = (), live: Live | None = None
) -> list[tuple[Report, Model | None]]:
    """As `check`, for several files, which are also held against each other."""
    read_or_not: list[Loaded | ConfigError] = []
    for path in paths:
        try:
            read_or_not.append(read(path))
        except ConfigError as error:
            read_or_not.append(error)
    found: list[tuple[Report, Model | None]] = []
    for path, loaded in zip(paths, read_or_not, strict=True):
        if isinstance(loaded, ConfigError):
            found.append((bad_input(str(path), loaded.problems), None))
            continue
        others = tuple(
            (str(other), each.config.cluster_key)
            for other, each in zip(paths, read_or_not, strict=True)
            if isinstance(each, Loaded) and _are_two_clusters(loaded.config, each.config)
        )
        model = build(loaded, file=str(path), others=others, live=live)
        found.append((lint(model, select=select, ignore=ignore), model))
    return found


def _are_two_clusters(one: Config, other: Config) -> bool:
    """Whether two files are of clusters of their own: they have primaries, and not one of these in common."""
    lists = [{(name, each.peer) for name, each in config.cluster.primaries.items()} for config in (one, other)]
    return all(lists) and not lists[0] & lists[1]


def lint(model: Model, *, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> Report:
    """What the rules find in a model. `select` and `ignore` are ids or beginnings of them, such as "OC4".

    With `select` no others are asked; `ignore` is stronger than `select`.
    """
    rules = [
        each
        for each in all_rules()
        if each.check is not None and each.can_be_asked(model) and is_wanted(each.code, select, ignore)
    ]
    findings = [_finding(model, rule, found) for rule in rules if rule.check for found in rule.check(model)]
    left, ignored = _without_ignored(model, findings)
    return Report(
        file=model.file,
        findings=in_order(left),
        ignored=in_order(ignored),
        brokers=len(model.brokers),
        asked=tuple(each.code for each in rules),
    )


def is_wanted(code: str, select: Iterable[str], ignore: Iterable[str]) -> bool:
    chosen = tuple(select)
    return (not chosen or code.startswith(chosen)) and not code.startswith(tuple(ignore))


def bad_input(file: str, problems: Iterable[str]) -> Report:
    """The report of a file that cannot be used. Each problem is a line that may begin with file and place."""
    all_rules()
    return Report(file=file, findings=in_order([_problem(file, each) for each in problems]), is_bad_input=True)


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


def _without_ignored(model: Model, findings: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Those that stay, and those that the file says are meant to be so, with its reason. Without a reason they stay."""
    left: list[Finding] = []
    ignored: list[Finding] = []
    entries = [each for each in model.config.topology.ignore if each.reason.strip()]
    for finding in findings:
        reasons = [
            each.reason
            for each in entries
            if each.rule == finding.code and (not each.brokers or {*finding.brokers} & {*each.brokers})
        ]
        if reasons:
            ignored.append(msgspec.structs.replace(finding, reason=reasons[0]))
        else:
            left.append(finding)
    return left, ignored
