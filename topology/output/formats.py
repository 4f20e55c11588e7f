"""The formats of findings. All have the same contents, and none changes the exit code."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

import msgspec

from topology.rules.finding import FileReport, Finding, Severity
from topology.survive.combinations import Survival


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The report and the survival of one file."""

    report: FileReport
    survival: Survival | None = None

    @property
    def has_shortfall(self) -> bool:
        """Whether the cluster does not survive the failures that the command requires."""
        return self.survival is not None and bool(self.survival.shortfall)

    def exit_code(self, fail_level: Severity) -> int:
        return max(self.report.exit_code(fail_level), int(self.has_shortfall))


def result_of(report: FileReport, *, survival: Survival | None = None) -> Result:
    """A result that every format can encode: names of files may hold bytes that are no UTF-8."""
    replace = msgspec.structs.replace
    file = encodable(report.file)
    findings, ignored = (
        tuple(replace(each, file=encodable(each.file), message=encodable(each.message)) for each in found)
        for found in (report.findings, report.ignored)
    )
    return Result(report=replace(report, file=file, findings=findings, ignored=ignored), survival=survival)


def encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


class LintRun(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one run of the command. `began` is a time in UTC, as `2026-01-31T09:30:00`.

    `docs_url` is that of the page of all rules; empty for the installed page.
    """

    results: tuple[Result, ...]
    fail_level: Severity = Severity.ERROR
    began: str = "1970-01-01T00:00:00"
    docs_url: str = ""
    only_counts: bool = False
    """Whether findings are only counted by rule."""

    @property
    def exit_code(self) -> int:
        return max((each.exit_code(self.fail_level) for each in self.results), default=0)


class Count(msgspec.Struct, frozen=True):
    """The number of a rule's findings. `is_fixable`: `--fix` can fix some of them."""

    code: str
    severity: str
    title: str
    count: int
    is_fixable: bool


def statistics(reports: Iterable[FileReport]) -> list[Count]:
    """The counts of all rules with findings, the most frequent first; each with the worst severity of its findings."""
    from topology.rules.rule import RULES

    found: dict[str, list[Finding]] = {}
    fixable: set[str] = set()
    for report in reports:
        fixable.update(report.fixable_codes)
        for each in report.findings:
            found.setdefault(each.code, []).append(each)
    counts = [
        Count(code, max(each.severity for each in those).word, RULES[code].title, len(those), code in fixable)
        for code, those in found.items()
    ]
    return sorted(counts, key=lambda each: (-each.count, each.code))


def text(run: LintRun) -> str:
    stream = io.StringIO()
    show_text(run, stream)
    return stream.getvalue()


def show_text(run: LintRun, stream: TextIO) -> None:
    """Text for people, in colours on a terminal. Survival comes first, so that the summary of findings is last."""
    from topology.output.plain_text import show_reports, show_statistics
    from topology.survive.survival_text import show_required, show_survival

    for each in run.results:
        if each.survival is not None:
            show_survival(each.survival, stream, title=each.report.file)
    reports = [each.report for each in run.results]
    if run.only_counts:
        show_statistics(statistics(reports), stream)
    show_reports(reports, stream, only_summaries=run.only_counts)
    for each in run.results:
        if each.survival is not None and each.survival.required:
            show_required(each.survival, stream, title=each.report.file)


def _json(run: LintRun) -> str:
    from topology.output.json_document import document

    return document(run)


def _sarif(run: LintRun) -> str:
    from topology.output.sarif import document

    return document(run)


def _junit(run: LintRun) -> str:
    from topology.output.junit import document

    return document(run)


def _github(run: LintRun) -> str:
    from topology.output.github import commands

    return commands(run)


def _markdown(run: LintRun) -> str:
    from topology.output.markdown import comment

    return comment(run)


FORMATS: dict[str, Callable[[LintRun], str]] = {
    "text": text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
    "junit": _junit,
    "markdown": _markdown,
}


def named(given: Sequence[str]) -> list[tuple[str, str]]:
    """Format and file of each `FORMAT:FILE`; the format is empty if only a file is named, and may be unknown."""
    found = []
    for each in given:
        word, colon, file = each.partition(":")
        found.append((word, file) if colon and word.isalpha() and len(word) > 1 else ("", each))
    return found
