"""Parameters: values that other parts of a broker are told, by virtual host, component and name, or global ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

VHOST_LIMITS = "vhost-limits"
LIMITS = "limits"
"""The name of the one parameter that the component `vhost-limits` has in a virtual host."""

VHOST_LIMIT_NAMES = ("max-connections", "max-queues")
USER_LIMIT_NAMES = ("max-connections", "max-channels")

CLUSTER_NAME = "cluster_name"
"""The global parameter that is the name of the cluster."""


class Parameter(NamedTuple):
    """`value` is JSON."""

    vhost: str
    component: str
    name: str
    value: str


def check_limit(name: str, value: Any, known: tuple[str, ...]) -> None:
    """ValueError unless it is a limit of these names, and a number; a negative one is no limit."""
    if name not in known:
        raise ValueError(f"unrecognised limit '{name}' (there are {', '.join(known)})")
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} should be a number, actually was {value!r}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{name} has more than 64 bits")


def _check_vhost_limits(name: str, value: Any) -> None:
    if name != LIMITS:
        raise ValueError(f"the parameter of {VHOST_LIMITS} is named '{LIMITS}'")
    if not isinstance(value, dict):
        raise ValueError("limits are an object")
    for limit, each in value.items():
        check_limit(limit, each, VHOST_LIMIT_NAMES)


COMPONENTS: dict[str, Callable[[str, Any], None]] = {VHOST_LIMITS: _check_vhost_limits}
"""By component: what raises ValueError for a parameter, by its name and value, that the component cannot take."""


def check_parameter(component: str, name: str, value: Any) -> None:
    """ValueError says what is wrong with it."""
    check = COMPONENTS.get(component)
    if check is None:
        raise ValueError(f"component {component} not found")
    check(name, value)


def with_limit(value: str | None, name: str, limit: int | None) -> str:
    """The value of the parameter with one limit changed, or without it; empty where none is left."""
    limits: dict[str, int] = msgspec.json.decode(value) if value else {}
    limits.pop(name, None)
    if limit is not None:
        limits[name] = limit
    return msgspec.json.encode(limits, order="sorted").decode() if limits else ""


class ParameterTable:
    """All parameters of a broker. After a change of limits, ask for them again."""

    __slots__ = ("_limits", "_values", "global_values")

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], str] = {}
        self._limits: dict[str, dict[str, int]] = {}
        self.global_values: dict[str, str] = {}

    def set(self, parameter: Parameter) -> None:
        """ValueError says what is wrong with it."""
        value = msgspec.json.decode(parameter.value)
        check_parameter(parameter.component, parameter.name, value)
        self._values[parameter[:3]] = parameter.value
        if parameter.component == VHOST_LIMITS:
            self._limits[parameter.vhost] = value

    def delete(self, vhost: str, component: str, name: str) -> bool:
        """Whether there was one."""
        if component == VHOST_LIMITS:
            self._limits.pop(vhost, None)
        return self._values.pop((vhost, component, name), None) is not None

    def delete_vhost(self, vhost: str) -> None:
        for key in [key for key in self._values if key[0] == vhost]:
            self.delete(*key)

    def get(self, vhost: str, component: str, name: str) -> str | None:
        """Its value as JSON."""
        return self._values.get((vhost, component, name))

    def list(self) -> list[Parameter]:
        """All, ordered by virtual host, component and name."""
        return [Parameter(*key, value) for key, value in sorted(self._values.items())]

    @property
    def limits(self) -> Mapping[str, Mapping[str, int]]:
        """The limits of the virtual hosts that have any."""
        return self._limits

    def limit(self, vhost: str, name: str) -> int | None:
        """A limit of a virtual host; None where it has none."""
        return limit_of(self._limits.get(vhost), name)


def limit_of(limits: Mapping[str, int] | None, name: str) -> int | None:
    """A limit; None where there is none, or a negative one."""
    value = limits.get(name) if limits else None
    return None if value is None or value < 0 else value
