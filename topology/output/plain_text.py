"""Text for people: findings in groups, a summary line, and the explanation of a rule."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

from openclust.shell.host.event_log import escape
from topology.rules.finding import FileReport, Finding, Severity
from topology.rules.rule import GROUPS, RULES, Rule

if TYPE_CHECKING:
    from topology.output.formats import Count

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
WIDTH = 100


def show_reports(reports: Sequence[FileReport], stream: TextIO, *, only_summaries: bool = False) -> None:
    """All reports, and a summary at the end. Colour only where the stream is a terminal."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for report in reports:
        for each in report.fixed:
            console.print(Text(f"{escape(report.file)}: ", style="bold").append("fixed ", style="green").append(each))
    for report in reports:
        if report.findings and not only_summaries:
            _show_findings(console, report)
    for report in reports:
        console.print(_summary(report))


def show_statistics(counts: Sequence[Count], stream: TextIO) -> None:
    """The number of findings of each rule, with a star if `--fix` can fix some of them."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    width = max((len(str(each.count)) for each in counts), default=0)
    for each in counts:
        line = Text(f"{each.count:>{width}} ").append(
            f"{each.severity:8}", style=STYLES[Severity[each.severity.upper()]]
        )
        line.append(f"{each.code} ", style="bold").append("[*] " if each.is_fixable else "[ ] ")
        console.print(line.append(each.title))
    if counts:
        console.print()


def show_rule(rule: Rule, stream: TextIO) -> None:
    console = Console(file=stream, highlight=False, soft_wrap=True)
    head = Text(rule.code, style="bold")
    head.append(f"  {rule.title}\n").append(rule.severity.word, style=STYLES[rule.severity])
    console.print(head.append(f", {rule.group}"))
    for title, text in (("Why", rule.why), ("What to do", rule.fix)):
        console.print(Text(f"\n{title}", style="bold"))
        console.print(Text(textwrap.fill(text, WIDTH)))


def show_rules(rules: Sequence[Rule], stream: TextIO) -> None:
    """A line for each rule, under its group."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for group, of_group in groupby(rules, key=lambda each: each.group):
        console.print(Text(group, style="bold"))
        for each in of_group:
            text = Text("  ").append(each.code, style="bold").append(f" {each.severity.word:8}", STYLES[each.severity])
            console.print(text.append(each.title))


def _show_findings(console: Console, report: FileReport) -> None:
    console.print(Text(escape(report.file), style="bold underline"))
    by_group = sorted(report.findings, key=lambda each: each.code[:3])
    for group, findings in groupby(by_group, key=lambda each: each.code[:3]):
        console.print(Text(f"  {GROUPS[group]}", style="bold"))
        for code, same in groupby(findings, key=lambda each: each.code):
            of_rule = list(same)
            for each in of_rule:
                console.print(_line(each))
            console.print(Text(f"             {RULES[code].fix}", style="dim"))
    console.print()


def _line(finding: Finding) -> Text:
    text = Text("    ").append(f"{finding.severity.word:8}", style=STYLES[finding.severity])
    place = f"line {finding.line}" if finding.line else ""
    if place and finding.column:
        place += f", column {finding.column}"
    text.append(f" {finding.code} ", style="bold")
    return text.append(escape(finding.message)).append(f" ({place})" if place else "", style="dim")


def _summary(report: FileReport) -> Text:
    text = Text(f"{escape(report.file)}: ", style="bold")
    if report.is_bad_input:
        count = len(report.findings)
        text.append(f"cannot be used, {count} problem{'s' if count != 1 else ''}", style=STYLES[Severity.ERROR])
        return text.append(f", {len(report.fixed)} fixed" if report.fixed else "").append(_fixable(report))
    if not report.findings:
        text.append("clean", style="green")
    parts = [
        (f"{count} {_plural(severity, count)}", STYLES[severity])
        for severity in sorted(Severity, reverse=True)
        if (count := report.counts[severity])
    ]
    for i, (words, style) in enumerate(parts):
        text.append(", " if i else "").append(words, style=style)
    old = sum(each.is_old for each in report.ignored)
    if len(report.ignored) > old:
        text.append(f", {len(report.ignored) - old} ignored")
    if old:
        text.append(f", {old} old")
    if report.mended:
        text.append(f", {report.mended} of the baseline mended (write it anew)", style="green")
    if report.fixed:
        text.append(f", {len(report.fixed)} fixed", style="green")
    text.append(_fixable(report), style="cyan")
    return text.append(
        f" ({report.brokers} broker{'s' if report.brokers != 1 else ''}, {report.rules} rules)", style="dim"
    )


def _fixable(report: FileReport) -> str:
    """How many findings `--fix` would fix."""
    if report.fixable:
        more = f", {report.fixable_unsafe} more with --unsafe-fixes" if report.fixable_unsafe else ""
        return f", {report.fixable} can be mended with --fix{more}"
    return f", {report.fixable_unsafe} can be mended with --fix --unsafe-fixes" if report.fixable_unsafe else ""


def _plural(severity: Severity, count: int) -> str:
    return severity.word if severity is Severity.INFO or count == 1 else f"{severity.word}s"
