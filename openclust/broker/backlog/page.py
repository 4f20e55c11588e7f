"""Pages: messages of one queue as bytes, and what is known of a page whose body lies in the store (`PageState`).

The body of a page is written once. Which of its messages have left since then is in its `PageState` in memory, and
in the notes that the store keeps beside the page.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.model.message import Message, names_in

PAGE_BYTES = 262_144
"""A page has about this many bytes of messages."""
SPAN_MAX = 8_192
"""The largest distance between the first and the last place of a page: `alive` has a bit for each place between."""

Row = tuple[int, bytes, bytes, bytes, int, int, int]
"""A message in a page: place, suffix, header, body, expiry by the wall clock, deliveries, priority."""


class Notes(msgspec.Struct, array_like=True):
    """What the store keeps beside a page. `alive` has a bit for each place from the first on.

    `sizes` has four bytes for each place, the size of its message's body; it is empty where all are equal.
    `deliveries` has pairs: a place, and how often its message was delivered.
    """

    alive: bytes
    sizes: bytes
    deliveries: list[int]


_encoder = msgspec.msgpack.Encoder()
_rows = msgspec.msgpack.Decoder(list[Row])
_notes = msgspec.msgpack.Decoder(Notes)


class PageState(msgspec.Struct, eq=False):
    """One page. `alive` has the bits of the messages that are still in the queue, `unloaded` of those only on disk.

    `each` is the size of every body where `sizes` is None. `written` is the number of the write that has the page.
    """

    number: int
    first: int
    last: int
    alive: int
    each: int
    sizes: array[int] | None = None
    deliveries: dict[int, int] | None = None
    unloaded: int = 0
    written: int = 0
    is_indexed: bool = True

    def has(self, seq: int) -> bool:
        return self.first <= seq <= self.last and bool(self.alive >> (seq - self.first) & 1)

    def between(self, first: int, last: int) -> int:
        """The bits of these places; of places that are not in this page there is none."""
        low, high = max(first, self.first), min(last, self.last)
        return 0 if high < low else ((1 << (high - low + 1)) - 1) << (low - self.first)

    def size(self, bits: int) -> int:
        """The bytes of these messages' bodies."""
        sizes = self.sizes
        if sizes is None:
            return bits.bit_count() * self.each
        return sum(sizes[at] for at in _places(bits))

    def runs(self, bits: int) -> list[int]:
        """Their places as runs: the first and the last place of each."""
        runs: list[int] = []
        at = self.first
        while bits:
            gap = (bits & -bits).bit_length() - 1
            bits >>= gap
            at += gap
            length = (~bits & (bits + 1)).bit_length() - 1
            runs += (at, at + length - 1)
            bits >>= length
            at += length
        return runs

    def notes(self) -> bytes:
        """The notes for the store, encoded."""
        alive = self.alive.to_bytes((self.last - self.first) // 8 + 1, "little")
        sizes = b"" if self.sizes is None else self.sizes.tobytes()
        deliveries = [each for pair in sorted((self.deliveries or {}).items()) for each in pair]
        return _encoder.encode(Notes(alive, sizes, deliveries))


def _places(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def new_page(number: int, entries: Sequence[Entry]) -> PageState:
    """The state of a page with these messages, which are in ascending order and in memory."""
    first, last = entries[0].seq, entries[-1].seq
    if last - first + 1 == len(entries):
        alive = (1 << len(entries)) - 1
    else:
        alive = sum(1 << (entry.seq - first) for entry in entries)
    page = PageState(number, first, last, alive, len(entries[0].message.body))
    if any(len(entry.message.body) != page.each for entry in entries):
        page.sizes = array("I", bytes(4 * (last - first + 1)))
        for entry in entries:
            page.sizes[entry.seq - first] = len(entry.message.body)
    return page


def is_plain(page: PageState) -> bool:
    """Whether a new page needs no notes: no place is empty, and all bodies have one size."""
    return page.sizes is None and page.alive.bit_count() == page.last - page.first + 1


def found_page(number: int, first: int, last: int, count: int, size: int, notes: bytes) -> PageState:
    """The state of a page that the store has at start: all of it is unloaded. ValueError if it makes no sense."""
    if not (0 < first <= last < first + SPAN_MAX and 0 < count <= last - first + 1):
        raise ValueError(f"page {number} has {count} messages from place {first} to {last}")
    if not notes:
        alive = (1 << count) - 1
        return PageState(number, first, last, alive, size // count, unloaded=alive)
    told = _notes.decode(notes)
    alive = int.from_bytes(told.alive, "little")
    page = PageState(number, first, last, alive, size // count, unloaded=alive)
    if told.sizes:
        page.sizes = array("I", told.sizes)
        if len(page.sizes) != last - first + 1:
            raise ValueError(f"page {number}: not all of its sizes are there")
    if told.deliveries:
        page.deliveries = dict(zip(told.deliveries[::2], told.deliveries[1::2], strict=True))
    return page


def split(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Cut messages, which are in ascending order, into pages."""
    start = size = 0
    for at, entry in enumerate(entries):
        message = entry.message
        if at > start and (size > PAGE_BYTES or entry.seq - entries[start].seq >= SPAN_MAX):
            yield entries[start:at]
            start, size = at, 0
        size += len(message.body) + len(message.header) + 64
    if start < len(entries):
        yield entries[start:]


def encode_page(entries: Sequence[Entry], wall_offset_ms: int) -> bytes:
    return _encoder.encode(
        [
            (
                entry.seq,
                entry.message.suffix,
                entry.message.header,
                entry.message.body,
                entry.expires_ms + wall_offset_ms if entry.expires_ms else 0,
                entry.deliveries,
                entry.priority,
            )
            for entry in entries
        ]
    )


def decode_page(page: PageState, bits: int, body: bytes, recorded: int, wall_offset_ms: int) -> list[Entry]:
    """The messages of a page that have these bits, in ascending order. ValueError if the body is damaged."""
    entries = []
    first, deliveries = page.first, page.deliveries
    for seq, suffix, header, content, expires, delivered, priority in _rows.decode(body):
        if bits >> (seq - first) & 1:
            exchange, key = names_in(suffix)
            message = Message(exchange, key, header, content, suffix)
            if deliveries is not None:
                delivered = deliveries.get(seq, delivered)
            expires_ms = max(1, expires - wall_offset_ms) if expires else 0
            entries.append(Entry(message, seq, expires_ms, delivered, priority, recorded=recorded))
    if len(entries) != bits.bit_count():
        raise ValueError(f"page {page.number} has {len(entries)} of {bits.bit_count()} messages")
    return entries
