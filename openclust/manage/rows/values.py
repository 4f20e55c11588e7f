"""Values of AMQP as JSON."""

from __future__ import annotations

import math
from typing import Any

from openclust.wire.text import encode_text


def value(value_: Any) -> Any:
    """A field value for JSON. Values that JSON does not have become text."""
    if isinstance(value_, dict):
        return {text(name): value(one) for name, one in value_.items()}
    if isinstance(value_, list):
        return [value(one) for one in value_]
    if isinstance(value_, bytes):
        return value_.decode("utf-8", "replace")
    if isinstance(value_, str):
        return text(value_)
    if value_ is None or isinstance(value_, bool):
        return value_
    if isinstance(value_, int):
        return int(value_)
    number = float(value_)
    return number if math.isfinite(number) else str(number)


def text(name: str) -> str:
    """A name whose bytes need not be UTF-8."""
    return name if name.isascii() else encode_text(name).decode("utf-8", "replace")
