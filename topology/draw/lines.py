"""The points of a line from card to card: straight if nothing is in between, otherwise round the cards.

Each line begins at its own point on the side of a card, so that two lines of one card look like two. Lines round
cards follow horizontal and vertical lanes. No two of them share a segment of a lane, as long as there is room.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from topology.draw.picture import Edge
from topology.draw.picture_layout import PictureLayout
from topology.draw.shapes import Area, Point

LANE = 6
"""The distance between two lanes, and between a lane and a card."""

LANES = 5
"""The number of lanes along each side of each card."""

PORT_GAP = 13
"""The distance between the ends of two lines on one side of a card, if there is room."""

CORNER, SHARED, TITLE = 22.0, 70.0, 120.0
"""The cost of a corner, of a segment shared with another line, and of a crossed title, in pixels of detour."""

ROUTED_MAX = 400
"""At most so many lines are led round cards. The others are straight, whatever they cross."""

NEAR = 260
"""The search for a way begins with the lanes up to this far from its two ends."""

Side = Literal["top", "bottom", "left", "right"]
Points = tuple[Point, ...]


class LineWays(msgspec.Struct, frozen=True):
    """The points of each line, and how many segments lie on those of other lines for lack of room."""

    points: tuple[Points, ...]
    shared: int


class _End(msgspec.Struct):
    """One end of a line: the side of the card, and the point on it."""

    edge: int
    side: Side
    area: Area
    to: Point
    at: Point = (0, 0)

    @property
    def out(self) -> Point:
        """The point one lane away from the card."""
        x, y = self.at
        match self.side:
            case "top":
                return x, y - LANE
            case "bottom":
                return x, y + LANE
            case "left":
                return x - LANE, y
            case "right":
                return x + LANE, y


def ways_of(edges: Sequence[Edge], layout: PictureLayout, titles: Sequence[Area]) -> LineWays:
    """The ways of all edges, in their order. A way avoids `titles` if that is not much longer."""
    areas = layout.areas
    cards = list(areas.values())
    # Titles of boxes are above the cards, and the lines to a network's nodes below.
    around: Side = "top" if any(each.kind == "physical" for each in edges) else "bottom"
    ends: list[tuple[_End, _End]] = []
    for number, edge in enumerate(edges):
        one, other = areas[edge.one], areas[edge.other]
        first, second = _sides(one, other, cards, around)
        ends.append((_End(number, first, one, other.center), _End(number, second, other, one.center)))
    _spread_ends([end for pair in ends for end in pair], titles)
    lanes = _Lanes(cards, titles, [each.area for each in layout.frames])
    found: dict[int, Points] = {}
    for number, (first_end, second_end) in enumerate(ends):
        if lanes.is_free(first_end.at, second_end.at, (first_end.area, second_end.area)):
            found[number] = (first_end.at, second_end.at)
            lanes.take(found[number])
    others = [number for number in range(len(edges)) if number not in found]
    others.sort(key=lambda number: (edges[number].kind == "pair", _far(*ends[number])))
    for number in others[:ROUTED_MAX]:
        found[number] = lanes.way(*ends[number])
        lanes.take(found[number])
    for number in others[ROUTED_MAX:]:
        found[number] = (ends[number][0].at, ends[number][1].at)
    return LineWays(tuple(found[number] for number in range(len(edges))), lanes.shared)


def _far(one: _End, other: _End) -> float:
    return abs(one.at[0] - other.at[0]) + abs(one.at[1] - other.at[1])


def _sides(one: Area, other: Area, cards: Iterable[Area], around: Side) -> tuple[Side, Side]:
    """The sides of the two cards where a line begins and ends; `around` if other cards of the row are between them."""
    if one.bottom + LANE < other.y:
        return "bottom", "top"
    if other.bottom + LANE < one.y:
        return "top", "bottom"
    left, right = (one, other) if one.x < other.x else (other, one)
    y = max(one.y, other.y) + min(one.h, other.h) / 2
    is_next = not any(
        each is not one and each is not other and each.is_crossed((left.right, y), (right.x, y)) for each in cards
    )
    if not is_next:
        return around, around
    return ("right", "left") if left is one else ("left", "right")


def _spread_ends(ends: Iterable[_End], titles: Sequence[Area]) -> None:
    """Give each end its point on the side of its card, in the order of the lines' directions, beside the badge."""
    by_side: dict[tuple[float, float, Side], list[_End]] = {}
    for end in ends:
        by_side.setdefault((end.area.x, end.area.y, end.side), []).append(end)
    for (_, _, side), together in by_side.items():
        is_level = side in ("top", "bottom")
        together.sort(key=lambda each: (_order(each), each.edge))
        area = together[0].area
        if side == "top":
            edge = Area(area.x, area.y - 1, area.w, 2)
            covered = [each.x - 4 for each in titles if each.meets(edge) and each.x > area.x + 40]
            beside = min([area.right, *covered]) - area.x
            if beside - 20 > (len(together) - 1) * LANE * 1.3:
                area = Area(area.x, area.y, beside, area.h)
        length = area.w if is_level else area.h
        gap = min(PORT_GAP, (length - 20) / max(1, len(together) - 1))
        middle = area.center[0] if is_level else area.center[1]
        for place, end in enumerate(together):
            along = middle + (place - (len(together) - 1) / 2) * gap
            if is_level:
                end.at = (along, area.y if side == "top" else area.bottom)
            else:
                end.at = (area.x if side == "left" else area.right, along)


