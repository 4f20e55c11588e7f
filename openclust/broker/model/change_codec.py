"""Changes as bytes. A change is a field table: its strings may have any bytes, and its values keep types and order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, get_args

import msgspec

from openclust.broker.model.access import Permission, TopicPermission, User
from openclust.broker.model.changes import Change
from openclust.broker.model.policy import Policy
from openclust.wire.errors import AmqpError
from openclust.wire.table import Table, Value, decode_table, encode_table

_FieldReader: TypeAlias = Callable[[Any], Any]


def encode_change(change: Change) -> bytes:
    """The bytes of a change. ValueError for values that no table can have, such as an integer of more than 64 bits."""
    return _encode(change, encode_table)


def encode_canonical(change: Change) -> bytes:
    """The bytes with all tables sorted: changes that differ in the order of arguments only have equal bytes."""
    return _encode(change, canonical_table)


def canonical_table(table: Table) -> bytes:
    """The bytes of a sorted table. ValueError as for `encode_change`."""
    return encode_table(_in_order(table))


def _encode(change: Change, packed: Callable[[Table], bytes]) -> bytes:
    kind = type(change)
    table: Table = {"change": kind.__name__}
    for name in kind.__struct_fields__:
        value = getattr(change, name)
        if type(value) is dict:
            if value:
                table[name] = packed(value)
        elif isinstance(value, Policy):
            table[name] = {**msgspec.structs.asdict(value), "definition": packed(value.definition)}
        elif isinstance(value, User):
            table[name] = _user_table(value)
        elif isinstance(value, Permission | TopicPermission):
            table[name] = msgspec.structs.asdict(value)
        elif isinstance(value, tuple):
            table[name] = list(value)
        else:
            table[name] = value
    return encode_table(table)


def decode_change(data: bytes) -> Change:
    """The change that has these bytes. ValueError says why they are no change."""
    try:
        table, end = decode_table(data, 0)
    except AmqpError as error:
        raise ValueError(f"no change: {error.reply_text}") from None
    if end != len(data):
        raise ValueError(f"no change: {len(data) - end} bytes follow it")
    name = str(table.pop("change", None))
    known = _KINDS.get(name)
    if known is None:
        raise ValueError(f"no change: {name!r} is no kind of one")
    kind, readers = known
    try:
        # A missing field without a default is a TypeError of the constructor.
        return kind(**{field: readers[field](value) for field, value in table.items()})
    except KeyError as error:
        raise ValueError(f"no change: {name} has no field {error}") from None
    except (TypeError, ValueError, AmqpError) as error:
        raise ValueError(f"no change: {name}: {error}") from None


# A packed table is a value of type bytes: so it may nest as deep as a table of its own.


def _unpacked(data: Any) -> Table:
    packed = _bytes(data)
    table, end = decode_table(packed, 0)
    if end != len(packed):
        raise ValueError("bytes follow a packed table")
    return table


def _in_order(table: Table) -> Table:
    return {name: _ordered(table[name]) for name in sorted(table)}


def _ordered(value: Value) -> Value:
    if isinstance(value, dict):
        return _in_order(value)
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return value


def _read_policy(value: Any) -> Policy:
    table = dict(_table(value))
    table["definition"] = _unpacked(table.get("definition"))
    # The keys of an encoded policy are those of definitions files.
    return msgspec.convert({name.replace("_", "-"): each for name, each in table.items()}, Policy)


def _user_table(user: User) -> Table:
    # A list, since the name of a virtual host may be longer than that of a field.
    permissions: list[Value] = [
        {"vhost": vhost, **msgspec.structs.asdict(user.permissions[vhost])} for vhost in sorted(user.permissions)
    ]
    table = {**msgspec.structs.asdict(user), "tags": list(user.tags), "permissions": permissions}
    # Left out where there are none: so digests of users stay what they were before there could be any.
    table["topic_permissions"] = [
        {"vhost": vhost, "exchange": exchange, **msgspec.structs.asdict(exchanges[exchange])}
        for vhost, exchanges in sorted(user.topic_permissions.items())
        for exchange in sorted(exchanges)
    ]
    for name in ("topic_permissions", "limits"):
        if not table[name]:
            del table[name]
    return table


def _read_user(value: Any) -> User:
    table = dict(_table(value))
    permissions = {}
    for each in _list(table.pop("permissions", [])):
        granted = dict(_table(each))
        permissions[_text(granted.pop("vhost", None))] = granted
    topic_permissions: dict[str, Table] = {}
    for each in _list(table.pop("topic_permissions", [])):
        granted = dict(_table(each))
        exchanges = topic_permissions.setdefault(_text(granted.pop("vhost", None)), {})
        exchanges[_text(granted.pop("exchange", None))] = granted
    return msgspec.convert({**table, "permissions": permissions, "topic_permissions": topic_permissions}, User)


def _read_permission(value: Any) -> Permission:
    return msgspec.convert(_table(value), Permission)


def _read_topic_permission(value: Any) -> TopicPermission:
    return msgspec.convert(_table(value), TopicPermission)


def _read_number(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"a number is wanted, not {type(value).__name__}")
    return value


def _read_names(value: Any) -> tuple[str, ...]:
    return tuple(_text(each) for each in _list(value))


def _exactly(kind: type) -> _FieldReader:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"a {kind.__name__} is wanted, not {type(value).__name__}")
        return value

    return read


_bytes, _list, _table, _text = _exactly(bytes), _exactly(list), _exactly(dict), _exactly(str)
# By the text of the annotation, since its type may be unknown in this module.
_READERS: dict[str, _FieldReader] = {
    "str": _text,
    "tuple[str, ...]": _read_names,
    "bool": _exactly(bool),
    "Table": _unpacked,
    "Policy": _read_policy,
    "User": _read_user,
    "Permission": _read_permission,
    "TopicPermission": _read_topic_permission,
    "int | None": _read_number,
}


def _readers(kind: type) -> dict[str, _FieldReader]:
    annotations = {
        name: text for base in reversed(kind.__mro__) for name, text in vars(base).get("__annotations__", {}).items()
    }
    return {name: _READERS[annotations[name]] for name in kind.__struct_fields__}  # type: ignore[attr-defined]


_KINDS: dict[str, tuple[Callable[..., Change], dict[str, _FieldReader]]] = {
    kind.__name__: (kind, _readers(kind)) for kind in get_args(Change)
}
