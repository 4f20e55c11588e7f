"""The picture as shapes: frames, lines, cards, labels where there is room, and below it what the signs mean."""

from __future__ import annotations

import msgspec

from topology.draw_layout import Layout, Spot, layout_of
from topology.draw_legend import alike_lines, below, ends_of
from topology.draw_lines import Bend, way
from topology.draw_looks import FAINT, FILLS, INK, LINES, LOOKS, PAPER, color_of
from topology.draw_picture import Card, Edge, Mark, Picture
from topology.draw_shapes import Area, Line, Point, Rect, Shape, Words, shortened, width_of

MARGIN = 28
HEAD = 62
WIDTH_MIN = 760


class Scene(msgspec.Struct, frozen=True):
    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]


def scene_of(picture: Picture) -> Scene:
    layout = layout_of(picture.root)
    out_left, out_top, out_right = _beyond(layout, picture)
    whole = max(layout.width + out_left + out_right, WIDTH_MIN)
    width = whole + 2 * MARGIN
    left = MARGIN + out_left + (whole - layout.width - out_left - out_right) / 2
    top = HEAD + out_top + 12
    layout = _moved(layout, left, top)
    shapes: list[Shape] = [
        Rect(area=Area(0, 0, width, 1), fill=PAPER, stroke="none"),  # its height is set below
        Words(x=MARGIN, y=34, text=shortened(picture.title, 20, width - 2 * MARGIN), size=20, is_bold=True),
        Words(x=MARGIN, y=54, text=picture.subtitle, size=12, color=FAINT),
    ]
    shapes += [Rect(area=each.area, fill=FILLS[each.kind], stroke="#cbd5e1", radius=8) for each in layout.frames]
    titles = [
        Words(
            x=each.area.x + 12,
            y=each.area.y + 18,
            text=shortened(f"{each.kind} {each.name}", 12, each.area.w - 24, is_bold=True),
            color="#334155",
            is_bold=True,
            has_halo=True,
        )
        for each in layout.frames
    ]
    lines = [(edge, _line(edge, picture, layout.spots)) for edge in sorted(picture.edges, key=_depth)]
    shapes += [line for _, line in lines]
    cards: list[Shape] = []
    for card in picture.cards:
        cards += card_shapes(card, layout.spots[card.id].area)
    shapes += titles
    shapes += cards
    taken = [each.area for each in titles]
    for card in picture.cards:
        area = layout.spots[card.id].area
        taken.append(Area(area.x, area.y - 10, area.w + 9, area.h + 10) if card.mark is not None else area)
    alike = alike_lines(picture)
    shapes += _labels(
        [(edge, line, "" if ends_of(picture, edge) in alike else edge.text) for edge, line in lines], taken
    )
    bottom = top + layout.height + MARGIN
    told, height = below(picture, bottom, width, MARGIN)
    shapes += told
    shapes[0] = Rect(area=Area(0, 0, width, bottom + height), fill=PAPER, stroke="none")
    return Scene(width, bottom + height, picture.title, tuple(shapes))


def _beyond(layout: Layout, picture: Picture) -> tuple[float, float, float]:
    """How far curves reach beyond the boxes: to the left, upwards, to the right."""
    ways = [Line(points=points, stroke="", bend=bend) for points, bend in _ways(picture, layout)]
    points = [each.at(part / 8) for each in ways if each.bend is not None for part in range(9)]
    return (
        max((-x for x, _ in points if x < 0), default=0),
        max((-y for _, y in points if y < 0), default=0),
        max((x - layout.width for x, _ in points if x > layout.width), default=0),
    )


def _ways(picture: Picture, layout: Layout) -> list[tuple[tuple[Point, ...], Bend | None]]:
    return [way(each, picture.cards, layout.spots) for each in picture.edges]


def _moved(layout: Layout, left: float, top: float) -> Layout:
    def moved(area: Area) -> Area:
        return Area(area.x + left, area.y + top, area.w, area.h)

    frames = tuple(msgspec.structs.replace(each, area=moved(each.area)) for each in layout.frames)
    spots = {
        key: Spot(moved(each.area), each.is_up, None if each.exit_y is None else each.exit_y + top)
        for key, each in layout.spots.items()
    }
    return Layout(layout.width, layout.height, frames, spots)


def _depth(edge: Edge) -> tuple[int, int]:
    """What has findings is drawn last, on top of all other lines."""
    return (0 if edge.mark is None else int(edge.mark.severity)), ("mesh", "direct", "physical", "pair").index(
        edge.kind
    )


def _line(edge: Edge, picture: Picture, spots: dict[int, Spot]) -> Line:
    points, bend = way(edge, picture.cards, spots)
    stroke, width = LINES[edge.kind]
    if edge.mark is not None:
        stroke, width = color_of(edge.mark), 2.2
    ends = f"{picture.cards[edge.one].title} - {picture.cards[edge.other].title}"
    parts = [ends, edge.text, ", ".join(edge.mark.codes) if edge.mark is not None else ""]
    return Line(
        points=points,
        stroke=stroke,
        width=width,
        is_dashed=edge.kind == "pair",
        bend=bend,
        title=": ".join(each for each in parts if each),
    )


def card_shapes(card: Card, area: Area) -> list[Shape]:
    """A card with its text, and the ids of its findings in its upper right corner."""
    fill, stroke, width = LOOKS[card.kind]
    if card.mark is not None:
        stroke, width = color_of(card.mark), 2.6
    radius = 6.0 if card.kind not in ("router", "network", "wan") else area.h / 2
    title = ", ".join((card.kind, *card.names[:20], *(card.mark.codes if card.mark is not None else ())))
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


def _words(x: float, y: float, text: str, size: float, room: float, *, is_bold: bool, color: str) -> Words:
    text = shortened(text, size, room, is_bold=is_bold)
    return Words(x=x, y=y, text=text, size=size, anchor="middle", is_bold=is_bold, color=color)


def _badge(mark: Mark, area: Area) -> list[Shape]:
    more = len(mark.codes) - 1
    text = mark.codes[0] + (f" +{more}" if more else "")
    width = width_of(text, 9, is_bold=True) + 10
    box = Area(area.right - width + 8, area.y - 9, width, 16)
    color = color_of(mark)
    return [
        Rect(area=box, fill=color, stroke=PAPER, radius=4, title=", ".join(mark.codes)),
        Words(x=box.center[0], y=box.y + 11.5, text=text, size=9, anchor="middle", is_bold=True, color=PAPER),
    ]


def _labels(lines: list[tuple[Edge, Line, str]], taken: list[Area]) -> list[Shape]:
    """What lines say, those with findings first, each where it covers nothing; where there is no room, not at all."""
    shapes: list[Shape] = []
    taken = list(taken)
    wanted = [each for each in lines if each[2] or each[0].mark is not None]
    for edge, line, said in sorted(wanted, key=lambda each: (each[0].mark is None, each[0].kind == "physical")):
        codes = ", ".join(edge.mark.codes) if edge.mark is not None else ""
        text = " · ".join(each for each in (codes, said) if each)
        for part in (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8):
            x, y = line.at(part)
            color = FAINT if edge.mark is None else color_of(edge.mark)
            words = Words(x=x, y=y + 3.5, text=text, size=10, anchor="middle", color=color, has_halo=True)
            if not any(words.area.meets(each, 3) for each in taken):
                shapes.append(words)
                taken.append(words.area)
                break
    return shapes