def _order(end: _End) -> float:
    """The sort key of an end: lines to the left begin on the left, and those with the farthest target outermost."""
    x, y = end.area.center
    if end.side in ("left", "right"):
        return end.to[1] - y
    return (end.to[0] - x) / max(1.0, abs(end.to[1] - y))


class _Lanes:
    """The obstacles, the lanes between them, and the segments of lanes that lines already use."""

    def __init__(self, cards: Sequence[Area], titles: Sequence[Area], frames: Sequence[Area]) -> None:
        self._cards = cards
        self._kept_clear = [each.grown(LANE - 1) for each in cards]
        self._titles = titles
        steps = [LANE * (i + 1) for i in range(LANES)]
        self._xs = _lanes([at for each in cards for k in steps for at in (each.x - k, each.right + k)])
        self._ys = _lanes([at for each in cards for k in steps for at in (each.y - k, each.bottom + k)])
        for each in frames:
            _clear(self._xs, (each.x, each.right))
            _clear(self._ys, (each.y, each.bottom))
        self._taken: dict[tuple[bool, int], list[tuple[float, float, float]]] = {}
        self._costs: dict[tuple[bool, float, float, float], float] = {}
        self.shared = 0

    def is_free(self, one: Point, other: Point, own: tuple[Area, Area]) -> bool:
        """Whether the straight line crosses no other card and no title, and lies on no other line."""
        if any(each.grown(4).is_crossed(one, other) for each in self._cards if each not in own):
            return False
        if any(each.is_crossed(one, other) for each in self._titles):
            return False
        is_straight = abs(one[0] - other[0]) < 1 or abs(one[1] - other[1]) < 1
        return not is_straight or not self._sharing(*_piece(one, other))

    def take(self, points: Points) -> None:
        for one, other in pairwise(points):
            if abs(one[0] - other[0]) < 0.5 or abs(one[1] - other[1]) < 0.5:
                is_level, at, low, high = _piece(one, other)
                self.shared += bool(self._sharing(is_level, at, low, high))
                self._taken.setdefault((is_level, round(at / LANE)), []).append((at, low, high))

    def _sharing(self, is_level: bool, at: float, low: float, high: float) -> float:
        """The length that the segment has in common with other lines."""
        near = round(at / LANE)
        return sum(
            max(0.0, min(high, its_high) - max(low, its_low) - 1)
            for place in (near - 1, near, near + 1)
            for its_at, its_low, its_high in self._taken.get((is_level, place), ())
            if abs(its_at - at) < LANE * 0.6
        )

    def _cost(self, is_level: bool, at: float, low: float, high: float) -> float:
        """The cost of a segment of a lane, without that of sharing it; infinite if it crosses a card."""
        key = (is_level, at, low, high)
        known = self._costs.get(key)
        if known is not None:
            return known
        one, other = ((low, at), (high, at)) if is_level else ((at, low), (at, high))
        if any(each.is_crossed(one, other) for each in self._kept_clear):
            cost = float("inf")
        else:
            cost = high - low + sum(TITLE for each in self._titles if each.is_crossed(one, other))
        self._costs[key] = cost
        return cost

    def way(self, first: _End, second: _End) -> Points:
        """The cheapest way along lanes; the straight line if there is none."""
        inner = self._search(first, second, NEAR) or self._search(first, second, None)
        if inner is None:
            return first.at, second.at
        return _without_needless((first.at, *inner, second.at))

    def _search(self, first: _End, second: _End, near: float | None) -> Points | None:
        start, goal = first.out, second.out
        xs, ys = _with(self._xs, start[0], goal[0]), _with(self._ys, start[1], goal[1])
        if near is not None:
            xs = _between(xs, start[0], goal[0], near)
            ys = _between(ys, start[1], goal[1], near)
        begin = (bisect_left(xs, start[0]), bisect_left(ys, start[1]))
        end = (bisect_left(xs, goal[0]), bisect_left(ys, goal[1]))
        # A state of the search is a crossing of lanes, and whether it was reached along a horizontal lane.
        starts_level, ends_level = (each.side in ("left", "right") for each in (first, second))
        best: dict[tuple[int, int, bool], float] = {(*begin, starts_level): 0.0}
        came: dict[tuple[int, int, bool], tuple[int, int, bool]] = {}
        waiting: list[tuple[float, float, tuple[int, int, bool]]] = [(0.0, 0.0, (*begin, starts_level))]
        while waiting:
            _, cost, state = heapq.heappop(waiting)
            if cost > best[state]:
                continue
            i, j, is_level = state
            if (i, j) == end:
                return _traced(state, came, xs, ys)
            for di, dj in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                ni, nj = i + di, j + dj
                if not (0 <= ni < len(xs) and 0 <= nj < len(ys)):
                    continue
                piece = _piece((xs[i], ys[j]), (xs[ni], ys[nj]))
                step = self._cost(*piece)
                if step == float("inf"):
                    continue
                sharing = self._sharing(*piece)
                if sharing:
                    step += SHARED + 3 * sharing
                after = cost + step + CORNER * (piece[0] is not is_level)
                if (ni, nj) == end and piece[0] is not ends_level:
                    after += CORNER
                following = (ni, nj, piece[0])
                if after < best.get(following, float("inf")):
                    best[following] = after
                    came[following] = state
                    rest = abs(xs[ni] - goal[0]) + abs(ys[nj] - goal[1])
                    heapq.heappush(waiting, (after + rest, after, following))
        return None


