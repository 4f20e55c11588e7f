"""Charts as inline SVG: axes, lines, steps, marks. Colours come from the page's style, for light and dark.

A line is told apart by its colour and by its dashes; its legend is text beside the picture, which wraps as text does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from topology.simulate.input import units
from topology.simulate.report.html import EMPTY, Html, element

WIDTH, HEIGHT = 480.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 16.0, 26.0, 42.0
LOOKS = 8
"""Colours of the style sheet, `c0` and so on."""
TICKS = 5
MARK_ROWS = 4
_NOTHING = 1e-12
"""Less than that is drawn as 0."""
RING = "the cheapest that meets the goal"
DASHES = (None, "8 3", "2 3", "10 3 2 3")
Points = Sequence[tuple[float, float] | None]
"""None is a gap in the line."""


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    low: float
    high: float
    label: str
    tell: Callable[[float], str] = units.count
    is_log: bool = False
    is_whole: bool = False
    """Nothing is between whole numbers."""

    def part(self, value: float) -> float:
        """Where a value is between the ends, from 0 to 1."""
        if self.is_log:
            low, high = math.log(self.low), math.log(self.high)
            return (math.log(max(value, self.low)) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if self.is_log:
            return _decades(self.low, self.high)
        return _steps(self.low, self.high, 1.0 if self.is_whole else 0.0)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    points: Points
    look: int
    told: str = ""
    """More for who points at it."""
    has_dots: bool = False
    is_filled: bool = False


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A vertical line at `at`, with a short text at its top."""

    at: float
    text: str
    name: str = ""
    """In the legend, if there is one."""
    told: str = ""
    """For who points at it; else it is the name."""
    look: int | None = None


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    told: str
    """What is to be seen, for who cannot see it."""
    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    marks: Sequence[Mark] = ()
    spans: Sequence[tuple[float, float, str]] = ()
    """Shaded from one x to another, and why."""
    band: Sequence[tuple[float, float, float]] = ()
    """x, least, most of lines too many to draw."""
    band_name: str = ""
    limit: float | None = None
    """A horizontal line."""
    rings: Sequence[tuple[float, float]] = ()
    """Points to be pointed out: the cheapest that meet a goal."""
    height: float = HEIGHT
    tells_below: bool = False
    """What marks say stands at the bottom, where the line is at the top."""


def axis_of(
    values: Iterable[float],
    label: str,
    tell: Callable[[float], str] = units.count,
    *,
    is_log: bool = False,
    from_zero: bool = True,
) -> Axis:
    """An axis on which all values are to be seen: from 0, unless it is told otherwise or is logarithmic."""
    found = [each if abs(each) > _NOTHING else 0.0 for each in values if math.isfinite(each)]
    if is_log:
        found = [each for each in found if each > 0]
    low, high = min(found, default=1.0), max(found, default=1.0)
    if is_log:
        low, high = low / 1.15, high * 1.15
        return Axis(low=low, high=high, label=label, tell=tell, is_log=True)
    if from_zero:
        low, high = min(low, 0.0), high * 1.06
    else:
        margin = (high - low) * 0.08 or abs(high) * 0.05
        low, high = low - margin, high + margin
    return Axis(low=low, high=high if high > low else low + 1.0, label=label, tell=tell)


def figure(title: str, *content: Html, note: str = "", is_wide: bool = False) -> Html:
    told = element("p", note, class_="note") if note else EMPTY
    return element("figure", element("figcaption", title), *content, told, class_="broad" if is_wide else None)


def chart_figure(chart: Chart, note: str = "") -> Html:
    return figure(chart.title, picture(chart), legend(chart), note=note)


def picture(chart: Chart) -> Html:
    """The SVG alone."""
    place = _Place(chart)
    content = [
        element("title", chart.title),
        element("desc", chart.told),
        *_spans(chart, place),
        *_grid(chart, place),
        *_band(chart, place),
        *(part for line in chart.lines for part in _line(line, place)),
        *(
            element("circle", element("title", RING), cx=place.x(x), cy=place.y(y), r=9, class_="ring")
            for x, y in chart.rings
        ),
        *_marks(chart, place),
    ]
    return element("svg", *content, viewBox=f"0 0 {WIDTH:g} {chart.height:g}", role="img", class_="chart")


