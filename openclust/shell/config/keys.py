"""The keys of the configuration as a flat table (`listen.port`), and values brought to the type each key wants.

Values may have keys of their own (`[cluster.primaries.p1]`, `[[topology.links]]`): each key in them is checked, and
told, like any other.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from openclust.shell.config.addresses import split_address
from openclust.shell.config.schema import NUMBERS, Config

ENV_PREFIX = "OPENCLUST_"
INTEGER_MAX = 2**63 - 1  # what TOML promises to keep

# A relative path is relative to the file that it is written in, so the loader must know the keys with paths.
PATHS = frozenset(
    {
        *("cluster.data_dir", "cluster.secret_file", "cluster.peer_cert", "cluster.peer_key", "cluster.peer_ca"),
        *("http.tls_cert", "http.tls_key", "http.tls_ca"),
        *("tls.cert", "tls.key", "tls.ca", "auth.users_file", "definitions.file", "trace.file"),
    }
)


NAME_BYTES_MAX = 255
"""Short strings of the protocol carry names: that of a virtual host, a field of a message."""

KeyPath = tuple[str, ...]
"""The names from the top down to a key, and indexes in lists: `("topology", "links", "0", "between")`."""

ADDRESSES = frozenset({"client", "peer", "http"})
"""Fields of brokers that are `host:port`."""

Problems = list[tuple[KeyPath, str]]
"""A problem and its place, as names down from the value."""


class Key(msgspec.Struct, frozen=True):
    """One key: `section` is empty at the top level."""

    section: str
    name: str
    type: Any
    default: Any

    @property
    def dotted(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def variable(self) -> str:
        """The environment variable that sets this key."""
        return ENV_PREFIX + self.dotted.replace(".", "_").upper()


class WrongType(ValueError):
    """A value of the wrong type; the text says which one is wanted."""


def _read_keys() -> dict[str, Key]:
    keys: list[Key] = []
    for field in msgspec.structs.fields(Config):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            keys += [Key(field.name, f.name, f.type, _default(f)) for f in msgspec.structs.fields(field.type)]
        else:
            keys.append(Key("", field.name, field.type, "" if field.required else field.default))
    return {key.dotted: key for key in keys}


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if callable(field.default_factory) else field.default


KEYS: dict[str, Key] = _read_keys()
SECTIONS: tuple[str, ...] = tuple(dict.fromkeys(key.section for key in KEYS.values() if key.section))


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of `words` that `word` was most likely meant to be."""
    lowered = {w.lower(): w for w in words}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`; did you mean 'port'?`, or nothing when no word is near."""
    found = nearest(word, words)
    return f"; did you mean {found!r}?" if found else ""


def convert(key: Key, value: Any) -> Any:
    """Bring a value from a TOML file to the key's type, or raise WrongType. Empty text unsets an optional key."""
    if value == "" and _is_optional(key.type):
        return None
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise WrongType("wanted a number of at most 64 bits")
    try:
        return msgspec.convert(value, key.type, strict=True)
    except msgspec.ValidationError:
        raise WrongType(wanted_text(key.type, value)) from None


def convert_text(key: Key, text: str) -> Any:
    """As `convert`, for text from the environment or a flag: `true`, `5`, `PLAIN,EXTERNAL`."""
    if not text and _is_optional(key.type):
        return None
    bare = _without_none(key.type)
    try:
        if get_origin(bare) is tuple:
            parts = [part.strip() for part in text.split(",")]
            return msgspec.convert([part for part in parts if part], bare)
        if bare is bool:
            return msgspec.convert(text.strip().lower(), bool, strict=False)
        if bare is int and len(text) <= 20:
            return int(text)  # also takes 1_000, as TOML does
        return msgspec.convert(text, bare, strict=False)
    except (msgspec.ValidationError, ValueError):
        raise WrongType(wanted_text(bare, text)) from None


def _is_optional(type_: Any) -> bool:
    return get_origin(type_) in (Union, UnionType) and NoneType in get_args(type_)


def _without_none(type_: Any) -> Any:
    if _is_optional(type_):
        return next(t for t in get_args(type_) if t is not NoneType)
    return type_


def wanted_text(type_: Any, value: Any) -> str:
    """The type that a key wants, in words."""
    type_ = _without_none(type_)
    if get_origin(type_) is Literal:
        choices = get_args(type_)
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        return f"wanted one of {', '.join(repr(c) for c in choices)}{hint}"
    if get_origin(type_) is tuple:
        (item, _) = get_args(type_)
        if item is str:
            return f"wanted a list of text in brackets, such as [{str(value)!r}]"
        for part in value if isinstance(value, list) else str(value).split(","):
            if not isinstance(part, str) or part.strip() not in get_args(item):
                return f"wanted a list of {', '.join(repr(c) for c in get_args(item))}"
        return f"wanted a list in brackets, such as [{value!r}]"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}
    return f"wanted {names.get(type_, str(type_))}"


def is_nested(type_: Any) -> bool:
    """Whether values of this type have keys that are checked here."""
    is_list = get_origin(type_) is tuple and _is_struct(get_args(type_)[0])
    return get_origin(type_) is dict or is_list or _is_struct(type_)


def convert_nested(type_: Any, value: Any, problems: Problems, path: KeyPath = ()) -> Any:
    """The value in its type. Problems are added to `problems`; if there are any, the result means nothing."""
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


def _table(type_: Any, value: Any, problems: Problems, path: KeyPath) -> dict[str, Any]:
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


def _struct(type_: Any, value: Any, problems: Problems, path: KeyPath) -> Any:
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
    """Cached, because a file may have thousands of entries of one kind."""
    return {field.name: field for field in msgspec.structs.fields(type_)}


def _address(value: str, problems: Problems, path: KeyPath) -> None:
    try:
        split_address(value)
    except ValueError:
        problems.append((path, f"wanted HOST:PORT, with a port from 1 to 65535{_instead(value)}"))


def _plain(type_: Any, value: Any, problems: Problems, path: KeyPath) -> Any:
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
    """`, not X`, if the value is short enough to be shown."""
    if isinstance(value, dict | list):
        return ", not a table" if isinstance(value, dict) else ", not a list"
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        return ""  # repr() refuses numbers with very many digits
    shown = repr(value)
    return f", not {shown}" if len(shown) <= 60 else ""
