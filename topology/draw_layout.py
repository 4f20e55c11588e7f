"""Where everything stands in the picture: boxes in boxes, brokers in rows, switches on the side of what joins them.

Within a box primaries stand in the first rows, then secondaries, then physical nodes. What is in no box (as a rule the
core of the network) makes a band between the boxes, and boxes below it are turned, so that all switches look to it.
"""

from __future__ import annotations

import math

import msgspec

from topology.draw_picture import Box, Card
from topology.draw_shapes import Area, width_of

CARD_MIN, CARD_MAX = 112, 190
CARD_GAP = 30
ROW_GAP = 30
PAD = 16
TITLE = 26
BOX_GAP = 28
BAND_GAP = 64
NODE_HEIGHT = 42
LINE_HEIGHT = 14
ROOT_WIDTH = 1800
INNER_WIDTH = 760


class Spot(msgspec.Struct, frozen=True):
    """Where a card is. Where others stand between it and the nodes, its lines go round them, as far as `exit_y`."""

    area: Area
    is_up: bool
    """Whether the nodes of its box are above."""
    exit_y: float | None = None


class Frame(msgspec.Struct, frozen=True):
    area: Area
    kind: str
    name: str


class Layout(msgspec.Struct, frozen=True):
    width: float
    height: float
    frames: tuple[Frame, ...]
    spots: dict[int, Spot]


class _Block:
    """A rectangle with what is in it, at places within it."""

    def __init__(self, box: Box | None = None) -> None:
        self.box = box
        self.w = self.h = 0.0
        self.blocks: list[tuple[float, float, _Block]] = []
        self.cards: list[tuple[float, float, float, float, Card]] = []
        self.is_up = False
        self.exit_y: dict[int, float] = {}


def layout_of(root: Box) -> Layout:
    widths = _Widths(root)
    block = _root(root, widths)
    frames: list[Frame] = []
    spots: dict[int, Spot] = {}
    _spread(block, 0, 0, frames, spots)
    return Layout(block.w, block.h, tuple(frames), spots)


class _Widths:
    """One width for all brokers, and one for all nodes: rows are columns too."""

    def __init__(self, root: Box) -> None:
        cards = list(_all_cards(root))
        self.broker = _width([each for each in cards if each.is_broker])
        self.node = min(_width([each for each in cards if not each.is_broker]), 150)

    def of(self, cards: list[Card]) -> tuple[float, float]:
        """Width and height of cards that stand together."""
        if not cards[0].is_broker:
            return self.node, NODE_HEIGHT
        return self.broker, 26 + LINE_HEIGHT * max(len(each.lines) for each in cards)


def _width(cards: list[Card]) -> float:
    widest = max(
        (
            max(width_of(each.title, 13, is_bold=True) + 14, *(width_of(line, 10.5) for line in each.lines or ("",)))
            for each in cards
        ),
        default=0,
    )
    return min(max(CARD_MIN, math.ceil(widest) + 18), CARD_MAX)


def _all_cards(box: Box) -> list[Card]:
    return [*box.cards, *(card for inner in box.boxes.values() for card in _all_cards(inner))]


def _root(root: Box, widths: _Widths) -> _Block:
    """The whole: rows of boxes, and the band of what stands in none between them."""
    inner = [_block(each, widths, is_up=False) for each in root.boxes.values()]
    rows = _shelves([each.w for each in inner], ROOT_WIDTH, BOX_GAP)
    brokers = [each for each in root.cards if each.is_broker]
    nodes = [each for each in root.cards if not each.is_broker]
    above = math.ceil(len(rows) / 2)
    whole = _Block()
    parts: list[list[_Block]] = []
    boxes = list(root.boxes.values())
    for number, row in enumerate(rows):
        parts.append([_block(boxes[i], widths, is_up=True) if nodes and number >= above else inner[i] for i in row])
    band, loose = _Block(), _Block()
    if nodes:
        _rows_of_cards(band, nodes, widths, 0, 0, per_row=8, gap=72)
    if brokers:
        _rows_of_cards(loose, brokers, widths, 0, 0)
    # What stands nowhere is beyond the band, so that no line to the band passes it.
    between = [[band]] if nodes else []
    between += [[loose]] if brokers else []
    parts[above:above] = between if rows else between[::-1]
    whole.w = max((sum(each.w for each in blocks) + BOX_GAP * (len(blocks) - 1) for blocks in parts), default=0)
    y = 0.0
    for blocks in parts:
        is_band = blocks[0] is band
        y += BAND_GAP - BOX_GAP if is_band and y else 0
        x = (whole.w - sum(each.w for each in blocks) - BOX_GAP * (len(blocks) - 1)) / 2
        height = max(each.h for each in blocks)
        for part in blocks:
            part.h = max(part.h, height) if part.box is not None else part.h
            whole.blocks.append((x, y, part))
            x += part.w + BOX_GAP
        whole.h = y + height
        y += height + (BAND_GAP if is_band else BOX_GAP)
    return whole


