"""Finds the files of a trace and checks their first lines, before Spark is started."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from openclust.shell.config.schema import ConfigError
from openclust.shell.tracing.trace_lines import FORMAT
from topology.simulate.trace.trace_schemas import EVENTS, MESSAGE_EVENTS

LINE_BYTES_MAX = 65_536
NAMED_MAX = 5
WAY_OUT = "`openclust start --trace FILE` writes one"


class TraceFiles(NamedTuple):
    json: tuple[Path, ...]
    parquet: tuple[Path, ...]

    @property
    def all(self) -> tuple[Path, ...]:
        return self.json + self.parquet


class _Line(msgspec.Struct):
    """The fields that every line must have."""

    event: str
    at_us: int
    broker: str
    id: str = ""
    sample: int = 0
    format: int = 0
    size: int = 0
    count: int = 0


_DECODER = msgspec.json.Decoder(_Line)


def find_files(given: Iterable[str]) -> TraceFiles:
    """The files of these names, folders and patterns, each once. Each begins as a trace does.

    Raises ConfigError that names all files that are no traces.
    """
    problems: list[str] = []
    found: dict[Path, None] = {}
    for text in given:
        here = list(_meant(text))
        if not here:
            problems.append(f"{text}: no such file, and no folder with *.jsonl or *.parquet in it; {WAY_OUT}")
        found |= dict.fromkeys(here)
    files = TraceFiles(
        tuple(each for each in found if not _is_parquet(each)), tuple(each for each in found if _is_parquet(each))
    )
    problems += [text for each in files.json if (text := _json_problem(each))]
    problems += [text for each in files.parquet if (text := _parquet_problem(each))]
    if problems:
        raise ConfigError(*problems)
    return files


def _meant(text: str) -> Iterator[Path]:
    path = Path(text)
    if path.is_dir() and not _is_parquet(path):
        yield from sorted(
            each.resolve() for each in path.iterdir() if each.suffix in (".jsonl", ".parquet") or _is_parquet(each)
        )
    elif path.exists():
        yield path.resolve()
    else:
        yield from sorted(Path(each).resolve() for each in glob.glob(text, recursive=True))


def _is_parquet(path: Path) -> bool:
    """A file of that name, or a folder that Spark has written."""
    return path.suffix == ".parquet" or (path.is_dir() and any(path.glob("*.parquet")))


def _json_problem(path: Path) -> str:
    try:
        if not path.is_file():
            return f"{path}: is not a file"
        with path.open("rb") as file:
            first = file.readline(LINE_BYTES_MAX)
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    if not first:
        return f"{path}: is empty: nothing was traced, or the broker has not written it yet"
    try:
        line = _DECODER.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"{path}:1: is no trace of a broker: its first line is not one of ours; {WAY_OUT}"
    if line.event != "begin" or line.sample < 1:
        return f"{path}:1: is no whole trace: it must begin with the line that tells the sample"
    if line.format > FORMAT:
        return f"{path}:1: was written by a later openclust (format {line.format}; this one knows {FORMAT})"
    return ""


def _parquet_problem(path: Path) -> str:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        names = set(read_schema(parts[0]).names)  # type: ignore[no-untyped-call]
    except (ArrowException, IndexError, OSError, ValueError):
        return f"{path}: is no Parquet file that can be read"
    missing = sorted({"event", "at_us", "broker", "id", "sample"} - names)
    return f"{path}: is no trace: it has no column {missing[0]!r}" if missing else ""


def is_sound(line: bytes) -> bool:
    """Whether a line belongs to a trace, by the rules that Spark applies too."""
    try:
        found = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return found.event in EVENTS and bool(found.id or found.event not in MESSAGE_EVENTS)


def bad_lines(path: Path, most: int = NAMED_MAX) -> list[str]:
    """The first bad lines of a file, as `FILE:LINE`."""
    found = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip() and not is_sound(line):
                found.append(f"{path}:{number}")
                if len(found) == most:
                    break
    return found
