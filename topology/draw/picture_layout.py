"""The places of boxes and cards: boxes in boxes, brokers in rows, switches next to the cards that they join.

Within a box primaries stand in the first rows, then secondaries, then physical nodes. Nodes
in no box (usually the core of the network) are a band between the boxes. Boxes below the band are upside down, so that
all their switches are on its side.
"""

from __future__ import annotations

import math

import msgspec

from topology.draw.picture import Box, Card
from topology.draw.shapes import Area, width_of

CARD_MIN, CARD_MAX = 112, 230
CARD_GAP = 30
ROW_GAP = 30
PAD = 16
TITLE = 30
BOX_GAP = 28
BAND_GAP = 64
NODE_HEIGHT = 42
LINE_HEIGHT = 14
ROOT_WIDTH = 1800
INNER_WIDTH = 760


class PlaceFrame(msgspec.Struct, frozen=True):
    area: Area
    kind: str
    name: str


class PictureLayout(msgspec.Struct, frozen=True):
    width: float
    height: float
    frames: tuple[PlaceFrame, ...]
    areas: dict[int, Area]
    """The area of each card, by the card's `id()`."""


class _Block:
    """A rectangle with its contents, whose places are relative to it."""

    def __init__(self, box: Box | None = None) -> None:
        self.box = box
        self.w = self.h = 0.0
        self.blocks: list[tuple[float, float, _Block]] = []
        self.cards: list[tuple[float, float, float, float, Card]] = []


def layout_of(root: Box, spread: float = 1) -> PictureLayout:
    """The places of everything. A larger `spread` leaves more room for lines between cards."""
    sizes = _Sizes(root, spread)
    block = _root(root, sizes)
    frames: list[PlaceFrame] = []
    areas: dict[int, Area] = {}
    _spread(block, 0, 0, frames, areas)
    return PictureLayout(block.w, block.h, tuple(frames), areas)


class _Sizes:
    """The size of cards. All brokers have one width and all nodes have one, so that they form columns, too."""

    def __init__(self, root: Box, spread: float) -> None:
        self.gap = round(CARD_GAP * spread)
        self.row_gap = round(ROW_GAP * spread)
        self.title = round(TITLE * (spread + 1) / 2)
        self.box_gap = round(BOX_GAP * spread)
        self.band_gap = round(BAND_GAP * spread)
        cards = list(_all_cards(root))
        self.broker = _width([each for each in cards if each.is_broker])
        self.node = min(_width([each for each in cards if not each.is_broker]), 150)

    def of(self, cards: list[Card]) -> tuple[float, float]:
        """Width and height for each of these cards, which stand together."""
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


def _root(root: Box, sizes: _Sizes) -> _Block:
    """The whole picture: rows of boxes, and between them the band of cards that are in no box."""
    inner = [_block(each, sizes, is_up=False) for each in root.boxes.values()]
    rows = _rows_of([each.w for each in inner], ROOT_WIDTH, sizes.box_gap)
    brokers = [each for each in root.cards if each.is_broker]
    nodes = [each for each in root.cards if not each.is_broker]
    above = math.ceil(len(rows) / 2)
    whole = _Block()
    parts: list[list[_Block]] = []
    boxes = list(root.boxes.values())
    for number, row in enumerate(rows):
        parts.append([_block(boxes[i], sizes, is_up=True) if nodes and number >= above else inner[i] for i in row])
    band, loose = _Block(), _Block()
    if nodes:
        _rows_of_cards(band, nodes, sizes, 0, 0, per_row=8, gap=72)
    if brokers:
        _rows_of_cards(loose, brokers, sizes, 0, 0)
    # Brokers in no box are beyond the band, so that no line to the band crosses them.
    between = [[band]] if nodes else []
    between += [[loose]] if brokers else []
    parts[above:above] = between if rows else between[::-1]
    whole.w = max((sum(each.w for each in blocks) + sizes.box_gap * (len(blocks) - 1) for blocks in parts), default=0)
    y = 0.0
    for blocks in parts:
        is_band = blocks[0] is band
        y += sizes.band_gap - sizes.box_gap if is_band and y else 0
        x = (whole.w - sum(each.w for each in blocks) - sizes.box_gap * (len(blocks) - 1)) / 2
        height = max(each.h for each in blocks)
        for part in blocks:
            part.h = max(part.h, height) if part.box is not None else part.h
            whole.blocks.append((x, y, part))
            x += part.w + sizes.box_gap
        whole.h = y + height
        y += height + (sizes.band_gap if is_band else sizes.box_gap)
    return whole


