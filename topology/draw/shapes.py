"""The shapes of a picture, for all formats that draw them. Units are pixels from the top left."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import msgspec

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]


class Area(msgspec.Struct, frozen=True):
    """A rectangle without colours."""

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

    def grown(self, margin: float) -> Area:
        return Area(self.x - margin, self.y - margin, self.w + 2 * margin, self.h + 2 * margin)

    def is_crossed(self, one: Point, other: Point) -> bool:
        """Whether the straight line between two points passes through it."""
        # Nearly all lines lie wholly on one side of the area, which is quick to see.
        if (one[0] <= self.x and other[0] <= self.x) or (one[1] <= self.y and other[1] <= self.y):
            return False
        right, bottom = self.x + self.w, self.y + self.h
        if (one[0] >= right and other[0] >= right) or (one[1] >= bottom and other[1] >= bottom):
            return False
        begin, end = 0.0, 1.0
        for low, high, start, step in (
            (self.x, right, one[0], other[0] - one[0]),
            (self.y, bottom, one[1], other[1] - one[1]),
        ):
            if abs(step) < 1e-9:
                if not low < start < high:
                    return False
                continue
            first, last = sorted(((low - start) / step, (high - start) / step))
            begin, end = max(begin, first), min(end, last)
        return begin < end

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
    """The tooltip that a browser shows."""


class Polyline(msgspec.Struct, frozen=True, kw_only=True):
    """A line through all points. Its corners have the radius `radius`, or less if a segment is too short for it."""

    points: tuple[Point, ...]
    stroke: str
    width: float = 1
    radius: float = 0
    is_dashed: bool = False
    title: str = ""

    @property
    def pieces(self) -> list[tuple[Point, Point]]:
        return list(pairwise(self.points))

    def corners(self) -> Iterator[tuple[Point, Point, Point]]:
        """For each corner where its curve begins, the corner itself, and where the curve ends."""
        for before, corner, after in zip(self.points, self.points[1:], self.points[2:], strict=False):
            radius = min(self.radius, math.dist(before, corner) / 2, math.dist(corner, after) / 2)
            yield _towards(corner, before, radius), corner, _towards(corner, after, radius)


def _towards(start: Point, end: Point, length: float) -> Point:
    whole = math.dist(start, end) or 1
    return start[0] + (end[0] - start[0]) * length / whole, start[1] + (end[1] - start[1]) * length / whole


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """One line of text; `y` is its baseline."""

    x: float
    y: float
    text: str
    size: float = 12
    color: str = "#0f172a"
    anchor: Anchor = "start"
    is_bold: bool = False

    @property
    def area(self) -> Area:
        width = width_of(self.text, self.size, is_bold=self.is_bold)
        left = {"start": self.x, "middle": self.x - width / 2, "end": self.x - width}[self.anchor]
        return Area(left, self.y - self.size * 0.82, width, self.size * 1.08)


Shape = Rect | Polyline | Words

_PLAIN_TEXT = (
    "318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636 636 636 636 "
    "337 337 838 838 838 531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863 748 787 603 787 695 635 "
    "611 732 684 989 685 611 685 390 337 390 838 500 500 613 635 550 635 615 352 635 634 278 278 579 278 974 "
    "634 612 635 635 411 521 392 634 592 818 592 592 525 636 337 636 838"
)
"""How wide the characters from the space to the tilde are in DejaVu Sans, in thousandths of the size."""

_BOLD_TEXT = (
    "348 456 521 838 696 1002 872 306 457 457 523 838 380 415 380 365 696 696 696 696 696 696 696 696 696 696 "
    "400 400 838 838 838 580 1000 774 762 734 830 683 683 821 837 372 372 775 637 995 837 850 733 850 770 720 "
    "682 812 774 1103 771 724 725 457 365 457 838 500 500 675 716 593 716 678 435 716 712 343 343 665 343 1042 "
    "712 687 716 716 493 595 478 712 652 924 645 652 582 712 365 712 838"
)
_PLAIN, _BOLD = (tuple(map(int, each.split())) for each in (_PLAIN_TEXT, _BOLD_TEXT))
_OTHERS = {"·": 380, "…": 1000, "–": 500}


def width_of(text: str, size: float, *, is_bold: bool = False) -> float:
    """The width of a line in DejaVu Sans. It is about as wide in Verdana, and narrower in most other fonts."""
    widths = _BOLD if is_bold else _PLAIN
    total = 0
    for each in text:
        place = ord(each) - 32
        if 0 <= place < len(widths):
            total += widths[place]
        else:
            total += _OTHERS.get(each) or (1050 if ord(each) > 0x2E7F else 800)
    return total * size / 1000


def shortened(text: str, size: float, room: float, *, is_bold: bool = False, end: str = "") -> str:
    """The text, no wider than the room; a longer one is cut before `end`, with which it ends."""
    if width_of(text, size, is_bold=is_bold) <= room:
        return text
    begin = text.removesuffix(end)
    while begin and width_of(f"{begin}…{end}", size, is_bold=is_bold) > room:
        begin = begin[:-1]
    return f"{begin.rstrip()}…{end}" if begin or not end else shortened(text, size, room, is_bold=is_bold)


def wrapped(text: str, size: float, room: float) -> list[str]:
    """The text in lines that are no wider than the room; a word that is wider is broken."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        longer = f"{line} {word}" if line else word
        if line and width_of(longer, size) > room:
            lines.append(line)
            longer = word
        while width_of(longer, size) > room and len(longer) > 1:
            fits = next((i for i in range(len(longer) - 1, 1, -1) if width_of(longer[:i], size) <= room), 1)
            lines.append(longer[:fits])
            longer = longer[fits:]
        line = longer
    return [*lines, line]
