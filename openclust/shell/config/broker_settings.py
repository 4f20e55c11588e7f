"""Settings of single brokers in a cluster file, `[topology.settings.p1]`: any key of the configuration, dotted."""

from __future__ import annotations

from typing import Any

from openclust.shell.config.check import RANGES, value_of
from openclust.shell.config.config import Config
from openclust.shell.config.keys import KEYS, WrongType, convert, did_you_mean
from openclust.shell.config.nested import Problems, is_nested

DOTS_MAX = 3
"""No key has so many; tables may lie in each other deeper than Python calls itself."""


def settings_problems(config: Config) -> Problems:
    """What is wrong with them: keys that there are not, and values that these do not take."""
    problems: Problems = []
    for broker, table in config.topology.settings.items():
        place = ("topology", "settings", broker)
        for dotted, value in flattened(table).items():
            key = KEYS.get(dotted)
            if key is None or is_nested(key.type):
                problems.append(((*place, *dotted.split(".")), f"unknown key {dotted!r}{did_you_mean(dotted, KEYS)}"))
                continue
            try:
                found = convert(key, value)
            except WrongType as wrong:
                problems.append(((*place, *dotted.split(".")), str(wrong)))
                continue
            low, high = RANGES.get(dotted, (0, 0))
            if dotted in RANGES and isinstance(found, int) and not low <= found <= high:
                problems.append(((*place, *dotted.split(".")), f"allowed is {low} to {high}, not {found}"))
    return problems


def setting_of(config: Config, broker: str, dotted: str) -> Any:
    """What holds for this broker: its own setting, or the file's."""
    own = flattened(config.topology.settings.get(broker, {}))
    return convert(KEYS[dotted], own[dotted]) if dotted in own else value_of(config, dotted)


def flattened(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """`cluster.heartbeat_ms = 200`, which TOML reads as a table in a table, or with quotes as one key."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        dotted = f"{before}{name}"
        if isinstance(value, dict) and dotted.count(".") < DOTS_MAX:
            found |= flattened(value, f"{dotted}.")
        else:
            found[dotted] = value
    return found
