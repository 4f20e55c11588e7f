"""The way a line takes from card to card: round the cards that stand between."""

from __future__ import annotations

from topology.draw_layout import CARD_GAP, Spot
from topology.draw_picture import Card, Edge
from topology.draw_shapes import Area, Point

ARC_MIN = 40

Bend = tuple[Point, Point]


def way(edge: Edge, cards: tuple[Card, ...], spots: dict[int, Spot]) -> tuple[tuple[Point, ...], Bend | None]:
    """Its points, and where it bends to if it is a curve."""
    one, other = cards[edge.one], cards[edge.other]
    here, there = spots[edge.one], spots[edge.other]
    if one.is_broker == other.is_broker:
        return _between_alike(here.area, there.area, is_broker=one.is_broker)
    if not one.is_broker:
        one, here, there = other, there, here
    return _to_node(one, here, there), None


def _to_node(card: Card, here: Spot, there: Spot) -> tuple[Point, ...]:
    area, node = here.area, there.area
    x, _ = area.center
    to_x, _ = node.center
    if here.exit_y is not None:
        # Lines that share a gutter stand a little apart.
        side = 1 if to_x >= x else -1
        gutter = x + side * (area.w / 2 + CARD_GAP / 2) - side * (card.id % 3 - 1) * 4
        down = -1 if here.is_up else 1
        out = area.y - 7 if here.is_up else area.bottom + 7
        start = (x, area.y if here.is_up else area.bottom)
        last = (gutter, here.exit_y)
        return start, (gutter, out + down * 2), last, _edge_point(node, last)
    if area.bottom <= node.y:
        start = (x, area.bottom)
    elif area.y >= node.bottom:
        start = (x, area.y)
    else:
        start = (area.right if to_x > x else area.x, area.center[1])
    return start, _edge_point(node, start)


def _edge_point(area: Area, seen_from: Point) -> Point:
    """Where a line from there to the middle of the area meets its edge; spread out over its upper or lower side."""
    x, y = area.center
    from_x, from_y = seen_from
    if from_y <= area.y or from_y >= area.bottom:
        edge_y = area.y if from_y <= area.y else area.bottom
        lean = max(-0.35, min(0.35, (from_x - x) / 900)) * area.w
        return x + lean, edge_y
    return (area.x if from_x < x else area.right), y


def _between_alike(one: Area, other: Area, *, is_broker: bool) -> tuple[tuple[Point, ...], Bend | None]:
    """Between two brokers or two nodes: straight from row to row, in one row a curve over what is between."""
    (ax, ay), (bx, by) = one.center, other.center
    far = abs(ax - bx)
    if abs(ay - by) < max(one.h, other.h):
        if far < one.w * 1.6 and not is_broker:
            left, right = (one, other) if ax < bx else (other, one)
            return ((left.right, ay), (right.x, by)), None
        top = min(one.y, other.y)
        start, end = (ax, one.y), (bx, other.y)
        above = top - ARC_MIN - min(far, 900) * 0.07
        return (start, end), ((ax, above), (bx, above))
    upper, lower = (one, other) if ay < by else (other, one)
    start = _edge_point(upper, lower.center)
    end = _edge_point(lower, upper.center)
    if is_broker and far < one.w:
        # Two in one column: beside what may stand between them.
        is_right = ax >= bx
        from_x, to_x = (upper.right, lower.right) if is_right else (upper.x, lower.x)
        reach = max(from_x, to_x) + 50 if is_right else min(from_x, to_x) - 50
        ends = (from_x, upper.center[1]), (to_x, lower.center[1])
        return ends, ((reach, upper.center[1]), (reach, lower.center[1]))
    return (start, end), None
