"""The folder of results: `summary.json`, `report.html`, and `parquet` with the rows of all stages."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from openclust.shell.config.schema import ConfigError
from topology.simulate.results.summary import ResultsSummary

SUMMARY, REPORT, PARQUET = "summary.json", "report.html", "parquet"


def make_folder(out: Path, *, keep: bool) -> None:
    """Makes the folder, or empties it of an earlier simulation. Raises ConfigError if it holds anything else."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        there = sorted(each.name for each in out.iterdir())
    except OSError as error:
        text = f"{out}: the results cannot be put there: {error.strerror}; let --out name another folder"
        raise ConfigError(text) from None
    strange = [each for each in there if each not in (SUMMARY, REPORT, PARQUET)]
    if strange:
        text = f"{out}: holds {strange[0]!r}, which is no result of a simulation; let --out name another folder"
        raise ConfigError(text)
    if there and keep:
        raise ConfigError(f"{out}: holds the results of an earlier simulation; leave out --keep, or name another --out")
    try:
        for name in (SUMMARY, REPORT):
            (out / name).unlink(missing_ok=True)
        if (out / PARQUET).is_dir():
            shutil.rmtree(out / PARQUET)
        (out / SUMMARY).touch()  # fails if the folder is not writable
        (out / SUMMARY).unlink()
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written to: {error.strerror}; let --out name another folder") from None


def write_results(summary: ResultsSummary, out: Path) -> None:
    """Writes the summary and the report. Raises OSError if there is no room."""
    from topology.simulate.report.report import write_report

    encoded = msgspec.json.format(msgspec.json.encode(summary), indent=2)
    (out / SUMMARY).write_bytes(encoded + b"\n")
    write_report(summary, out / REPORT)


def read_summary(path: Path) -> ResultsSummary:
    """Reads a summary, by its folder or its file. Raises ConfigError if the file is no summary."""
    file = path / SUMMARY if path.is_dir() else path
    try:
        return msgspec.json.decode(file.read_bytes(), type=ResultsSummary)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no summary of a simulation: {error}") from None
