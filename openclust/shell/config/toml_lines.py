"""Where in a TOML file its keys stand. tomllib tells of none of them, so this is read off the text: in odd layouts a
guess, and never more than a help for people."""

from __future__ import annotations

import re

Path = tuple[str, ...]
"""The names down to a key; the place in a list is one of them: `("topology", "links", "0", "between")`."""

_KEY = r"""(?:[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*(\[\[?)\s*({_KEYS})\s*\]")
_VALUE = re.compile(rf"\s*({_KEYS})\s*=")


def lines_of(text: str) -> dict[Path, int]:
    """The line of each table and key that begins a line."""
    found: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _TABLE.match(line):
            table = _within(_split(match[2]), counts)
            if match[1] == "[[":
                found.setdefault(table, number)
                counts[table] = counts.get(table, -1) + 1
                table = (*table, str(counts[table]))
        elif match := _VALUE.match(line):
            path = (*table, *_split(match[1]))
            for end in range(len(table) + 1, len(path)):
                found.setdefault(path[:end], number)
            found.setdefault(path, number)
            continue
        else:
            continue
        for end in range(1, len(table) + 1):
            found.setdefault(table[:end], number)
    return found


def line_of(lines: dict[Path, int], path: Path) -> int:
    """The line of a key, or of the nearest above it that has one; 0 where none has."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 0


def _within(path: Path, counts: dict[Path, int]) -> Path:
    """`[a.b.c]` after `[[a.b]]` is a part of the last of these."""
    there: Path = ()
    for each in path[:-1]:
        there = (*there, each)
        if there in counts:
            there = (*there, str(counts[there]))
    return (*there, path[-1])


def _split(keys: str) -> Path:
    return tuple(each[1:-1] if each[0] in "\"'" else each for each in re.findall(_KEY, keys))
