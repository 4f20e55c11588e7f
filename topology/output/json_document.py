"""JSON for programs. New keys may be added; `version` changes when a key is removed or changes its meaning."""

from __future__ import annotations

from typing import Any

import msgspec

from topology.output.formats import LintRun, Result, statistics
from topology.rules.finding import Finding, Severity

VERSION = 1


def document(run: LintRun) -> str:
    whole: dict[str, Any] = {
        "version": VERSION,
        "exit_code": run.exit_code,
        "fail_level": run.fail_level.word,
        "files": [_file(each) for each in run.results],
    }
    if run.only_counts:
        del whole["files"]
        whole["statistics"] = msgspec.to_builtins(statistics(each.report for each in run.results))
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"


def _file(result: Result) -> dict[str, Any]:
    report = result.report
    told: dict[str, Any] = {
        "file": report.file,
        "is_bad_input": report.is_bad_input,
        "brokers": report.brokers,
        "rules": report.rules,
        "counts": {each.word: report.counts[each] for each in sorted(Severity, reverse=True)},
        "findings": [finding(each) for each in report.findings],
        "ignored": [finding(each) for each in report.ignored],
        "fixed": list(report.fixed),
        "fixable": report.fixable,
    }
    if result.survival is not None:
        told["survival"] = msgspec.to_builtins(result.survival)
    return told


def finding(each: Finding) -> dict[str, Any]:
    """A finding in plain types. The severity is a word; a line that is not known is null."""
    told: dict[str, Any] = msgspec.to_builtins(each)
    return told | {"severity": each.severity.word, "line": each.line or None, "column": each.column or None}
