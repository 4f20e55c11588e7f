"""Fields of bodies, as RabbitMQ's tools send them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from openclust.manage.calls.call import Call
from openclust.wire.table import Table

Flag: TypeAlias = bool | Literal["true", "false"]
"""Some tools send a text."""

Arguments: TypeAlias = dict[str, Any] | list[Any]
"""PHP sends an empty table as an empty list."""


def is_set(flag: Flag) -> bool:
    return flag is True or flag == "true"


def as_table(arguments: Arguments) -> Table:
    """ValueError where it is a list with something in it."""
    if isinstance(arguments, list):
        if arguments:
            raise ValueError("arguments are an object")
        return {}
    return arguments


def flag_in_query(call: Call, name: str) -> bool:
    return call.request.query.get(name) == "true"
