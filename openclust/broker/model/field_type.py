"""The types of values in field tables: their names in error texts, and which values are equal, as in RabbitMQ."""

from __future__ import annotations

from decimal import Decimal

from openclust.wire.table import Timestamp
from openclust.wire.text import decode_text


def type_name(value: object) -> str:
    """The type that `value` had on the wire. For integers it is guessed from the size, since the type is not kept."""
    # In Python bool and Timestamp are ints, so they come first.
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Timestamp):
        return "timestamp"
    if isinstance(value, int):
        return "signedint" if -(2**31) <= value < 2**31 else "long"
    for kind, name in _NAMES:
        if isinstance(value, kind):
            return name
    return "void" if value is None else type(value).__name__


_NAMES: tuple[tuple[type, str], ...] = (
    (str, "longstr"),
    (float, "double"),
    (bytes, "binary"),
    (Decimal, "decimal"),
    (list, "array"),
    (dict, "table"),
)


def value_text(value: object) -> str:
    """`value` for an error text: one short line of printable characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else "none" if value is None else repr(value)
    text = "".join(sign if sign.isprintable() else "?" for sign in text[:101])
    return text if len(text) <= 100 else text[:97] + "..."


def comparable(value: object) -> object:
    """A form of `value` in which Python's equality is RabbitMQ's: `1`, `1.0`, `True` and `Decimal(1)` differ.

    Integers of different widths are equal. RabbitMQ takes a timestamp for an integer, and bytes for a string.
    """
    if isinstance(value, bool | float | Decimal):
        return (type(value), value)
    if isinstance(value, bytes):
        return decode_text(value)
    if isinstance(value, list):
        return (list, tuple(comparable(item) for item in value))
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    return value
