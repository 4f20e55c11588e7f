"""Pages: messages of one queue as bytes, and what is known of a page whose body lies in the store (`Leaf`).

A page is written once. What becomes of its messages afterwards is in its leaf, and beside it in the store (`notes`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.model.message import Message, names_in

PAGE_BYTES = 262_144
"""About so many bytes of messages make a page."""
SPAN_MAX = 8_192
"""No more places than that lie between the first and the last message of a page: a bit each tells which are alive."""

Row = tuple[int, bytes, bytes, bytes, int, int, int]
"""A message in a page: place, suffix, header, body, expiry by the wall clock, deliveries, priority."""


class Notes(msgspec.Struct, array_like=True):
    """What the store keeps beside a page. `alive` has a bit for each place from the first on.

    `sizes` are four bytes a place, of the messages' bodies; none where they are all equal. `deliveries` are places and
    how often their messages came back, in turn.
    """

    alive: bytes
    sizes: bytes
    deliveries: list[int]


_encoder = msgspec.msgpack.Encoder()
_rows = msgspec.msgpack.Decoder(list[Row])
_notes = msgspec.msgpack.Decoder(Notes)


class Leaf(msgspec.Struct, eq=False):
    """One page. `alive` are the bits of the messages that are still there, `out` those that are in no memory.

    `each` is the size of all bodies where `sizes` is None. `written` is the number of the write that brings it to disk.
    """

    number: int
    first: int
    last: int
    alive: int
    each: int
    sizes: array[int] | None = None
    deliveries: dict[int, int] | None = None
    out: int = 0
    written: int = 0
    is_shelved: bool = True

    def has(self, seq: int) -> bool:
        return self.first <= seq <= self.last and bool(self.alive >> (seq - self.first) & 1)

    def between(self, first: int, last: int) -> int:
        """The bits of these places, as far as they are this page's."""
        low, high = max(first, self.first), min(last, self.last)
        return 0 if high < low else ((1 << (high - low + 1)) - 1) << (low - self.first)

    def size(self, bits: int) -> int:
        """The bytes of these messages' bodies."""
        sizes = self.sizes
        if sizes is None:
            return bits.bit_count() * self.each
        return sum(sizes[at] for at in _places(bits))

    def runs(self, bits: int) -> list[int]:
        """Their places: the first and the last of each run, in turn."""
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
        """What is to be kept beside the page."""
        alive = self.alive.to_bytes((self.last - self.first) // 8 + 1, "little")
        sizes = b"" if self.sizes is None else self.sizes.tobytes()
        deliveries = [each for pair in sorted((self.deliveries or {}).items()) for each in pair]
        return _encoder.encode(Notes(alive, sizes, deliveries))


def _places(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def new_leaf(number: int, entries: Sequence[Entry]) -> Leaf:
    """The leaf of a page with these messages, in ascending order, all of which are in memory."""
    first, last = entries[0].seq, entries[-1].seq
    if last - first + 1 == len(entries):
        alive = (1 << len(entries)) - 1
    else:
        alive = sum(1 << (entry.seq - first) for entry in entries)
    leaf = Leaf(number, first, last, alive, len(entries[0].message.body))
    if any(len(entry.message.body) != leaf.each for entry in entries):
        leaf.sizes = array("I", bytes(4 * (last - first + 1)))
        for entry in entries:
            leaf.sizes[entry.seq - first] = len(entry.message.body)
    return leaf


def is_plain(leaf: Leaf) -> bool:
    """Whether all that is to be known of a new page is in its first and last place and its size."""
    return leaf.sizes is None and leaf.alive.bit_count() == leaf.last - leaf.first + 1


def found_leaf(number: int, first: int, last: int, count: int, size: int, notes: bytes) -> Leaf:
    """The leaf of a page as it was found in the store: nothing of it is in memory. ValueError where it is none."""
    if not (0 < first <= last < first + SPAN_MAX and 0 < count <= last - first + 1):
        raise ValueError(f"page {number} has {count} messages from place {first} to {last}")
    if not notes:
        alive = (1 << count) - 1
        return Leaf(number, first, last, alive, size // count, out=alive)
    told = _notes.decode(notes)
    alive = int.from_bytes(told.alive, "little")
    leaf = Leaf(number, first, last, alive, size // count, out=alive)
    if told.sizes:
        leaf.sizes = array("I", told.sizes)
        if len(leaf.sizes) != last - first + 1:
            raise ValueError(f"page {number}: not all of its sizes are there")
    if told.deliveries:
        leaf.deliveries = dict(zip(told.deliveries[::2], told.deliveries[1::2], strict=True))
    return leaf


def split(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Messages in ascending order, in as many pages as they need."""
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


def decode_page(leaf: Leaf, bits: int, body: bytes, recorded: int, wall_offset_ms: int) -> list[Entry]:
    """Some of a page's messages, in ascending order. ValueError where it is none."""
    entries = []
    first, deliveries = leaf.first, leaf.deliveries
    for seq, suffix, header, content, expires, delivered, priority in _rows.decode(body):
        if bits >> (seq - first) & 1:
            exchange, key = names_in(suffix)
            message = Message(exchange, key, header, content, suffix)
            if deliveries is not None:
                delivered = deliveries.get(seq, delivered)
            expires_ms = max(1, expires - wall_offset_ms) if expires else 0
            entries.append(Entry(message, seq, expires_ms, delivered, priority, recorded=recorded))
    if len(entries) != bits.bit_count():
        raise ValueError(f"page {leaf.number} has {len(entries)} of {bits.bit_count()} messages")
    return entries
