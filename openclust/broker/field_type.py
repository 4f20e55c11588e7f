"""The names that error texts use for the types of field table values, as RabbitMQ names them."""

from __future__ import annotations

from decimal import Decimal

from openclust.wire.table import Timestamp


def type_name(value: object) -> str:
    """What `value` was on the wire; integers count by their size, since their letter is not kept."""
    # bool and Timestamp are ints to Python, so they come first.
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
    """`value` for an error text: one line, bounded, and without what cannot be encoded."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else "none" if value is None else repr(value)
    text = "".join(sign if sign.isprintable() else "?" for sign in text[:101])
    return text if len(text) <= 100 else text[:97] + "..."
