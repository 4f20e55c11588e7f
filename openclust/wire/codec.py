"""Methods to bytes and back, driven by the annotations in `methods.py`.

This codec is our own, and the tests compare it with pamqp. A broker gets hostile bytes: so nesting is bounded, nothing
is copied twice, and malformed bytes are a 502 that names the method.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from struct import Struct, error
from typing import Any

import msgspec

from openclust.wire import methods
from openclust.wire.errors import COMMAND_INVALID, FRAME_ERROR, SYNTAX_ERROR, ConnectionError
from openclust.wire.frames import FRAME_METHOD, frame
from openclust.wire.methods import Method
from openclust.wire.table import decode_table, encode_table
from openclust.wire.text import decode_text, encode_text

_METHOD_ID = Struct(">HH")
_U32 = Struct(">I")
_KINDS = {
    "Octet": "octet",
    "Short": "short",
    "Long": "long",
    "LongLong": "longlong",
    "ShortStr": "shortstr",
    "LongStr": "longstr",
    "Bit": "bit",
    "FieldTable": "table",
}
_FIXED = {"octet": "B", "short": "H", "long": "I", "longlong": "Q"}

_Reader = Callable[[bytes, int], tuple[tuple[Any, ...], int]]


def _read_shortstr(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    end = at + 1 + data[at]
    if end > len(data):
        raise ConnectionError(SYNTAX_ERROR, "a short string passes the end of its frame")
    return (decode_text(data[at + 1 : end]),), end


def _read_longstr(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    end = at + 4 + _U32.unpack_from(data, at)[0]
    if end > len(data):
        raise ConnectionError(SYNTAX_ERROR, "a long string passes the end of its frame")
    return (data[at + 4 : end],), end


def _read_table(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    table, end = decode_table(data, at)
    return (table,), end


def _read_fixed(layout: Struct) -> _Reader:
    size = layout.size

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        return layout.unpack_from(data, at), at + size

    return read


def _read_bits(count: int) -> _Reader:
    patterns = [tuple(bool(byte >> bit & 1) for bit in range(count)) for byte in range(256)]

    def read(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        return patterns[data[at]], at + 1

    return read


class _Plan:
    """How one method is decoded and encoded: its arguments in order, neighbours of fixed size or bits in one step."""

    def __init__(self, method: type[Method]) -> None:
        self.method = method
        kinds = method.__annotations__
        self.fields = [(name, _KINDS[kinds[name]]) for name in method.__struct_fields__]
        self.readers = list(self._readers())
        self.prefix = _METHOD_ID.pack(*method.ID)

    def _readers(self) -> Iterator[_Reader]:
        at = 0
        kinds = [kind for _, kind in self.fields]
        plain = {"shortstr": _read_shortstr, "longstr": _read_longstr, "table": _read_table}
        while at < len(kinds):
            start = at
            if kinds[at] in _FIXED:
                while at < len(kinds) and kinds[at] in _FIXED:
                    at += 1
                yield _read_fixed(Struct(">" + "".join(_FIXED[kind] for kind in kinds[start:at])))
            elif kinds[at] == "bit":
                while at < len(kinds) and kinds[at] == "bit":
                    at += 1
                yield _read_bits(at - start)
            else:
                at += 1
                yield plain[kinds[start]]

    def decode(self, payload: bytes) -> Method:
        values: tuple[Any, ...] = ()
        at = 4
        for read in self.readers:
            some, at = read(payload, at)
            values += some
        if at != len(payload):
            raise ConnectionError(SYNTAX_ERROR, f"{len(payload) - at} bytes too many")
        return self.method(**dict(zip(self.method.__struct_fields__, values, strict=True)))

    def encode(self, method: Method) -> bytes:
        parts = [self.prefix]
        bits = -1
        for index, (name, kind) in enumerate(self.fields):
            value = getattr(method, name)
            if kind == "bit":
                bits = (0 if bits < 0 else bits) | (value << self._bit_position(index))
                if index + 1 == len(self.fields) or self.fields[index + 1][1] != "bit":
                    parts.append(bytes((bits,)))
                    bits = -1
            elif kind == "shortstr":
                raw = encode_text(value)
                if len(raw) > 255:
                    raise ValueError(f"{name} is longer than 255 bytes")
                parts.append(bytes((len(raw),)) + raw)
            elif kind == "longstr":
                parts.append(_U32.pack(len(value)) + value)
            elif kind == "table":
                parts.append(encode_table(value))
            else:
                parts.append(Struct(">" + _FIXED[kind]).pack(value))
        return b"".join(parts)

    def _bit_position(self, index: int) -> int:
        start = index
        while start > 0 and self.fields[start - 1][1] == "bit":
            start -= 1
        return index - start


_METHODS = [
    value
    for value in vars(methods).values()
    if isinstance(value, type) and issubclass(value, Method) and value is not Method
]
_PLANS = {method: _Plan(method) for method in _METHODS}
_BY_PREFIX = {plan.prefix: plan for plan in _PLANS.values()}


def decode_method(payload: bytes) -> Method:
    """The method in a method frame's payload. Unknown ids are a 503 or 540, malformed arguments a 502."""
    plan = _BY_PREFIX.get(payload[:4])
    if plan is None:
        if len(payload) < 4:
            raise ConnectionError(FRAME_ERROR, "a method frame without a method")
        class_id, method_id = _METHOD_ID.unpack_from(payload)
        raise ConnectionError(COMMAND_INVALID, f"no method {class_id}.{method_id}")
    try:
        return plan.decode(payload)
    except ConnectionError as problem:
        problem.text = f"{name_of(plan.method)}: {problem.text}"
        raise
    except (error, IndexError, msgspec.ValidationError) as problem:
        raise ConnectionError(SYNTAX_ERROR, f"{name_of(plan.method)}: its arguments are cut short") from problem


def encode_method(method: Method) -> bytes:
    """The payload of a method frame. ValueError for a value that does not fit."""
    return _PLANS[type(method)].encode(method)


def method_frame(channel: int, method: Method) -> bytes:
    """A whole method frame."""
    return frame(FRAME_METHOD, channel, encode_method(method))


def method_id(payload: bytes) -> tuple[int, int]:
    """Class and method id of a method frame's payload; (0, 0) if it is too short."""
    return _METHOD_ID.unpack_from(payload) if len(payload) >= 4 else (0, 0)


@functools.cache
def name_of(method: type[Method]) -> str:
    """The name in the specification, such as `queue.declare-ok`."""
    words = [""]
    for letter in method.__name__:
        if letter.isupper():
            words.append("")
        words[-1] += letter.lower()
    return words[1] + "." + "-".join(words[2:])