def legend(chart: Chart) -> Html:
    """What the lines are; nothing where there is one line without need of a name."""
    items = [element("li", _sample(each), each.name) for each in chart.lines if each.name]
    if len(items) == 1 and not chart.band:
        items = []
    if chart.band:
        swatch = element("span", class_="swatch band")
        items.append(element("li", swatch, chart.band_name))
    items += [element("li", element("b", each.text, class_="badge"), each.name) for each in chart.marks if each.name]
    items += [element("li", element("span", class_="swatch span"), name) for _, _, name in chart.spans if name]
    if chart.rings:
        ring = element("circle", cx=15, cy=6, r=5, class_="ring")
        items.append(
            element("li", element("svg", ring, viewBox="0 0 30 12", class_="swatch", aria_hidden="true"), RING)
        )
    return element("ul", *items, class_="legend") if items else EMPTY


def dashes_of(look: int) -> str | None:
    return DASHES[look % len(DASHES)]


class _Place:
    """From values to where they are on the picture."""

    def __init__(self, chart: Chart) -> None:
        self.axes = chart.x, chart.y
        self.right = WIDTH - RIGHT
        self.bottom = chart.height - BOTTOM

    def x(self, value: float) -> float:
        return LEFT + min(max(self.axes[0].part(value), 0.0), 1.0) * (self.right - LEFT)

    def y(self, value: float) -> float:
        return self.bottom - min(max(self.axes[1].part(value), 0.0), 1.0) * (self.bottom - TOP)

    def holds(self, x: float) -> bool:
        return -1e-9 <= self.axes[0].part(x) <= 1 + 1e-9


def _grid(chart: Chart, place: _Place) -> list[Html]:
    found = []
    for value in chart.y.ticks():
        y = place.y(value)
        found.append(element("line", x1=LEFT, x2=place.right, y1=y, y2=y, class_="grid"))
        found.append(element("text", chart.y.tell(value), x=LEFT - 6, y=y + 4, class_="end"))
    for value in chart.x.ticks():
        x = place.x(value)
        found.append(element("line", x1=x, x2=x, y1=place.bottom, y2=place.bottom + 4, class_="axis"))
        # The outermost must not be cut off.
        side = "end" if x > place.right - 12 else "middle"
        found.append(element("text", chart.x.tell(value), x=min(x, WIDTH - 2), y=place.bottom + 17, class_=side))
    found.append(element("line", x1=LEFT, x2=place.right, y1=place.bottom, y2=place.bottom, class_="axis"))
    middle = (LEFT + place.right) / 2
    found.append(element("text", chart.x.label, x=middle, y=chart.height - 6, class_="middle label"))
    found.append(element("text", chart.y.label, x=4, y=13, class_="label"))
    if chart.limit is not None and chart.y.low <= chart.limit <= chart.y.high:
        y = place.y(chart.limit)
        found.append(element("line", x1=LEFT, x2=place.right, y1=y, y2=y, class_="limit"))
    return found


def _line(line: Line, place: _Place) -> list[Html]:
    shown = [
        (place.x(each[0]), place.y(each[1]))
        if each is not None and place.holds(each[0]) and math.isfinite(each[1])
        else None
        for each in line.points
    ]
    color = f"s c{line.look % LOOKS}"
    title = element("title", f"{line.name}: {line.told}" if line.told else line.name)
    found = [element("path", title, d=_path(shown), class_=color, stroke_dasharray=dashes_of(line.look))]
    whole = [each for each in shown if each is not None]
    if line.is_filled and len(whole) > 1:
        area = [(whole[0][0], place.bottom), *whole, (whole[-1][0], place.bottom)]
        found.insert(0, element("path", d=_path(area), class_=f"area c{line.look % LOOKS}"))
    if line.has_dots:
        x_axis, y_axis = place.axes
        for value, at in zip(line.points, shown, strict=True):
            if value is not None and at is not None:
                title = element("title", f"{line.name}: {y_axis.tell(value[1])} at {x_axis.tell(value[0])}")
                color = f"dot c{line.look % LOOKS}"
                found.append(element("circle", title, cx=at[0], cy=at[1], r=4, class_=color))
    return found


