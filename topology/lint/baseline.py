"""A baseline: a file with old findings, which are not reported again, so that a check reports only new ones.

An old finding is recognised by its fingerprint, which does not depend on lines and quantities. The names of files are
relative to the baseline, so that it is valid wherever the command runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from topology.rules.finding import FileReport, Finding
from topology.rules.fingerprint import fingerprints

VERSION = 1
BYTES_MAX = 64 * 2**20


class Old(msgspec.Struct, frozen=True):
    """A finding in the baseline. Only the fingerprint is compared; the rest is for people."""

    file: str
    code: str
    message: str
    fingerprint: str


class Baseline(msgspec.Struct, frozen=True):
    version: int
    findings: tuple[Old, ...]


def read(path: str) -> Baseline:
    """The baseline in a file. Raises ValueError if it is none, OSError if it cannot be read."""
    with open(path, "rb") as stream:
        content = stream.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise ValueError(f"{path}: larger than {BYTES_MAX // 2**20} MB, which no baseline is")
    try:
        found = msgspec.json.decode(content, type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: no baseline: {error}; write it anew with --write-baseline") from None
    if found.version != VERSION:
        raise ValueError(f"{path}: a baseline of version {found.version}, and {VERSION} is read here; write it anew")
    return found


def text_of(reports: Sequence[FileReport], path: str) -> str:
    """The text of a baseline at `path`: all findings of files that can be used."""
    old = [
        Old(seen_from(path, report.file), finding.code, finding.message, print_)
        for report in reports
        if not report.is_bad_input
        for finding, print_ in _with_prints(report, path)
    ]
    old.sort(key=lambda each: (each.file, each.code, each.message, each.fingerprint))
    whole = msgspec.json.encode(Baseline(VERSION, tuple(old)))
    return msgspec.json.format(whole, indent=2).decode() + "\n"


def without_old(report: FileReport, baseline: Baseline, path: str) -> tuple[FileReport, int]:
    """The report with the old findings moved to the ignored ones, and the number of old ones that are gone."""
    if report.is_bad_input:
        return report, 0
    here = seen_from(path, report.file)
    known = {each.fingerprint for each in baseline.findings if each.file == here}
    new: list[Finding] = []
    old: list[Finding] = []
    met: set[str] = set()
    for finding, print_ in _with_prints(report, path):
        if print_ in known:
            met.add(print_)
            old.append(msgspec.structs.replace(finding, reason=f"old: it is in {path}", is_old=True))
        else:
            new.append(finding)
    left = msgspec.structs.replace(report, findings=tuple(new), ignored=(*report.ignored, *old))
    return left, len(known - met)


def seen_from(path: str, file: str) -> str:
    """A file's name as seen from the folder of the baseline."""
    if file == "-" or "://" in file:
        return file
    return Path(os.path.relpath(file, Path(path).parent)).as_posix()


def _with_prints(report: FileReport, path: str) -> list[tuple[Finding, str]]:
    here = seen_from(path, report.file)
    prints = fingerprints(msgspec.structs.replace(each, file=here) for each in report.findings)
    return list(zip(report.findings, prints, strict=True))
