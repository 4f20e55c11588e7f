"""The faults of a run and their times, such as `kill p2 at 30s`."""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec


class Kill(msgspec.Struct, frozen=True, tag=True):
    """A broker's process is gone."""

    broker: str
    at_ms: int


class Return(msgspec.Struct, frozen=True, tag=True):
    """A killed broker is started again."""

    broker: str
    at_ms: int


class Add(msgspec.Struct, frozen=True, tag=True):
    """A secondary that was not there before joins."""

    broker: str
    at_ms: int


class Partition(msgspec.Struct, frozen=True, tag=True):
    """Brokers on different sides do not reach each other; clients reach all of them."""

    sides: tuple[tuple[str, ...], tuple[str, ...]]
    at_ms: int
    until_ms: int


Fault: TypeAlias = Kill | Return | Add | Partition

GRAMMAR = (
    '"kill NAME at TIME", "start NAME at TIME", "add NAME at TIME" or "partition NAME... | NAME... at TIME for TIME", '
    "where a TIME is 30s, 1.5s, 250ms or 2min"
)
_TIME = r"(\d+(?:\.\d+)?)\s*(ms|s|min)"
_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000}
_ONE = re.compile(rf"(kill|start|add)\s+(\S+)\s+at\s+{_TIME}\s*")
_PARTITION = re.compile(rf"partition\s+([^|]+)\|([^|]+?)\s+at\s+{_TIME}\s+for\s+{_TIME}\s*")
_KINDS: dict[str, type[Kill | Return | Add]] = {"kill": Kill, "start": Return, "add": Add}


def parse_fault(text: str) -> Fault:
    """The fault of a sentence. Raises ValueError that names the mistake."""
    text = " ".join(text.split())
    if one := _ONE.fullmatch(text):
        return _KINDS[one[1]](one[2], _ms(one[3], one[4]))
    if split := _PARTITION.fullmatch(text):
        sides = tuple(split[1].replace(",", " ").split()), tuple(split[2].replace(",", " ").split())
        at_ms = _ms(split[3], split[4])
        if twice := set(sides[0]) & set(sides[1]):
            raise ValueError(f"{min(twice)} is on both sides of a partition")
        return Partition(sides, at_ms, at_ms + _ms(split[5], split[6]))
    raise ValueError(f"{text!r} is no fault; write {GRAMMAR}")


def _ms(number: str, unit: str) -> int:
    return round(float(number) * _UNITS_MS[unit])
