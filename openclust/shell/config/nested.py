"""Values that have keys of their own: `[cluster.primaries.p1]`, `[[topology.links]]`. Each key in them is checked, and
told, like any other."""

from __future__ import annotations

import math
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from openclust.shell.config.cluster_section import split_address
from openclust.shell.config.keys import INTEGER_MAX, did_you_mean, wanted_text
from openclust.shell.config.toml_lines import Path
from openclust.shell.config.topology_section import NUMBERS

NAME_BYTES_MAX = 255

ADDRESSES = frozenset({"client", "peer", "http"})
"""Fields of brokers that are `host:port`."""

Problems = list[tuple[Path, str]]
"""What is wrong, and where: the names down from the value."""


def is_nested(type_: Any) -> bool:
    """Whether values of this type have keys that are checked here."""
    is_list = get_origin(type_) is tuple and _is_struct(get_args(type_)[0])
    return get_origin(type_) is dict or is_list or _is_struct(type_)


def convert_nested(type_: Any, value: Any, problems: Problems, path: Path = ()) -> Any:
    """The value as its type wants it. Where something is wrong it is added to `problems`, and the result is useless."""
    if get_origin(type_) is dict:
        return _table(type_, value, problems, path)
    if get_origin(type_) is tuple:
        (item, _) = get_args(type_)
        if not isinstance(value, list):
            problems.append((path, f"wanted a list{'' if _is_struct(item) else ' in brackets'}{_instead(value)}"))
            return ()
        return tuple(convert_nested(item, each, problems, (*path, str(i))) for i, each in enumerate(value))
    if _is_struct(type_):
        return _struct(type_, value, problems, path)
    return _plain(type_, value, problems, path)


def _table(type_: Any, value: Any, problems: Problems, path: Path) -> dict[str, Any]:
    _, inner = get_args(type_)
    if not isinstance(value, dict):
        problems.append((path, f"wanted a table{_instead(value)}"))
        return {}
    for name in value:
        if not name or not name.isprintable() or len(name.encode()) > NAME_BYTES_MAX:
            problems.append(((*path, name), f"a name has 1 to {NAME_BYTES_MAX} bytes and no control characters"))
    if inner is Any:
        return value
    return {name: convert_nested(inner, each, problems, (*path, name)) for name, each in value.items()}


def _struct(type_: Any, value: Any, problems: Problems, path: Path) -> Any:
    fields = _fields(type_)
    if not isinstance(value, dict):
        problems.append((path, f"wanted a table with the keys {', '.join(fields)}{_instead(value)}"))
        return None
    before = len(problems)
    for name in value:
        if name not in fields:
            hint = did_you_mean(name, fields) or f"; its keys are {', '.join(fields)}"
            problems.append(((*path, name), f"unknown key {name!r}{hint}"))
    missing = [name for name, field in fields.items() if field.required and name not in value]
    if missing:
        problems.append((path, f"needs {' and '.join(missing)} too"))
    found = {
        name: convert_nested(fields[name].type, each, problems, (*path, name))
        for name, each in value.items()
        if name in fields
    }
    for name in sorted(ADDRESSES & found.keys()):
        if isinstance(found[name], str) and (found[name] or fields[name].required):
            _address(found[name], problems, (*path, name))
    return type_(**found) if len(problems) == before else None


@cache
def _fields(type_: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """Read once for each kind of entry: a file may have thousands of them."""
    return {field.name: field for field in msgspec.structs.fields(type_)}


def _address(value: str, problems: Problems, path: Path) -> None:
    try:
        split_address(value)
    except ValueError:
        problems.append((path, f"wanted HOST:PORT, with a port from 1 to 65535{_instead(value)}"))


def _plain(type_: Any, value: Any, problems: Problems, path: Path) -> Any:
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        problems.append((path, "wanted a number of at most 64 bits"))
        return None
    try:
        found = msgspec.convert(value, type_, strict=True)
    except msgspec.ValidationError:
        problems.append((path, f"{wanted_text(type_, value)}{'' if _is_choice(type_) else _instead(value)}"))
        return None
    low, high = NUMBERS.get(path[-1], (-math.inf, math.inf)) if path else (-math.inf, math.inf)
    if isinstance(found, int | float) and not isinstance(found, bool) and not low <= found <= high:
        wanted = "wanted a number" if high == math.inf else f"allowed is {low} to {high}"
        problems.append((path, f"{wanted}{_instead(found)}"))
    if isinstance(found, str) and not found.isprintable():
        problems.append((path, "must not contain control characters"))
    return found


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _is_choice(type_: Any) -> bool:
    return any(get_origin(each) is Literal for each in _parts(type_))


def _parts(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)


def _instead(value: Any) -> str:
    """What is there, where that is short enough to be shown."""
    if isinstance(value, dict | list):
        return ", not a table" if isinstance(value, dict) else ", not a list"
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        return ""  # it may have more digits than repr() will print
    shown = repr(value)
    return f", not {shown}" if len(shown) <= 60 else ""
