"""SARIF 2.1.0, which code scanners show (OASIS, Static Analysis Results Interchange Format).

One run, all rules in it, one result a finding. Ignored findings are in it too, suppressed with their reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from openclust import __version__
from topology.output.formats import LintRun
from topology.rules.finding import FileReport, Finding, Severity
from topology.rules.fingerprint import fingerprints
from topology.rules.rule import Rule, all_rules

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "openclust/v2"
PAGE = Path(__file__).parents[1] / "rules" / "README.md"
"""The installed page of all rules. A link to it works on the machine where the command ran."""

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def document(run: LintRun) -> str:
    rules = all_rules()
    index = {each.code: i for i, each in enumerate(rules)}
    results = [told for each in run.results for told in _results(each.report, index)]
    driver = {"name": "openclust-lint", "version": __version__, "rules": [_rule(each, run.docs_url) for each in rules]}
    told: dict[str, Any] = {
        "tool": {"driver": driver},
        "invocations": [
            {
                "executionSuccessful": not any(each.report.is_bad_input for each in run.results),
                "exitCode": run.exit_code,
                "startTimeUtc": f"{run.began}Z",
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    survivals = {each.report.file: each.survival for each in run.results if each.survival is not None}
    if survivals:
        told["properties"] = {"survival": {file: msgspec.to_builtins(each) for file, each in survivals.items()}}
    whole = {"$schema": SCHEMA, "version": "2.1.0", "runs": [told]}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"


def _rule(rule: Rule, docs_url: str) -> dict[str, Any]:
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "helpUri": f"{docs_url or PAGE.as_uri()}#{rule.code.lower()}",
        "help": {"text": rule.fix, "markdown": f"{rule.why}\n\n**What to do:** {rule.fix}"},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
        "properties": {"tags": [rule.group]},
    }


def _results(report: FileReport, index: dict[str, int]) -> Iterator[dict[str, Any]]:
    everything = (*report.findings, *report.ignored)
    for place, (finding, print_) in enumerate(zip(everything, fingerprints(everything), strict=True)):
        yield _result(finding, print_, index, is_ignored=place >= len(report.findings))


def _result(finding: Finding, print_: str, index: dict[str, int], *, is_ignored: bool) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri_of(finding.file)}}
    if finding.line:
        physical["region"] = {"startLine": finding.line}
        if finding.column:
            physical["region"]["startColumn"] = finding.column
    location: dict[str, Any] = {"physicalLocation": physical}
    logical = [{"name": name, "kind": "broker"} for name in finding.brokers]
    logical += [{"name": name, "kind": "node"} for name in finding.nodes]
    logical += [{"name": " - ".join(pair), "kind": "link"} for pair in finding.links]
    if logical:
        location["logicalLocations"] = logical
    told: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: print_},
    }
    if is_ignored:
        told["suppressions"] = [{"kind": "external" if finding.is_old else "inSource", "justification": finding.reason}]
    return told


def uri_of(file: str) -> str:
    """A path as a URI reference, relative to where the command ran unless it is absolute."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), safe="/:@" if "://" in file else "/@")
