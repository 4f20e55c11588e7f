"""Charts as SVG inside the page, drawn by matplotlib.

matplotlib draws with placeholders for colours, and the page's style sheet defines them: one drawing serves the light
and the dark page. matplotlib gets only numbers and our own words. Names of brokers and designs are in the legend and in
the titles that the mouse shows on a line: both are text of the page, which the page escapes.
"""

from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from markupsafe import Markup
from matplotlib import style as styles
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from openclust.shell.host.event_log import escape
from topology.simulate.input import units

# matplotlib writes to stderr in which file it keeps its list of fonts.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

LOOKS = 8
"""The style sheet has so many colours for the lines of a chart, which also differ in their dashes."""
DASHES = ((), (8, 3), (2, 3), (10, 3, 2, 3))
MARK_ROWS = 4
TICKS = 5
HEIGHT = 240
RING = "the cheapest that meets the goal"
_NAMES = ("ink", "faint", "rule", "paper", "card", "bad", "shade", "good", *(f"c{number}" for number in range(LOOKS)))
_COLORS = {name: f"#0000{number:02x}" for number, name in enumerate(_NAMES, 1)}
_PLACEHOLDER = re.compile("(?<=: )#0000([0-9a-f]{2})")
_STYLE: Any = {
    "axes.edgecolor": _COLORS["faint"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": _COLORS["faint"],
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 8.5,
    "axes.titlecolor": _COLORS["faint"],
    "axes.titlelocation": "left",
    "font.size": 8.5,
    "grid.color": _COLORS["rule"],
    "lines.linewidth": 1.5,
    "lines.scale_dashes": False,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    # The same numbers give the same page, byte for byte.
    "svg.hashsalt": "openclust",
    "xtick.color": _COLORS["faint"],
    "ytick.color": _COLORS["faint"],
    "xtick.bottom": False,
    "ytick.left": False,
}
Points = Sequence[tuple[float, float] | None]
"""None is a gap in the line."""


class Axis(msgspec.Struct, frozen=True, kw_only=True):
    """An axis. An end that is None is placed a little beyond the values."""

    label: str
    tell: Callable[[float], str] = units.count
    low: float | None = None
    high: float | None = None
    is_log: bool = False
    is_whole: bool = False
    """Whether ticks are at whole numbers only."""

    def drawn(self, value: float) -> float:
        """The value to draw; NaN, which makes a gap, if the value has no place on the axis."""
        return value if math.isfinite(value) and (value > 0 or not self.is_log) else math.nan


class LegendItem(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    kind: str
    """line, band, span, ring or mark."""
    look: int = 0
    text: str = ""
    """The words at a mark."""


class Chart:
    """A chart. Draw its lines, marks and spans, and then take `svg` and `legend` for the page."""

    def __init__(self, title: str, told: str, x: Axis, y: Axis, height: int = HEIGHT) -> None:
        """`told` describes the picture for readers who cannot see it."""
        self._legend: list[LegendItem] = []
        self._head = f"<title>{_text(title)}</title><desc>{_text(told)}</desc>"
        self._titles: dict[str, str] = {}
        self._marks = 0
        self._x, self._y = x, y
        with styles.context(["default", _STYLE]):
            self._figure = Figure(figsize=(4.8, height / 100), dpi=72, layout="constrained")
            self._axes = self._figure.add_subplot(
                xscale="log" if x.is_log else "linear", yscale="log" if y.is_log else "linear", xlabel=x.label
            )
            self._axes.set_title(y.label)

    def line(
        self, name: str, points: Points, look: int, told: str = "", *, has_dots: bool = False, is_filled: bool = False
    ) -> None:
        """Draws a line. A dot shows its values under the mouse."""
        drawn = [each or (math.nan, math.nan) for each in points]
        xs, ys = [self._x.drawn(x) for x, _ in drawn], [self._y.drawn(y) for _, y in drawn]
        gaps = [True, *(math.isnan(y) for y in ys), True]
        alone = [number for number in range(len(ys)) if gaps[number] and gaps[number + 2]]
        color = _COLORS[f"c{look % LOOKS}"]
        style = (0, DASHES[look % len(DASHES)] or None)
        (line,) = self._axes.plot(xs, ys, color=color, linestyle=style, marker=".", markevery=alone)
        self._tell(line, f"{name}: {told}" if told else name)
        if is_filled:
            self._axes.fill_between(xs, ys, color=color, alpha=0.18, linewidth=0)
        for x, y in zip(xs, ys, strict=True) if has_dots else ():
            (dot,) = self._axes.plot([x], [y], color=color, marker="o", markersize=5)
            self._tell(dot, f"{name}: {self._y.tell(y)} at {self._x.tell(x)}")
        self._legend.append(LegendItem(name=name, kind="line", look=look % LOOKS))

    def band(self, band: Sequence[tuple[float, float, float]], name: str) -> None:
        """Draws a band in place of too many lines. A point is x with the least and the greatest value of the lines."""
        if band:
            xs, low, high = zip(*band, strict=True)
            area = self._axes.fill_between(xs, low, high, color=_COLORS["faint"], alpha=0.25, linewidth=0)
            self._tell(area, name)
            self._legend.append(LegendItem(name=name, kind="band"))

    def span(self, start: float, end: float, name: str) -> None:
        self._tell(self._axes.axvspan(start, end, color=_COLORS["shade"], linewidth=0.5), name)
        self._legend.append(LegendItem(name=name, kind="span"))

    def limit(self, y: float) -> None:
        self._axes.axhline(y, color=_COLORS["bad"], linewidth=1, linestyle="--")

    def rings(self, points: Sequence[tuple[float, float]]) -> None:
        """Draws rings around the points of the cheapest layouts that meet the goal."""
        for x, y in points:
            color = _COLORS["good"]
            (ring,) = self._axes.plot([x], [y], "o", color=color, fillstyle="none", markeredgewidth=2, markersize=12)
            self._tell(ring, RING)
        if points:
            self._legend.append(LegendItem(name=RING, kind="ring"))

    def mark(
        self,
        at: float,
        text: str,
        told: str = "",
        look: int | None = None,
        *,
        at_bottom: bool = False,
        is_named: bool = False,
    ) -> None:
        """Draws a vertical line with a short text. Texts of neighbouring marks are in different rows.

        With `is_named`, `told` is in the legend too.
        """
        if math.isnan(self._x.drawn(at)):
            return
        if is_named:
            self._legend.append(LegendItem(name=told, kind="mark", text=text))
        color = _COLORS["ink" if look is None else f"c{look % LOOKS}"]
        style = "-" if look is None else (0, DASHES[look % len(DASHES)] or None)
        self._tell(self._axes.axvline(at, color=color, linewidth=0.9, alpha=0.75, linestyle=style), told or text)
        row, self._marks = self._marks % MARK_ROWS, self._marks + 1
        is_badge = len(text) <= 2
        box = {"boxstyle": "circle,pad=0.2", "facecolor": color} if is_badge else {"facecolor": _COLORS["card"]}
        if text:
            self._axes.annotate(
                text,
                xy=(at, 0 if at_bottom else 1),
                xycoords=("data", "axes fraction"),
                xytext=(0 if is_badge else 4, (8 + 12 * row) * (1 if at_bottom else -1)),
                textcoords="offset points",
                annotation_clip=True,
                ha="center" if is_badge else "left",
                va="center",
                weight="bold",
                color=_COLORS["paper" if is_badge else "ink"],
                bbox={"pad": 1, "linewidth": 0, **box},
            )

    @property
    def legend(self) -> list[LegendItem]:
        """The entries of the legend. A single line has none, unless there is a band beside it."""
        kinds = [each.kind for each in self._legend]
        is_alone = kinds.count("line") == 1 and "band" not in kinds
        return [each for each in self._legend if not (is_alone and each.kind == "line")]

    @property
    def svg(self) -> Markup:
        """The picture. Draw nothing after this."""
        self._axes.set_xlim(self._x.low, self._x.high)
        self._axes.set_ylim(self._y.low, self._y.high)
        for axis, told in ((self._axes.xaxis, self._x), (self._axes.yaxis, self._y)):
            axis.set_major_formatter(FuncFormatter(lambda value, _, tell=told.tell: tell(value)))
            axis.set_minor_locator(NullLocator())
            low, high = axis.get_view_interval()
            subs = (1, 2, 5) if told.is_log and high < 100 * low else (1,)
            whole = MaxNLocator(TICKS, steps=[1, 2, 5, 10], integer=told.is_whole)
            axis.set_major_locator(LogLocator(subs=subs, numticks=TICKS + 1) if told.is_log else whole)
        file = io.StringIO()
        with styles.context(["default", _STYLE]):
            nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            self._figure.savefig(file, format="svg", metadata=nothing)
        _, _, body = file.getvalue().partition("</defs>")
        body = re.sub('<g id="([^"]*)">', lambda found: f"<g>{self._titles.get(found[1], '')}", body)
        body = _PLACEHOLDER.sub(lambda found: f"var(--{_NAMES[int(found[1], 16) - 1]})", body)
        width, height = self._figure.get_size_inches() * 72
        return Markup(f'<svg viewBox="0 0 {width:g} {height:g}" role="img" class="chart">{self._head}{body}')

    def _tell(self, artist: Artist, text: str) -> None:
        """Gives an artist the text that shows under the mouse."""
        gid = f"told-{len(self._titles)}"
        artist.set_gid(gid)
        self._titles[gid] = f"<title>{_text(text)}</title>"


def _text(text: str) -> Markup:
    return Markup.escape(escape(text))
