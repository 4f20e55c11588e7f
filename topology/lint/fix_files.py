"""Fixes whole files: checks them, applies fixes, and checks again, until no fix is left."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

import msgspec

from openclust.shell.config.load import FILE_BYTES_MAX
from topology.lint.fixes import PASSES_MAX, Fix, fixed, fixes_of
from topology.model.graph import Model
from topology.rules.finding import FileReport

Checked = list[tuple[FileReport, Model | None]]
Check = Callable[[Mapping[str, bytes]], Checked]
"""Checks the files by all rules; the mapping has new contents of some of them."""


class Change(msgspec.Struct, frozen=True):
    """The text of a file before and after its fixes."""

    file: str
    before: str
    after: str

    @property
    def diff(self) -> str:
        lines = unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            self.file,
            self.file,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def write(self) -> None:
        """Replace the file atomically: a reader gets either the old text or the new one."""
        path = Path(self.file).resolve()
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
                stream.write(self.after)
            os.chmod(name, path.stat().st_mode & 0o7777)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise


def fix_all(files: Sequence[str], check: Check, *, unsafe: bool) -> tuple[Checked, list[Change]]:
    """The findings after all fixes, with the fixed ones, and the change of each file. Nothing is written."""
    before = {file: text for file in files if (text := text_of(file)) is not None}
    after = dict(before)
    done: dict[str, list[str]] = {}
    for _ in range(PASSES_MAX):
        checked = check({file: text.encode() for file, text in after.items() if text != before[file]})
        is_changed = False
        for report, model in checked:
            text = after.get(report.file, "")
            fixes = [each for each in fixes_of(text, report.findings, model) if each.is_safe or unsafe]
            mended, made = _mended(text, fixes)
            if mended != text:
                after[report.file] = mended
                done.setdefault(report.file, []).extend(each.text for each in made)
                is_changed = True
        if not is_changed:
            break
    checked = [
        (msgspec.structs.replace(report, fixed=tuple(done.get(report.file, ()))), model) for report, model in checked
    ]
    return checked, [Change(file, before[file], text) for file, text in after.items() if text != before[file]]


def _mended(text: str, fixes: Sequence[Fix]) -> tuple[str, Sequence[Fix]]:
    """The text with these fixes, and those applied. A fix that makes invalid TOML (a duplicate key) is left out."""
    whole = fixed(text, fixes)
    if _is_toml(whole):
        return whole, fixes
    made = [each for each in fixes if _is_toml(fixed(text, [each]))]
    whole = fixed(text, made)
    return (whole, made) if _is_toml(whole) else (text, [])


def with_fixable(checked: Checked) -> Checked:
    """The same reports, each with the number of findings that can be fixed."""
    found: Checked = []
    for report, model in checked:
        fixes = fixes_of(text_of(report.file) or "", report.findings, model)
        safe = sum(each.is_safe for each in fixes)
        codes = tuple(sorted({each.code for each in fixes if each.is_safe}))
        report = msgspec.structs.replace(report, fixable=safe, fixable_unsafe=len(fixes) - safe, fixable_codes=codes)
        found.append((report, model))
    return found


def text_of(file: str) -> str | None:
    """The text of a file; None if it cannot be read, or is no text."""
    try:
        with open(file, "rb") as stream:
            return stream.read(FILE_BYTES_MAX + 1).decode()
    except (OSError, UnicodeDecodeError, ValueError):
        return None


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return True
