"""The keys of the configuration as a flat table (`listen.port`), and values brought to the type each key wants."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from openclust.shell.config.config import Config

ENV_PREFIX = "OPENCLUST_"
INTEGER_MAX = 2**63 - 1  # what TOML promises to keep

# What a key that holds a path is made relative to depends on where it was written, so the loader must know them.
PATHS = frozenset(
    {
        *("cluster.data_dir", "cluster.secret_file", "cluster.peer_cert", "cluster.peer_key", "cluster.peer_ca"),
        *("tls.cert", "tls.key", "tls.ca", "auth.users_file", "definitions.file", "trace.file"),
    }
)


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
    """A value that a key cannot take; the text says what was wanted."""


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
    """What a key of this type wants, in words."""
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
