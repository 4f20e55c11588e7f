"""The log: one line an event on stderr, for people or as JSON.

Call `configure` once at start. Everywhere else: `log = logging.getLogger("openclust.listener")`, then
`log.info("accepting on %s:%d", host, port)`, with values for machines as `log.info("closed", extra=fields(peer=peer))`.
Text from peers may be logged unchecked: control characters come out escaped, so no peer can forge a line.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
import unicodedata
from types import TracebackType
from typing import Any, Literal, TextIO

# what can end a line, move a cursor or reverse the direction of text
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_LEVELS = {logging.WARNING: "WARN", logging.CRITICAL: "ERROR"}
_TRACE_FRAMES_MAX = 8


class LogFields(dict[str, Any]):
    """The key=value pairs of one event."""


def fields(**values: Any) -> dict[str, LogFields]:
    """The `extra` of a log call: `log.info("closed", extra=fields(peer=peer, code=320))`."""
    return {"fields": LogFields(values)}


def configure(level: str = "info", format: Literal["text", "json"] = "text", stream: TextIO | None = None) -> None:
    """Send the log to `stream` (stderr). A second call replaces the first."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h.formatter, TextFormatter | JsonFormatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)  # from libraries only warnings and errors
    logging.getLogger("openclust").setLevel(level.upper())
    logging.raiseExceptions = False  # a closed stderr must not print tracebacks


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO  listener: accepting on 127.0.0.1:5672 tls=true`"""

    def format(self, record: logging.LogRecord) -> str:
        level = _LEVELS.get(record.levelno, record.levelname)
        parts = [f"{_stamp(record)} {level:<5} {_source(record)}: {escape(record.getMessage())}"]
        parts += [f"{escape(key)}={_value(value)}" for key, value in _fields(record).items()]
        if (error := _error(record)) is not None:
            parts.append(f"error={_value(one_line(error))}")
        return " ".join(parts)


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, source, message, then the event's fields."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "time": _stamp(record),
            "level": _LEVELS.get(record.levelno, record.levelname).lower(),
            "source": _source(record),
            "message": record.getMessage(),
        }
        for key, value in _fields(record).items():
            event[f"{key}_" if key in event else key] = value
        if (error := _error(record)) is not None:
            event["error"] = one_line(error)
            event["traceback"] = "".join(traceback.format_exception(error))
        return json.dumps(event, default=str)  # ASCII only: every control character comes out escaped


def escape(text: str) -> str:
    """`text` on one line, with every character that steers a terminal or an editor spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(c) if unicodedata.category(c) in _UNSAFE_CATEGORIES else c for c in text)


def one_line(error: BaseException) -> str:
    """What failed and where, for a log line: `KeyError: 'x' (server.py:31 serve > links.py:9 dial)`."""
    text = "".join(traceback.format_exception_only(error)).strip()
    steps = _steps(error.__traceback__)
    return f"{text} ({' > '.join(steps)})" if steps else text


def _steps(trace: TracebackType | None) -> list[str]:
    frames = traceback.extract_tb(trace)[-_TRACE_FRAMES_MAX:]
    return [f"{os.path.basename(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = escape(str(value))
    if text and not any(c in text for c in ' "='):
        return text
    return '"' + text.replace('"', '\\"') + '"'


def _stamp(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


def _source(record: logging.LogRecord) -> str:
    return record.name.removeprefix("openclust.")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found = getattr(record, "fields", None)
    return found if isinstance(found, LogFields) else {}


def _error(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None
