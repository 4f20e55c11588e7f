"""A FIFO whose messages are in memory at both ends, and between them on disk, in pages."""

from __future__ import annotations

from collections.abc import Container, Iterator
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from openclust.broker.backlog.backlog import Entry, FifoBacklog
from openclust.broker.backlog.page import Leaf
from openclust.broker.model.message import Message
from openclust.wire.properties import Properties, encode_header

if TYPE_CHECKING:
    from openclust.broker.backlog.page_index import Shelf
    from openclust.broker.model.memory_accounts import Books

_by_seq = attrgetter("seq")
KEPT_LEAVES = 2
"""So many pages at the head stay in memory: who takes from a queue does not wait for the disk."""

# What stands for messages that are not here. It is held for ever.
_NONE = Message("", "", encode_header(Properties(), 0), b"", b"", 2**62)


class Away(Entry, gc=False):
    """Messages of a page that are in no memory, as they leave their queue: `seq` is the first of them."""

    leaf: Leaf | None = None
    bits: int = 0

    @property
    def of(self) -> Leaf:
        assert self.leaf is not None, "made with one"
        return self.leaf

    @property
    def runs(self) -> list[int]:
        return self.of.runs(self.bits)


def size_of(entry: Entry) -> int:
    """The bytes of its body, or of the bodies that it stands for."""
    return entry.of.size(entry.bits) if isinstance(entry, Away) else len(entry.message.body)


Q_contra = TypeVar("Q_contra", contravariant=True)
Q = TypeVar("Q")


class PageLibrary(Protocol[Q_contra]):
    """Where pages lie that are not in memory."""

    def shelf(self, queue: Q_contra) -> Shelf: ...
    def fetch(self, queue: Q_contra, leaf: Leaf) -> list[Entry] | None: ...
    def touched(self, leaf: Leaf, queue: Q_contra) -> None: ...
    def mark(self, queue: Q_contra) -> int: ...
    def awaited(self, queue: Q_contra) -> Container[int]: ...
    def came_back(self, queue: Q_contra, leaf: Leaf, seq: int, deliveries: int) -> None: ...