def _block(box: Box, widths: _Widths, *, is_up: bool) -> _Block:
    block = _Block(box)
    block.is_up = is_up
    nodes = [each for each in box.cards if not each.is_broker]
    y = float(TITLE)
    if nodes and is_up:
        y = _rows_of_cards(block, nodes, widths, PAD, y, per_row=6) + ROW_GAP + 14
    first = y
    inner = [_block(each, widths, is_up=is_up) for each in box.boxes.values()]
    for row in _shelves([each.w for each in inner], INNER_WIDTH, BOX_GAP / 2):
        x = float(PAD)
        for i in row:
            inner[i].h = max(inner[j].h for j in row)
            block.blocks.append((x, y, inner[i]))
            x += inner[i].w + BOX_GAP / 2
        block.w = max(block.w, x - BOX_GAP / 2 + PAD)
        y += max(inner[i].h for i in row) + BOX_GAP / 2
    for kind in ("primary", "secondary"):
        cards = [each for each in box.cards if each.kind == kind]
        if cards:
            y = _rows_of_cards(block, cards, widths, PAD, y, per_row=_columns(box)) + ROW_GAP
    last = y - ROW_GAP
    if nodes and not is_up:
        y = _rows_of_cards(block, nodes, widths, PAD, y + 14, per_row=6) + ROW_GAP
    block.h = y - (BOX_GAP / 2 if inner and block.blocks and not block.cards else ROW_GAP) + PAD
    title = width_of(f"{box.kind} {box.name}", 12, is_bold=True) + 2 * PAD
    block.w = (
        max(block.w, *(x + w + PAD for x, _, w, _, _ in block.cards), min(title, 320))
        if block.cards
        else max(block.w, min(title, 320))
    )
    for _, top, _, height, card in block.cards:
        if card.is_broker and not is_up and top + height < last - 1:
            block.exit_y[card.id] = last + ROW_GAP / 2
        elif card.is_broker and is_up and top > first + 1:
            block.exit_y[card.id] = first - ROW_GAP / 2
    _center(block)
    return block


def _columns(box: Box) -> int:
    """How many brokers stand side by side."""
    count = max(sum(1 for each in box.cards if each.kind == kind) for kind in ("primary", "secondary"))
    return count if count <= 3 else max(3, math.ceil(math.sqrt(count)))


def _rows_of_cards(
    block: _Block,
    cards: list[Card],
    widths: _Widths,
    left: float,
    top: float,
    *,
    per_row: int = 6,
    gap: float = CARD_GAP,
) -> float:
    """Puts cards in rows, and returns where the last row ends."""
    w, h = widths.of(cards)
    for i, card in enumerate(cards):
        x, y = left + i % per_row * (w + gap), top + i // per_row * (h + ROW_GAP)
        block.cards.append((x, y, w, h, card))
        block.w, block.h = max(block.w, x + w), max(block.h, y + h)
    return top + (len(cards) - 1) // per_row * (h + ROW_GAP) + h


def _center(block: _Block) -> None:
    """The columns of brokers in the middle of their box, and each row of nodes."""
    rows: dict[object, list[int]] = {}
    for i, (_, y, _, _, card) in enumerate(block.cards):
        rows.setdefault("brokers" if card.is_broker else y, []).append(i)
    for row in rows.values():
        left = min(block.cards[i][0] for i in row)
        right = max(block.cards[i][0] + block.cards[i][2] for i in row)
        shift = (block.w - (right - left)) / 2 - left
        for i in row:
            x, y, w, h, card = block.cards[i]
            block.cards[i] = (x + shift, y, w, h, card)


def _shelves(widths: list[float], room: float, gap: float) -> list[list[int]]:
    """Which of these stand in one row: as many as fit, and in rows of about the same length."""
    if not widths:
        return []
    total = sum(widths) + gap * (len(widths) - 1)
    wanted = total / math.ceil(total / max(room, *widths))
    rows: list[list[int]] = [[]]
    used = 0.0
    for i, width in enumerate(widths):
        if rows[-1] and used + width / 2 > wanted:
            rows.append([])
            used = 0.0
        rows[-1].append(i)
        used += width + gap
    return rows


def _spread(block: _Block, x: float, y: float, frames: list[Frame], spots: dict[int, Spot]) -> None:
    if block.box is not None:
        frames.append(Frame(Area(x, y, block.w, block.h), block.box.kind, block.box.name))
    for left, top, w, h, card in block.cards:
        exit_y = block.exit_y.get(card.id)
        spots[card.id] = Spot(Area(x + left, y + top, w, h), block.is_up, None if exit_y is None else y + exit_y)
    for left, top, inner in block.blocks:
        _spread(inner, x + left, y + top, frames, spots)
