"""Field tables and arrays: AMQP's self-describing values.

The type letters are those that RabbitMQ and its clients use (0-9-1 errata), which differ from the
specification's own. Strings decode with `surrogateescape`, so that any bytes survive a round trip.
"""

from __future__ import annotations

from decimal import Decimal
from struct import Struct, error
from typing import TypeAlias, Union

from openclust.wire.errors import SYNTAX_ERROR, ConnectionError
from openclust.wire.text import decode_text, encode_text

DEPTH_MAX = 64
"""How deep tables and arrays may nest; deeper input is a syntax error."""


class Timestamp(int):
    """Seconds since 1970. A type of its own, so that it is encoded as a timestamp again."""

    __slots__ = ()


Value: TypeAlias = Union[bool, int, float, str, bytes, Decimal, Timestamp, "Table", "list[Value]", None]
Table: TypeAlias = dict[str, Value]

_U32 = Struct(">I")
_FIXED = {
    ord("t"): Struct(">?"),
    ord("b"): Struct(">b"),
    ord("B"): Struct(">B"),
    ord("s"): Struct(">h"),
    ord("u"): Struct(">H"),
    ord("I"): Struct(">i"),
    ord("i"): Struct(">I"),
    ord("l"): Struct(">q"),
    ord("L"): Struct(">q"),
    ord("f"): Struct(">f"),
    ord("d"): Struct(">d"),
}
_DECIMAL = Struct(">BI")
_TIMESTAMP = Struct(">Q")
_FIXED_SIZES = {kind: fixed.size for kind, fixed in _FIXED.items()} | {ord("V"): 0, ord("T"): 8, ord("D"): 5}
_INT32 = Struct(">ci")
_INT64 = Struct(">cq")
_DOUBLE = Struct(">cd")


def decode_table(data: bytes, at: int) -> tuple[Table, int]:
    """The table at `at` (its length first) and where it ends. Malformed input is a 502."""
    try:
        (size,) = _U32.unpack_from(data, at)
        end = at + 4 + size
        if end > len(data):
            raise ConnectionError(SYNTAX_ERROR, f"a table of {size} bytes does not fit its frame")
        return _decode_table(data, at + 4, end, 0), end
    except (error, IndexError, OverflowError) as problem:
        raise ConnectionError(SYNTAX_ERROR, "malformed field table") from problem


def _decode_table(data: bytes, at: int, end: int, depth: int) -> Table:
    table: Table = {}
    while at < end:
        name_end = at + 1 + data[at]
        if name_end >= end:
            raise ConnectionError(SYNTAX_ERROR, "a field name passes the end of its table")
        name = decode_text(data[at + 1 : name_end])
        table[name], at = _decode_value(data, name_end, end, depth)
    return table


def _decode_value(data: bytes, at: int, end: int, depth: int) -> tuple[Value, int]:
    kind = data[at]
    at += 1
    fixed = _FIXED.get(kind)
    value: Value
    if fixed is not None:
        value, after = fixed.unpack_from(data, at)[0], at + fixed.size
    elif kind == 0x56:  # V
        value, after = None, at
    elif kind == 0x54:  # T
        value, after = Timestamp(_TIMESTAMP.unpack_from(data, at)[0]), at + 8
    elif kind == 0x44:  # D
        scale, digits = _DECIMAL.unpack_from(data, at)
        value, after = Decimal(digits).scaleb(-scale), at + 5
    else:
        start = at + 4
        after = start + _U32.unpack_from(data, at)[0]
        if after > end:
            raise ConnectionError(SYNTAX_ERROR, "a field value passes the end of its table")
        if kind == 0x53:  # S
            value = decode_text(data[start:after])
        elif kind == 0x78:  # x
            value = data[start:after]
        elif kind in (0x46, 0x41):  # F, A
            if depth >= DEPTH_MAX:
                raise ConnectionError(SYNTAX_ERROR, f"a field table nests deeper than {DEPTH_MAX}")
            nest = _decode_table if kind == 0x46 else _decode_array
            value = nest(data, start, after, depth + 1)
        else:
            raise ConnectionError(SYNTAX_ERROR, f"unknown field type {chr(kind)!r}")
    if after > end:
        raise ConnectionError(SYNTAX_ERROR, "a field value passes the end of its table")
    return value, after