def _traced(
    state: tuple[int, int, bool],
    came: dict[tuple[int, int, bool], tuple[int, int, bool]],
    xs: Sequence[float],
    ys: Sequence[float],
) -> Points:
    points = [(xs[state[0]], ys[state[1]])]
    while state in came:
        state = came[state]
        points.append((xs[state[0]], ys[state[1]]))
    return tuple(reversed(points))


def _piece(one: Point, other: Point) -> tuple[bool, float, float, float]:
    """Whether the segment is horizontal, the coordinate of its lane, and where it begins and ends in that lane."""
    if abs(one[1] - other[1]) <= abs(one[0] - other[0]):
        return True, one[1], min(one[0], other[0]), max(one[0], other[0])
    return False, one[0], min(one[1], other[1]), max(one[1], other[1])


def _lanes(wanted: Iterable[float]) -> list[float]:
    """Those coordinates that are far enough from each other."""
    kept: list[float] = []
    for each in sorted(wanted):
        if not kept or each - kept[-1] >= LANE - 1:
            kept.append(each)
    return kept


def _clear(lanes: list[float], borders: tuple[float, float]) -> None:
    """Move lanes away from the borders of a box: a line there would look like the border."""
    lanes[:] = [each for each in lanes if all(abs(each - border) > 2 for border in borders)]


def _with(lanes: list[float], *more: float) -> list[float]:
    """The lanes with `more` of them, which replace lanes that are very near."""
    found = [lane for lane in lanes if all(abs(lane - each) > 1 for each in more)]
    for each in dict.fromkeys(more):
        insort(found, each)
    return found


def _between(lanes: list[float], one: float, other: float, near: float) -> list[float]:
    return [each for each in lanes if min(one, other) - near <= each <= max(one, other) + near]


def _without_needless(points: Points) -> Points:
    """The same way without points in the middle of a straight segment."""
    kept = [points[0]]
    for point, after in pairwise(points[1:]):
        before = kept[-1]
        if point != before and not any(before[i] == point[i] == after[i] for i in (0, 1)):
            kept.append(point)
    return (*kept, points[-1])
