"""The numbers of several brokers as one: equal names are added up, at any depth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

Totals: TypeAlias = dict[str, Any]
"""Numbers, lists and objects of these by name. RabbitMQ's counts of messages with their rates are an example."""


def summed(parts: Iterable[Totals]) -> Totals:
    """Numbers are added, lists are joined, objects are summed in the same way; a name may be missing in some parts."""
    found: Totals = {}
    for part in parts:
        for name, value in part.items():
            found[name] = _both(found[name], value) if name in found else value
    return found


def _both(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return summed((one, other))
    assert isinstance(one, int | float | list), "brokers tell numbers, lists and objects"
    return one + other
