"""Shapes of a picture, for whatever paints them: pixels from the top left."""

from __future__ import annotations

from typing import Literal

import msgspec

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]


class Area(msgspec.Struct, frozen=True):
    """A rectangle without looks."""

    x: float
    y: float
    w: float
    h: float

    @property
    def center(self) -> Point:
        return self.x + self.w / 2, self.y + self.h / 2

    @property
    def right(self) -> float:
        return self.x + self.w

    @property
    def bottom(self) -> float:
        return self.y + self.h

    def meets(self, other: Area, margin: float = 0) -> bool:
        return (
            self.x < other.right + margin
            and other.x < self.right + margin
            and self.y < other.bottom + margin
            and other.y < self.bottom + margin
        )


class Rect(msgspec.Struct, frozen=True, kw_only=True):
    area: Area
    fill: str
    stroke: str
    width: float = 1
    radius: float = 0
    is_dashed: bool = False
    title: str = ""
    """What a browser shows when the pointer rests on it."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Through all points; with `bend`, a curve from the first to the last, drawn to these two points."""

    points: tuple[Point, ...]
    stroke: str
    width: float = 1
    is_dashed: bool = False
    bend: tuple[Point, Point] | None = None
    title: str = ""

    def at(self, part: float) -> Point:
        """The point at this part of the way, along the longest piece of it."""
        if self.bend is not None:
            four = (self.points[0], *self.bend, self.points[-1])
            u = 1 - part
            shares = (u**3, 3 * u * u * part, 3 * u * part * part, part**3)
            x, y = (sum(share * point[i] for share, point in zip(shares, four, strict=True)) for i in (0, 1))
            return x, y
        pieces = list(zip(self.points, self.points[1:], strict=False))
        one, other = max(pieces, key=lambda each: (each[0][0] - each[1][0]) ** 2 + (each[0][1] - each[1][1]) ** 2)
        return one[0] + (other[0] - one[0]) * part, one[1] + (other[1] - one[1]) * part


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """One line of text; `y` is its baseline. With a halo it can be read on top of lines."""

    x: float
    y: float
    text: str
    size: float = 12
    color: str = "#0f172a"
    anchor: Anchor = "start"
    is_bold: bool = False
    has_halo: bool = False

    @property
    def area(self) -> Area:
        width = width_of(self.text, self.size, is_bold=self.is_bold)
        left = {"start": self.x, "middle": self.x - width / 2, "end": self.x - width}[self.anchor]
        return Area(left, self.y - self.size * 0.82, width, self.size * 1.08)


Shape = Rect | Line | Words

_NARROW = frozenset("ijl.,:;'|!()[] ft1I-·")
_WIDE = frozenset("mwMW@%…")


def width_of(text: str, size: float, *, is_bold: bool = False) -> float:
    """How wide a line is at most, in DejaVu Sans or Verdana; narrower in most others."""
    ems = 0.0
    for each in text:
        if each in _NARROW:
            ems += 0.42
        elif each in _WIDE:
            ems += 1.0
        elif ord(each) > 0x2E7F:
            ems += 1.05
        else:
            ems += 0.7 if each.isupper() else 0.64
    return ems * size * (1.1 if is_bold else 1)


def shortened(text: str, size: float, room: float, *, is_bold: bool = False) -> str:
    """The text, or its beginning, so that it is no wider than the room."""
    if width_of(text, size, is_bold=is_bold) <= room:
        return text
    while text and width_of(f"{text}…", size, is_bold=is_bold) > room:
        text = text[:-1]
    return f"{text.rstrip()}…"