def _block(box: Box, sizes: _Sizes, *, is_up: bool) -> _Block:
    block = _Block(box)
    nodes = [each for each in box.cards if not each.is_broker]
    y = float(sizes.title)
    if nodes and is_up:
        y = _rows_of_cards(block, nodes, sizes, PAD, y, per_row=6) + sizes.row_gap + 14
    inner = [_block(each, sizes, is_up=is_up) for each in box.boxes.values()]
    for row in _rows_of([each.w for each in inner], INNER_WIDTH, sizes.box_gap / 2):
        x = float(PAD)
        for i in row:
            inner[i].h = max(inner[j].h for j in row)
            block.blocks.append((x, y, inner[i]))
            x += inner[i].w + sizes.box_gap / 2
        block.w = max(block.w, x - sizes.box_gap / 2 + PAD)
        y += max(inner[i].h for i in row) + sizes.box_gap / 2
    for kind in ("primary", "secondary"):
        cards = [each for each in box.cards if each.kind == kind]
        if cards:
            y = _rows_of_cards(block, cards, sizes, PAD, y, per_row=_columns(box)) + sizes.row_gap
    if nodes and not is_up:
        y = _rows_of_cards(block, nodes, sizes, PAD, y + 14, per_row=6) + sizes.row_gap
    block.h = y - (sizes.box_gap / 2 if inner and block.blocks and not block.cards else sizes.row_gap) + PAD
    title = width_of(f"{box.kind} {box.name}", 12, is_bold=True) + 2 * PAD
    block.w = (
        max(block.w, *(x + w + PAD for x, _, w, _, _ in block.cards), min(title, 320))
        if block.cards
        else max(block.w, min(title, 320))
    )
    _center(block)
    return block


def _columns(box: Box) -> int:
    """The number of brokers side by side."""
    count = max(sum(1 for each in box.cards if each.kind == kind) for kind in ("primary", "secondary"))
    return count if count <= 3 else max(3, math.ceil(math.sqrt(count)))


def _rows_of_cards(
    block: _Block,
    cards: list[Card],
    sizes: _Sizes,
    left: float,
    top: float,
    *,
    per_row: int = 6,
    gap: float = 0,
) -> float:
    """Put cards in rows; returns the y at which the last row ends."""
    w, h = sizes.of(cards)
    for i, card in enumerate(cards):
        x, y = left + i % per_row * (w + (gap or sizes.gap)), top + i // per_row * (h + sizes.row_gap)
        block.cards.append((x, y, w, h, card))
        block.w, block.h = max(block.w, x + w), max(block.h, y + h)
    return top + (len(cards) - 1) // per_row * (h + sizes.row_gap) + h


def _center(block: _Block) -> None:
    """Center the columns of brokers, and each row of nodes, in their box."""
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


def _rows_of(widths: list[float], room: float, gap: float) -> list[list[int]]:
    """The indexes in each row: as many as fit, in rows of about the same length."""
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


def _spread(block: _Block, x: float, y: float, frames: list[PlaceFrame], areas: dict[int, Area]) -> None:
    if block.box is not None:
        frames.append(PlaceFrame(Area(x, y, block.w, block.h), block.box.kind, block.box.name))
    for left, top, w, h, card in block.cards:
        areas[card.id] = Area(x + left, y + top, w, h)
    for left, top, inner in block.blocks:
        _spread(inner, x + left, y + top, frames, areas)