class PagedBacklog(Generic[Q]):
    """A `Backlog`. What is in no memory is on the shelf, and comes back when it is at the head.

    Where that fails, there is no head for now, though there is a length: ask again later. `find` gives an `Away` for
    what is in no memory, which may be removed, and put back, as any other.
    """

    __slots__ = ("_books", "_library", "_queue", "memory", "shelf")

    def __init__(self, queue: Q, library: PageLibrary[Q], memory: FifoBacklog, books: Books) -> None:
        self.shelf = library.shelf(queue)
        self._queue = queue
        self._library = library
        self._books = books
        self.memory = memory

    def __len__(self) -> int:
        return len(self.memory) + self.shelf.away

    def __iter__(self) -> Iterator[Entry]:
        """Reads one page after the other, and keeps none."""
        return merge(self.memory, *(self._read(leaf) for leaf in list(self.shelf.out)), key=_by_seq)

    def _read(self, leaf: Leaf) -> Iterator[Entry]:
        yield from (self._library.fetch(self._queue, leaf) or ()) if leaf.out else ()

    # -- what a queue does

    def push(self, entry: Entry, key: str | None = None) -> Entry | None:
        return self.memory.push(entry)

    def put_back(self, entry: Entry) -> bool:
        if not isinstance(entry, Away):
            return self.memory.put_back(entry)
        leaf = entry.of
        if not leaf.is_shelved:
            self.shelf.add(leaf)
        leaf.alive |= entry.bits
        self.shelf.lay_out(leaf, entry.bits)
        self._library.touched(leaf, self._queue)
        return True

    def settle(self, entry: Entry) -> None:
        return None

    def peek(self) -> Entry | None:
        memory, shelf = self.memory, self.shelf
        head = memory.peek()
        while shelf.next is not None and (head is None or head.seq > shelf.low):
            if not self.load(shelf.next):
                return None
            head = memory.peek()
        return head

    def pop(self) -> Entry | None:
        return self.memory.pop() if self.peek() is not None else None

    def drop_head(self) -> Entry | None:
        return self.memory.drop_head() if self.peek() is not None else None

    def remove(self, entry: Entry) -> None:
        if not isinstance(entry, Away):
            self.memory.remove(entry)
            return
        leaf = entry.of
        self.shelf.bring(leaf, entry.bits)
        leaf.alive &= ~entry.bits
        self._library.touched(leaf, self._queue)

    def find(self, seq: int) -> Entry | None:
        found = self.memory.find(seq)
        if found is not None or not self.shelf.away:
            return found
        leaf = self.shelf.find(seq)
        return None if leaf is None else self._away(leaf, leaf.between(seq, seq) & leaf.out)

    def between(self, first: int, last: int) -> list[Entry]:
        """All that is ready with these places: what is in memory one by one, the rest by pages."""
        found: list[Entry] = [entry for entry in self.memory if first <= entry.seq <= last]
        for leaf in self.shelf.around(first, last):
            away = self._away(leaf, leaf.between(first, last) & leaf.out)
            if away is not None:
                found.append(away)
        return found

    def _away(self, leaf: Leaf, bits: int) -> Away | None:
        if not bits:
            return None
        first = leaf.first + (bits & -bits).bit_length() - 1
        return Away(_NONE, first, recorded=self._library.mark(self._queue), leaf=leaf, bits=bits)

    def pop_expired(self, now_ms: int, limit: int = 1_000) -> list[Entry]:
        expired: list[Entry] = []
        while len(expired) < limit:
            head = self.peek()
            if head is None or not 0 < head.expires_ms <= now_ms:
                break
            expired.append(head)
            self.memory.drop_head()
        return expired

    def next_expiry_ms(self) -> int:
        head = self.peek()
        return head.expires_ms if head is not None else 0

    def heads(self) -> list[Entry]:
        head = self.peek()
        return [head] if head is not None else []

    def clear(self) -> list[Entry]:
        """Without reading: each page's messages that are in no memory come as one `Away`."""
        cleared = self.memory.clear()
        for leaf in list(self.shelf.out):
            away = self._away(leaf, leaf.out)
            assert away is not None, "it has some that are out"
            self.remove(away)
            cleared.append(away)
        return cleared

    # -- between memory and disk

    def load(self, leaf: Leaf) -> bool:
        """Bring a page's messages back into memory; whether that could be."""
        entries = self._library.fetch(self._queue, leaf)
        if entries is None:
            return False
        self.shelf.bring(leaf, leaf.out)
        for entry in reversed(entries):
            self._books.hold(entry.message)
            self.memory.put_back(entry)
        return True

    def bring(self, seq: int) -> None:
        """Bring a message back that is out, and its page's others."""
        found = self.find(seq)
        if isinstance(found, Away):
            self.load(found.of)

    def bring_in(self) -> bool:
        """Bring all back; whether that could be."""
        loaded = [self.load(leaf) for leaf in list(self.shelf.out)]
        return all(loaded)

    def shelve(self, wanted_bytes: int, done: int) -> int:
        """Let go of what is in pages on disk, at least so many bytes of it if there are, from the tail on.

        So many writes are `done`. How many bytes of memory that were.
        """
        shelf, memory = self.shelf, self.memory
        head = memory.peek()
        awaited = self._library.awaited(self._queue)
        kept: list[list[Entry]] = []
        size = 0
        for at in range(len(shelf.leaves) - 1, -1, -1):
            leaf = shelf.leaves[at]
            if size >= wanted_bytes or head is None or self._is_near(at, head.seq):
                break
            here = leaf.alive & ~leaf.out
            if not here or leaf.written > done:
                continue
            rest, bits = [], 0
            for entry in memory.take_tail(leaf.first):
                place = entry.seq - leaf.first
                if entry.recorded and here >> place & 1 and entry.seq not in awaited:
                    bits |= 1 << place
                    if entry.deliveries:
                        self._library.came_back(self._queue, leaf, entry.seq, entry.deliveries)
                    self._books.release(entry.message)
                    size += entry.message.cost
                else:
                    rest.append(entry)
            kept.append(rest)
            if bits:
                shelf.lay_out(leaf, bits)
        for rest in reversed(kept):
            memory.give_tail(rest)
        return size

    def _is_near(self, at: int, head: int) -> bool:
        """Whether the page has what will be delivered soon."""
        leaves = self.shelf.leaves
        return at < KEPT_LEAVES or leaves[at - KEPT_LEAVES].last < head
