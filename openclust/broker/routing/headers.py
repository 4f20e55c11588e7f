"""Which messages match a binding of a headers exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openclust.broker.model.field_type import comparable, type_name, value_text

_MODES = ("all", "any", "all-with-x", "any-with-x")
_MISSING: Any = object()
# Two values of one of these types are equal as in Python.
_PLAIN = (str, int, bool, float, bytes)


class HeadersMatcher:
    """The arguments of one binding, compiled. ValueError with a 406's text if `x-match` is none of its four words.

    `all` (the default) wants every argument among the message's headers, `any` at least one; so with no arguments to
    compare, `all` takes everything and `any` nothing. Without `-with-x`, arguments that begin with `x-` do not count.
    """

    __slots__ = ("_any", "_wanted")

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        mode = arguments.get("x-match", "all")
        if not isinstance(mode, str):
            raise ValueError(
                f"Invalid x-match field type {type_name(mode)} (value {value_text(mode)}); expected longstr"
            )
        if mode not in _MODES:
            raise ValueError(f"Invalid x-match field value '{value_text(mode)}'; expected {', '.join(_MODES)}")
        with_x = mode.endswith("-with-x")
        self._any = mode.startswith("any")
        # Name, type if values of it are compared as in Python (else None), value, and the value's `comparable` form.
        self._wanted: tuple[tuple[str, type | None, Any, object], ...] = tuple(
            (name, type(value) if type(value) in _PLAIN else None, value, comparable(value))
            for name, value in arguments.items()
            if name != "x-match" and (with_x or not name.startswith("x-"))
        )

    def matches(self, headers: Mapping[str, Any] | None) -> bool:
        """Whether a message with these headers (None: the property is absent) goes to this binding."""
        if headers is None:
            headers = {}
        stop_at = self._any
        for name, kind, wanted, typed in self._wanted:
            value = headers.get(name, _MISSING)
            if value is _MISSING:
                hit = False
            elif wanted is None:
                # The binding has no value: any value of the header matches.
                hit = True
            elif type(value) is kind:
                hit = value == wanted
            else:
                hit = comparable(value) == typed
            if hit is stop_at:
                return stop_at
        return not stop_at
