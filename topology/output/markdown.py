"""Markdown that fits into a comment on a pull request."""

from __future__ import annotations

import re

from topology.output.formats import LintRun, Result
from topology.rules.finding import Finding, Severity
from topology.survive.survival_text import HEADERS, left_out, rows, sentences

CHARACTERS_MAX = 60_000
"""A comment on GitHub may have 65,536."""

MARKS = {Severity.ERROR: "🔴", Severity.WARNING: "🟡", Severity.INFO: "🔵"}


def comment(run: LintRun) -> str:
    parts = [part for each in run.results for part in _parts(each)]
    text, left = "", 0
    for part in parts:
        if left or len(text) + len(part) > CHARACTERS_MAX:
            left += 1
        else:
            text += part
    return text + (f"\n*{left} more lines are left out; the whole is in the other formats.*\n" if left else "")


def _parts(result: Result) -> list[str]:
    report = result.report
    parts = [f"### openclust lint: {safe(report.file)}\n\n{_summary(result)}\n"]
    if report.findings:
        parts.append("\n| | rule | line | what |\n|---|---|---:|---|\n")
        parts += [_row(each) for each in report.findings]
    if report.ignored:
        parts.append(f"\n<details><summary>{len(report.ignored)} ignored by the file or old</summary>\n\n")
        parts.append("| rule | what | reason |\n|---|---|---|\n")
        parts += [f"| {each.code} | {safe(each.message)} | {safe(each.reason)} |\n" for each in report.ignored]
        parts.append("\n</details>\n")
    if result.survival is not None:
        parts.append("\n#### What it survives\n\n")
        parts += [f"- {safe(each)}\n" for each in sentences(result.survival)]
        told = rows(result.survival)
        shown = [i for i in range(len(HEADERS)) if any(row[i] for row in told)]
        if told:
            parts.append(f"\n| {' | '.join(HEADERS[i] for i in shown)} |\n|{'---|' * len(shown)}\n")
            parts += [f"| {' | '.join(safe(row[i]) for i in shown)} |\n" for row in told]
            parts.append(f"\n{left_out(result.survival)}\n")
    return [*parts, "\n"]


def _row(finding: Finding) -> str:
    line = str(finding.line) if finding.line else ""
    fix = f"<br><sub>{safe(finding.fix)}</sub>" if finding.fix else ""
    mark = f"{MARKS[finding.severity]} {finding.severity.word}"
    return f"| {mark} | {finding.code} | {line} | {safe(finding.message)}{fix} |\n"


def _summary(result: Result) -> str:
    report = result.report
    if report.is_bad_input:
        return f"**The file cannot be used** ({len(report.findings)} problems)."
    if not report.findings:
        return f"**Clean**: {report.brokers} brokers, {report.rules} rules."
    counts = [f"{report.counts[each]} {each.word}" for each in sorted(Severity, reverse=True) if report.counts[each]]
    return f"**{', '.join(counts)}** ({report.brokers} brokers, {report.rules} rules)."


def safe(text: str) -> str:
    """The text, escaped so that it contains no markup, no end of a table row and no mention of a person."""
    text = "".join(each if each.isprintable() else " " for each in text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    return re.sub(r"([\\`*_{}\[\]#|~!])", r"\\\1", text)
