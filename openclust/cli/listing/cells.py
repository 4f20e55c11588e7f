"""Values of RabbitMQ's rows as people read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

BYTES = frozenset(
    (
        "memory",
        "mem_used",
        "mem_limit",
        "disk_free",
        "disk_free_limit",
        "recv_oct",
        "send_oct",
        "send_pend",
        "message_bytes",
        "message_bytes_ready",
        "message_bytes_unacknowledged",
        "message_bytes_ram",
        "message_bytes_persistent",
    )
)
BYTES_PER_S = frozenset(("recv_oct_details.rate", "send_oct_details.rate"))
STAMPS_MS = frozenset(("connected_at", "idle_since", "head_message_timestamp"))
DURATIONS_MS = frozenset(("uptime",))

_UNITS = ("B", "kB", "MB", "GB", "TB")


def cell(path: str, value: Any) -> str:
    """The text of a cell in the column of this path."""
    if value is None or value == "" or value == {} or value == []:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(path, value)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _number(path: str, number: float) -> str:
    if path in BYTES_PER_S:
        return f"{size(number)}/s"
    if path.endswith(".rate"):
        return rate(number)
    if path in BYTES:
        return size(number)
    if path in STAMPS_MS:
        return _stamp(number)
    if path in DURATIONS_MS:
        return duration(number)
    return str(number)


def rate(per_s: float) -> str:
    return f"{per_s:.0f}/s" if per_s >= 10 or not per_s else f"{per_s:.1f}/s"


def size(count: float) -> str:
    """Bytes: `1.5 MB`."""
    number = float(count)
    for unit in _UNITS[:-1]:
        if number < 1_000:
            return f"{number:.0f} {unit}" if unit in ("B", "kB") else f"{number:.1f} {unit}"
        number /= 1_000
    return f"{number:.1f} {_UNITS[-1]}"


def duration(ms: float) -> str:
    seconds = int(ms) // 1_000
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3_600, seconds // 86_400
    return f"{minutes} min" if minutes < 60 else f"{hours} h {minutes % 60} min" if days < 2 else f"{days} d"


def _stamp(ms: float) -> str:
    try:
        return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return str(ms)