def _decode_array(data: bytes, at: int, end: int, depth: int) -> list[Value]:
    array: list[Value] = []
    while at < end:
        value, at = _decode_value(data, at, end, depth)
        array.append(value)
    return array


def encode_table(table: Table) -> bytes:
    """The table with its length first. ValueError for a value that AMQP cannot encode."""
    parts = []
    for name, value in table.items():
        raw = encode_text(name)
        if len(raw) > 255:
            raise ValueError(f"field name {name[:40]!r}... is longer than 255 bytes")
        parts.append(bytes((len(raw),)) + raw + encode_value(value))
    whole = b"".join(parts)
    return _U32.pack(len(whole)) + whole


def encode_value(value: Value) -> bytes:
    """One value with its type letter."""
    if value is None:
        return b"V"
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, str):
        raw = encode_text(value)
        return b"S" + _U32.pack(len(raw)) + raw
    if isinstance(value, Timestamp):
        return b"T" + _TIMESTAMP.pack(value)
    if isinstance(value, int):
        if -0x8000_0000 <= value <= 0x7FFF_FFFF:
            return _INT32.pack(b"I", value)
        if -0x8000_0000_0000_0000 <= value <= 0x7FFF_FFFF_FFFF_FFFF:
            return _INT64.pack(b"l", value)
        raise ValueError(f"{value} does not fit a 64-bit field")
    if isinstance(value, float):
        return _DOUBLE.pack(b"d", value)
    if isinstance(value, bytes):
        return b"x" + _U32.pack(len(value)) + value
    if isinstance(value, dict):
        return b"F" + encode_table(value)
    if isinstance(value, list):
        whole = b"".join(map(encode_value, value))
        return b"A" + _U32.pack(len(whole)) + whole
    if isinstance(value, Decimal):
        return b"D" + _encode_decimal(value)
    raise ValueError(f"a {type(value).__name__} cannot be a field value")


def encode_long(value: int) -> bytes:
    """A number as a 64-bit field, even if it is small: clients with static types expect one size."""
    return _INT64.pack(b"l", value)


Fields: TypeAlias = dict[str, bytes]
"""A table whose values are still encoded, type letter first: a value that is not changed keeps its type."""


def split_table(data: bytes) -> Fields:
    """The fields of an encoded table, its length first. The table must be well-formed: nothing is checked here."""
    fields: Fields = {}
    at = 4
    while at < len(data):
        value_at = at + 1 + data[at]
        name = decode_text(data[at + 1 : value_at])
        at = _value_end(data, value_at)
        fields[name] = data[value_at:at]
    return fields


def join_table(fields: Fields) -> bytes:
    """The encoded table, its length first."""
    parts: list[bytes] = []
    for name, value in fields.items():
        raw = encode_text(name)
        parts += (bytes((len(raw),)), raw, value)
    whole = b"".join(parts)
    return _U32.pack(len(whole)) + whole


def split_array(value: bytes) -> list[bytes]:
    """The items of an encoded array, type letters first; none if the value is no array."""
    items = []
    at = 5 if value[:1] == b"A" else len(value)
    while at < len(value):
        end = _value_end(value, at)
        items.append(value[at:end])
        at = end
    return items


def join_array(items: list[bytes]) -> bytes:
    """The encoded array, type letter first."""
    whole = b"".join(items)
    return b"A" + _U32.pack(len(whole)) + whole


def decode_field(value: bytes) -> Value:
    """One value of `Fields`."""
    return _decode_value(value, 0, len(value), 0)[0]


def _value_end(data: bytes, at: int) -> int:
    """Where the value at `at` ends. Tables and arrays are skipped by their length."""
    kind = data[at]
    fixed = _FIXED_SIZES.get(kind)
    if fixed is not None:
        return at + 1 + fixed
    size: int = _U32.unpack_from(data, at + 1)[0]
    return at + 5 + size


def _encode_decimal(value: Decimal) -> bytes:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "decoded decimals are finite"
    scale = max(0, -exponent)
    digits = int(value.scaleb(scale))
    if not 0 <= digits <= 0xFFFF_FFFF or scale > 255:
        raise ValueError(f"{value} does not fit AMQP's decimal")
    return _DECIMAL.pack(scale, digits)
