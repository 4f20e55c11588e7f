"""The shape of a JSON answer: which fields it has, and of which types their values are."""

from __future__ import annotations

from typing import Any, TypeAlias

Shape: TypeAlias = dict[str, list[str]]
"""Types by path, as `items[].message_stats.publish`."""

OPEN = frozenset(
    {"arguments", "client_properties", "definition", "effective_policy_definition", "capabilities", "headers", "value"}
)
"""Objects whose fields are the user's own."""


NOT_HERE = frozenset(
    {
        # What Erlang's machine counts for a process, and how RabbitMQ's queues divide their messages inside.
        "garbage_collection",
        "reductions",
        "reductions_details",
        "backing_queue_status",
        # Who has declared an exchange is not kept with it.
        "user_who_performed_action",
    }
)
"""Fields that an answer may lack: there is nothing here that they could tell."""


def shape_of(value: Any) -> Shape:
    found: dict[str, set[str]] = {}
    _gather(value, "", found)
    return {path: sorted(types) for path, types in sorted(found.items())}


def _gather(value: Any, path: str, found: dict[str, set[str]]) -> None:
    found.setdefault(path or ".", set()).add(_type_of(value))
    if isinstance(value, list):
        for each in value:
            _gather(each, f"{path}[]", found)
    elif isinstance(value, dict) and path.rpartition(".")[2] not in OPEN:
        for name, each in value.items():
            _gather(each, f"{path}.{name}" if path else name, found)


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def differences(wanted: Shape, found: Shape) -> list[str]:
    """What an answer lacks, or has in another type. Fields of our own are no difference."""
    problems = []
    for path, types in wanted.items():
        others = sorted({*found.get(path, [])} - {*types} - {"null"})
        if path not in found:
            if not NOT_HERE.isdisjoint(path.replace("[]", "").split(".")):
                continue
            parent = path.rpartition(".")[0]
            if not parent or parent in found:
                problems.append(f"{path} is missing ({' or '.join(types)})")
        elif others:
            problems.append(f"{path} is {' or '.join(others)}, not {' or '.join(types)}")
    return problems
