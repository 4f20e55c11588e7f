"""Errors of Spark as one line with the way out."""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from openclust.shell.config.schema import ConfigError

LOG_BYTES_MAX = 65_536
LINE_CHARS_MAX = 300
_SEE_ALL = "--debug shows all of it"
_IS_GONE = re.compile("Py4JNetworkError|GATEWAY_EXITED|Answer from Java side is empty")


@contextmanager
def said_clearly(
    *,
    folders: Sequence[Path] = (),
    log: Path | None = None,
    memory: str = "",
    has_ended: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Turns what Spark raises into a ConfigError of one line, with the exception as its cause.

    Spark writes to `folders`, the JVM writes its output to `log`, and `has_ended` tells whether the JVM has ended. The
    cause gets the whole text as a note, because an exception cannot be asked for it once the JVM has ended.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        text = _text_of(error)
        error.add_note(f"{text}\n{_end_of(log)}")
        is_gone = isinstance(error, ConnectionError | EOFError) or _IS_GONE.search(text) is not None or has_ended()
        raise ConfigError(_line(text, log, folders, memory, is_gone=is_gone)) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ConfigError(_disk_full(folders)) from error
        raise


def _text_of(error: BaseException) -> str:
    """The whole text of an exception with its causes. A JVM that has ended cannot be asked for its stack."""
    text = f"{type(error).__name__}: "
    with suppress(Exception):
        text += str(error)
    with suppress(Exception):
        text += f"\n{getattr(error, '_stackTrace', '')}"
    return text


def _line(text: str, log: Path | None, folders: Sequence[Path], memory: str, *, is_gone: bool) -> str:
    logged = _end_of(log)
    known = _known(text, folders, memory) or _known(logged, folders, memory)
    if known:
        return known
    if is_gone:
        why = _last_complaint(logged)
        return f"Spark's JVM has ended{f': {why}' if why else ''} (was it killed for its memory? try less --memory)"
    return f"Spark failed: {_first_complaint(text)} ({_SEE_ALL})"


def _known(text: str, folders: Sequence[Path], memory: str) -> str:
    if re.search(r"No space left on device|Disk quota exceeded|Not enough space", text):
        return _disk_full(folders)
    if re.search(
        r"OutOfMemoryError|Not enough memory|GC overhead limit|MemoryError|Could not reserve enough space", text
    ):
        given = f" of {memory}" if memory else ""
        return f"Spark ran out of the memory{given}: give it more with --memory, or simulate less with --subscribers"
    if match := re.search(r"PYTHON_VERSION_MISMATCH[^\n]*|Python in worker has different version[^\n]*", text):
        versions = ", ".join(dict.fromkeys(re.findall(r"\d\.\d+", match[0])))
        return (
            f"Spark's workers run another Python than this one ({versions}): "
            "let PYSPARK_PYTHON name one of the same version that all of them have"
        )
    if match := re.search(r'Cannot run program "([^"]+)"', text):
        return f"Spark's workers have no {match[1]}: let PYSPARK_PYTHON name the Python that all of them have"
    if match := re.search(r"(?:ModuleNotFoundError|ImportError): ([^\n]+)", text):
        way_out = "install 'openclust[simulate]' there, or send an environment along (docs/simulation.md)"
        return f"the Python of Spark's workers lacks something: {_short(match[1])}: {way_out}"
    if re.search(r"Python worker exited unexpectedly|Python worker failed to connect", text):
        return (
            "a Python worker of Spark has ended (was it killed for its memory?): use fewer threads, --master local[1]"
        )
    if match := re.search(r"(?:AccessDeniedException|Permission denied|FileNotFoundException)[^\n]*", text):
        return f"Spark cannot read or write what it must: {_short(match[0])}"
    if re.search(r"All masters are unresponsive|Cannot call methods on a stopped SparkContext", text):
        return "the Spark master of --master does not take us: is it one, and of the same version of Spark?"
    return ""


def _disk_full(folders: Sequence[Path]) -> str:
    """The error of a full disk. Spark does not name the folder: it is the one with the least room left."""
    room = [(shutil.disk_usage(each).free, str(each)) for each in folders if each.is_dir()]
    where = min(room)[1] if room else "a folder of Spark"
    return f"{where}: no space left: make room, or let --local-dir (for what Spark puts aside) and --out name others"


def _end_of(log: Path | None) -> str:
    if log is None:
        return ""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - LOG_BYTES_MAX))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _first_complaint(text: str) -> str:
    """The last cause in a stack of causes, or else the first line."""
    causes = re.findall(r"^(?:Caused by: |\s*)([\w.$]*(?:Exception|Error): [^\n]+)", text, re.MULTILINE)
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    return _short(causes[-1] if causes else lines[0] if lines else "nothing was said")


def _last_complaint(logged: str) -> str:
    lines = [each.strip() for each in logged.splitlines() if re.search(r"Exception|[Ee]rror\b|ERROR |FATAL", each)]
    return _short(lines[-1]) if lines else ""


def _short(text: str) -> str:
    text = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return text if len(text) <= LINE_CHARS_MAX else text[: LINE_CHARS_MAX - 3] + "..."
