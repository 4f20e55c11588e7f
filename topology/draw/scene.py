"""The picture as shapes: frames, lines, cards, labels where there is room, and the legend below."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

import msgspec

from topology.draw.colors import FAINT, FILLS, INK, LINES, LOOKS, PAPER, color_of
from topology.draw.legend import alike_lines, below, ends_of
from topology.draw.lines import Points, ways_of
from topology.draw.picture import Card, Edge, Mark, Picture
from topology.draw.picture_layout import PictureLayout, PlaceFrame, layout_of
from topology.draw.shapes import Area, Point, Polyline, Rect, Shape, Words, shortened, width_of

MARGIN = 28
HEAD = 62
WIDTH_MIN = 760
RADIUS = 7
"""The radius of the corners of lines."""

SPREADS = (1.0, 1.5, 2.2, 3.0)
"""Factors of the room between cards. They are tried in order, until every line has its own way."""

SPREAD_EDGES_MAX = 150
"""With more lines only the first of these is tried."""

COVERED_MAX = 1
"""How many other lines the text of a link without a finding may cover."""


class Scene(msgspec.Struct, frozen=True):
    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]


def scene_of(picture: Picture) -> Scene:
    layout, ways = _laid_out(picture)
    out_left, out_top, out_right, out_bottom = _beyond(layout, ways)
    whole = max(layout.width + out_left + out_right, WIDTH_MIN)
    width = whole + 2 * MARGIN
    left = MARGIN + out_left + (whole - layout.width - out_left - out_right) / 2
    top = HEAD + out_top + 12
    layout, ways = _moved(layout, ways, left, top)
    shapes: list[Shape] = [
        Rect(area=Area(0, 0, width, 1), fill=PAPER, stroke="none"),  # the height is set below
        Words(x=MARGIN, y=34, text=shortened(picture.title, 20, width - 2 * MARGIN), size=20, is_bold=True),
        Words(x=MARGIN, y=54, text=picture.subtitle, size=12, color=FAINT),
    ]
    shapes += [Rect(area=each.area, fill=FILLS[each.kind], stroke="#cbd5e1", radius=8) for each in layout.frames]
    lines = [(edge, _line(edge, picture, points)) for edge, points in zip(picture.edges, ways, strict=True)]
    lines.sort(key=lambda each: _depth(each[0]))
    shapes += [line for _, line in lines]
    titles = [_title(each) for each in layout.frames]
    for frame, words in zip(layout.frames, titles, strict=True):
        # A line that had to cross a title goes behind it, and not through its letters.
        if any(words.area.is_crossed(*piece) for _, line in lines for piece in line.pieces):
            shapes.append(Rect(area=words.area.grown(2), fill=FILLS[frame.kind], stroke="none", radius=3))
    cards: list[Shape] = []
    for card in picture.cards:
        cards += card_shapes(card, layout.areas[card.id])
    shapes += titles
    shapes += cards
    taken = [each.area for each in titles]
    for card in picture.cards:
        area = layout.areas[card.id]
        taken.append(Area(area.x, area.y - 10, area.w + 9, area.h + 10) if card.mark is not None else area)
    alike = alike_lines(picture)
    shapes += _labels(
        [(edge, line, "" if ends_of(picture, edge) in alike else edge.text) for edge, line in lines], taken, width
    )
    bottom = top + layout.height + out_bottom + MARGIN
    told, height = below(picture, bottom, width, MARGIN)
    shapes += told
    shapes[0] = Rect(area=Area(0, 0, width, bottom + height), fill=PAPER, stroke="none")
    return Scene(width, bottom + height, picture.title, tuple(shapes))


def _laid_out(picture: Picture) -> tuple[PictureLayout, tuple[Points, ...]]:
    """Places and ways. If lines would have to share segments, there is more room between the cards."""
    best: tuple[int, PictureLayout, tuple[Points, ...]] | None = None
    for spread in SPREADS:
        layout = layout_of(picture.root, spread)
        in_the_way = [_title(each).area.grown(2) for each in layout.frames]
        in_the_way += [_badge_area(each.mark, layout.areas[each.id]) for each in picture.cards if each.mark is not None]
        ways = ways_of(picture.edges, layout, in_the_way)
        if best is None or ways.shared < best[0]:
            best = ways.shared, layout, ways.points
        if not best[0] or len(picture.edges) > SPREAD_EDGES_MAX:
            break
    assert best is not None, "there is a first spread"
    return best[1], best[2]


def _title(frame: PlaceFrame) -> Words:
    return Words(
        x=frame.area.x + 12,
        y=frame.area.y + 18,
        text=shortened(f"{frame.kind} {frame.name}", 12, frame.area.w - 24, is_bold=True),
        color="#334155",
        is_bold=True,
    )


def _beyond(layout: PictureLayout, ways: Sequence[Points]) -> tuple[float, float, float, float]:
    """How far lines reach beyond the boxes: to the left, upwards, to the right, downwards."""
    points = [point for way in ways for point in way]
    return (
        max((8 - x for x, _ in points if x < 0), default=0),
        max((8 - y for _, y in points if y < 0), default=0),
        max((x - layout.width + 8 for x, _ in points if x > layout.width), default=0),
        max((y - layout.height + 8 for _, y in points if y > layout.height), default=0),
    )


def _moved(
    layout: PictureLayout, ways: Sequence[Points], left: float, top: float
) -> tuple[PictureLayout, tuple[Points, ...]]:
    def moved(area: Area) -> Area:
        return Area(area.x + left, area.y + top, area.w, area.h)

    frames = tuple(msgspec.structs.replace(each, area=moved(each.area)) for each in layout.frames)
    areas = {key: moved(each) for key, each in layout.areas.items()}
    points = tuple(tuple((x + left, y + top) for x, y in way) for way in ways)
    return PictureLayout(layout.width, layout.height, frames, areas), points


def _depth(edge: Edge) -> tuple[int, int]:
    """The drawing order of an edge: those with findings come last, on top of all other lines."""
    return (0 if edge.mark is None else int(edge.mark.severity)), ("mesh", "direct", "physical", "pair").index(
        edge.kind
    )


def _line(edge: Edge, picture: Picture, points: Points) -> Polyline:
    stroke, width = LINES[edge.kind]
    if edge.mark is not None:
        stroke, width = color_of(edge.mark), 2.2
    ends = f"{picture.cards[edge.one].title} - {picture.cards[edge.other].title}"
    parts = [ends, edge.text, ", ".join(edge.mark.codes) if edge.mark is not None else ""]
    return Polyline(
        points=points,
        stroke=stroke,
        width=width,
        radius=RADIUS,
        is_dashed=edge.kind == "pair",
        title=": ".join(each for each in parts if each),
    )


def card_shapes(card: Card, area: Area) -> list[Shape]:
    """A card with its text, and the ids of its findings in its upper right corner."""
    fill, stroke, width = LOOKS[card.kind]
    if card.mark is not None:
        stroke, width = color_of(card.mark), 2.6
    radius = 6.0 if card.kind not in ("router", "network", "wan") else area.h / 2
    title = ", ".join(
        (card.kind, *card.names[:20], *_addresses(card), *(card.mark.codes if card.mark is not None else ()))
    )
    shapes: list[Shape] = []
    if len(card.names) > 1:
        behind = Area(area.x + 5, area.y - 5, area.w, area.h)
        shapes.append(Rect(area=behind, fill=fill, stroke=stroke, width=width, radius=radius))
    is_wan = card.kind == "wan"
    shapes.append(Rect(area=area, fill=fill, stroke=stroke, width=width, radius=radius, is_dashed=is_wan, title=title))
    x, room = area.center[0], area.w - 14
    y = area.y + 18
    shapes.append(_words(x, y, card.title, 13, room, is_bold=True, color=INK))
    for i, line in enumerate(card.lines):
        y += 14
        is_role = i == 0 and card.is_broker and len(card.names) == 1
        color = LOOKS[card.kind][1] if is_role else FAINT
        shapes.append(_words(x, y, line, 10.5, room, is_bold=is_role and card.kind == "primary", color=color))
    if card.mark is not None:
        shapes += _badge(card.mark, area)
    return shapes


def _addresses(card: Card) -> list[str]:
    return [each for each in card.lines if re.search(r":\d+$", each)]


def _words(x: float, y: float, text: str, size: float, room: float, *, is_bold: bool, color: str) -> Words:
    text = shortened(text, size, room, is_bold=is_bold, end=_end(text))
    return Words(x=x, y=y, text=text, size=size, anchor="middle", is_bold=is_bold, color=color)


def _end(text: str) -> str:
    """The end of a text that is kept when it is shortened: the port of an address, or the end of a long name."""
    port = re.search(r":\d+$", text)
    return port[0] if port is not None else text[-6:]


def _badge_text(mark: Mark) -> str:
    more = len(mark.codes) - 1
    return mark.codes[0] + (f" +{more}" if more else "")


def _badge_area(mark: Mark, area: Area) -> Area:
    width = width_of(_badge_text(mark), 9, is_bold=True) + 10
    return Area(area.right - width + 8, area.y - 9, width, 16)


def _badge(mark: Mark, area: Area) -> list[Shape]:
    text, box = _badge_text(mark), _badge_area(mark, area)
    return [
        Rect(area=box, fill=color_of(mark), stroke=PAPER, radius=4, title=", ".join(mark.codes)),
        Words(x=box.center[0], y=box.y + 11.5, text=text, size=9, anchor="middle", is_bold=True, color=PAPER),
    ]


def _labels(lines: list[tuple[Edge, Polyline, str]], taken: list[Area], width: float) -> list[Shape]:
    """The texts of lines, those with findings first, each on a plate on its line that covers no other line or card.

    If every place covers another line, the text of an edge with findings goes where it covers the fewest.
    """
    shapes: list[Shape] = []
    taken = list(taken)
    wanted = [each for each in lines if each[2] or each[0].mark is not None]
    for edge, line, said in sorted(wanted, key=lambda each: (each[0].mark is None, each[0].kind == "physical")):
        codes = ", ".join(edge.mark.codes) if edge.mark is not None else ""
        text = " · ".join(each for each in (codes, said) if each)
        color = FAINT if edge.mark is None else color_of(edge.mark)
        best: tuple[int, Words] | None = None
        for x, y in _places(line):
            words = Words(x=x, y=y + 3.5, text=text, size=10, anchor="middle", color=color)
            plate = words.area.grown(2)
            if plate.x < 4 or plate.right > width - 4 or any(plate.meets(each, 1) for each in taken):
                continue
            covered = sum(
                any(plate.is_crossed(*piece) for piece in other.pieces) for _, other, _ in lines if other is not line
            )
            if best is None or covered < best[0]:
                best = covered, words
            if not covered:
                break
        if best is not None and (best[0] == 0 or edge.mark is not None or best[0] <= COVERED_MAX):
            plate = best[1].area.grown(2)
            shapes += [Rect(area=plate, fill=PAPER, stroke="none", radius=3), best[1]]
            taken.append(plate)
    return shapes


def _places(line: Polyline) -> Iterator[Point]:
    """The points of a line where its text may be: first the middles of its longest segments."""
    pieces = sorted(line.pieces, key=lambda each: -math.dist(*each))
    for part in (0.5, 0.38, 0.62, 0.26, 0.74, 0.15, 0.85):
        for one, other in pieces[:4]:
            yield one[0] + (other[0] - one[0]) * part, one[1] + (other[1] - one[1]) * part