def _path(points: Iterable[tuple[float, float] | None]) -> str:
    parts: list[str] = []
    pen = "M"
    alone: str | None = None
    for each in points:
        if each is None:
            if alone:
                # A dot, where there is nothing on either side to draw a line to.
                parts.append("h.1")
            pen, alone = "M", None
            continue
        parts.append(f"{pen}{each[0]:.1f} {each[1]:.1f}")
        alone = parts[-1] if pen == "M" else None
        pen = "L"
    if alone:
        parts.append("h.1")
    return "".join(parts)


def _band(chart: Chart, place: _Place) -> list[Html]:
    if not chart.band:
        return []
    upper = [(place.x(x), place.y(high)) for x, _, high in chart.band]
    lower = [(place.x(x), place.y(low)) for x, low, _ in reversed(chart.band)]
    return [element("path", element("title", chart.band_name), d=_path([*upper, *lower]) + "Z", class_="band")]


def _spans(chart: Chart, place: _Place) -> list[Html]:
    found = []
    for start, end, name in chart.spans:
        x = place.x(start)
        width = max(place.x(end) - x, 1.5)
        title = element("title", name)
        found.append(element("rect", title, x=x, width=width, y=TOP, height=place.bottom - TOP, class_="span"))
    return found


def _marks(chart: Chart, place: _Place) -> list[Html]:
    """From left to right, each in the first row where what it says does not lie on what another says."""
    taken = [0.0] * MARK_ROWS
    found = []
    for mark in sorted(chart.marks, key=lambda each: each.at):
        if not place.holds(mark.at):
            continue
        x = place.x(mark.at)
        width = 8.5 * len(mark.text) + 12
        start = x - width if x + width > WIDTH else x - 8
        row = next((number for number in range(MARK_ROWS) if taken[number] <= start), MARK_ROWS - 1)
        taken[row] = start + width
        y = place.bottom - 10 - row * 15 if chart.tells_below and len(mark.text) > 2 else TOP + 10 + row * 15
        found += _mark(mark, x, y, place, "end" if start < x - width / 2 else "start")
    return found


def _mark(mark: Mark, x: float, y: float, place: _Place, side: str) -> list[Html]:
    color = "mark" if mark.look is None else f"mark c{mark.look % LOOKS}"
    dashes = None if mark.look is None else dashes_of(mark.look)
    line = element("line", x1=x, x2=x, y1=TOP, y2=place.bottom, class_=color, stroke_dasharray=dashes)
    if not mark.text:
        return [element("g", element("title", mark.told or mark.name), line)]
    wide = len(mark.text) > 2
    if not wide:
        badge = element("circle", cx=x, cy=y, r=8, class_="badge")
        return [
            line,
            element(
                "g", element("title", mark.name), badge, element("text", mark.text, x=x, y=y + 4, class_="middle on")
            ),
        ]
    aside = -5 if side == "end" else 5
    return [line, element("text", mark.text, x=x + aside, y=y + 4, class_=f"{side} told")]


def _sample(line: Line) -> Html:
    stroke = element(
        "line", x1=0, x2=30, y1=6, y2=6, class_=f"s c{line.look % LOOKS}", stroke_dasharray=dashes_of(line.look)
    )
    return element("svg", stroke, viewBox="0 0 30 12", class_="swatch", aria_hidden="true")


def _steps(low: float, high: float, least: float) -> list[float]:
    """Round numbers from low to high, about `TICKS` of them."""
    raw = max((high - low) / TICKS, least)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten; with few of them also 2 and 5 times."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = math.log10(high / low)
    factors = (1, 2, 5) if decades < 2 else (1, 3) if decades < 3 else (1,)
    every = max(1, math.ceil((last - first) / (TICKS + 1))) if factors == (1,) else 1
    found = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
    return [each for each in found if low * 0.999 <= each <= high * 1.001]
