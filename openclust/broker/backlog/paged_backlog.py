"""A FIFO that has the messages at its two ends in memory, and those between only on disk, in pages."""

from __future__ import annotations

from collections.abc import Container, Iterator
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from openclust.broker.backlog.backlog import Entry, FifoBacklog, OneHead
from openclust.broker.backlog.page import PageState
from openclust.broker.model.message import Message
from openclust.wire.properties import Properties, encode_header

if TYPE_CHECKING:
    from openclust.broker.backlog.page_index import PageIndex
    from openclust.broker.model.memory_accounts import MemoryAccounts

_by_seq = attrgetter("seq")
KEPT_PAGES = 2
"""This many pages at the head stay in memory, so that consumers do not wait for the disk."""

# The message of every `UnloadedEntries`. Its count of holders never reaches 0.
_NONE = Message("", "", encode_header(Properties(), 0), b"", b"", 2**62)


class UnloadedEntries(Entry, gc=False):
    """Stands for those messages of a page, by their `bits`, that are only on disk. `seq` is the first one's place."""

    of_page: PageState | None = None
    bits: int = 0

    @property
    def page(self) -> PageState:
        assert self.of_page is not None, "made with one"
        return self.of_page

    @property
    def runs(self) -> list[int]:
        return self.page.runs(self.bits)


def size_of(entry: Entry) -> int:
    """The bytes of an entry's body, or of all bodies that it stands for."""
    return entry.page.size(entry.bits) if isinstance(entry, UnloadedEntries) else len(entry.message.body)


Q_contra = TypeVar("Q_contra", contravariant=True)
Q = TypeVar("Q")


class PageReader(Protocol[Q_contra]):
    """Reads the pages of queues, and is told what happens to them; see `journal/page_store.py`."""

    def page_index(self, queue: Q_contra) -> PageIndex: ...
    def fetch(self, queue: Q_contra, page: PageState) -> list[Entry] | None: ...
    def touched(self, page: PageState, queue: Q_contra) -> None: ...
    def mark(self, queue: Q_contra) -> int: ...
    def awaited(self, queue: Q_contra) -> Container[int]: ...
    def came_back(self, queue: Q_contra, page: PageState, seq: int, deliveries: int) -> None: ...


class PagedBacklog(OneHead, Generic[Q]):
    """A `Backlog`. Messages that are only on disk are read when they come to the head.

    Where the disk does not give them, `peek` returns None although `len()` is not 0: ask again later. `find` returns
    an `UnloadedEntries` for a message that is only on disk: it can be removed, and put back, as any other.
    """

    __slots__ = ("_accounts", "_page_store", "_queue", "memory", "page_index")

    def __init__(self, queue: Q, page_store: PageReader[Q], memory: FifoBacklog, accounts: MemoryAccounts) -> None:
        self.page_index = page_store.page_index(queue)
        self._queue = queue
        self._page_store = page_store
        self._accounts = accounts
        self.memory = memory

    def __len__(self) -> int:
        return len(self.memory) + self.page_index.unloaded_count

    def __iter__(self) -> Iterator[Entry]:
        """Reads one page after the other, and keeps none of them in memory."""
        return merge(self.memory, *(self._read(page) for page in list(self.page_index.unloaded_pages)), key=_by_seq)

    def _read(self, page: PageState) -> Iterator[Entry]:
        yield from (self._page_store.fetch(self._queue, page) or ()) if page.unloaded else ()

    # -- what a queue does

    def push(self, entry: Entry, key: str | None = None) -> Entry | None:
        return self.memory.push(entry)

    def put_back(self, entry: Entry) -> bool:
        if not isinstance(entry, UnloadedEntries):
            return self.memory.put_back(entry)
        page = entry.page
        if not page.is_indexed:
            self.page_index.add(page)
        page.alive |= entry.bits
        self.page_index.mark_unloaded(page, entry.bits)
        self._page_store.touched(page, self._queue)
        return True

    def settle(self, entry: Entry) -> None:
        return None

    def peek(self) -> Entry | None:
        memory, page_index = self.memory, self.page_index
        head = memory.peek()
        while page_index.next_unloaded is not None and (head is None or head.seq > page_index.lowest_unloaded):
            if not self.load(page_index.next_unloaded):
                return None
            head = memory.peek()
        return head

    def pop(self) -> Entry | None:
        return self.memory.pop() if self.peek() is not None else None

    def drop_head(self) -> Entry | None:
        return self.memory.drop_head() if self.peek() is not None else None

    def remove(self, entry: Entry) -> None:
        if not isinstance(entry, UnloadedEntries):
            self.memory.remove(entry)
            return
        page = entry.page
        self.page_index.mark_loaded(page, entry.bits)
        page.alive &= ~entry.bits
        self._page_store.touched(page, self._queue)

    def find(self, seq: int) -> Entry | None:
        found = self.memory.find(seq)
        if found is not None or not self.page_index.unloaded_count:
            return found
        page = self.page_index.find(seq)
        return None if page is None else self._unloaded(page, page.between(seq, seq) & page.unloaded)

    def between(self, first: int, last: int) -> list[Entry]:
        """All ready entries with these places: those in memory one by one, the others page by page."""
        found: list[Entry] = [entry for entry in self.memory if first <= entry.seq <= last]
        for page in self.page_index.around(first, last):
            away = self._unloaded(page, page.between(first, last) & page.unloaded)
            if away is not None:
                found.append(away)
        return found

    def _unloaded(self, page: PageState, bits: int) -> UnloadedEntries | None:
        if not bits:
            return None
        first = page.first + (bits & -bits).bit_length() - 1
        return UnloadedEntries(_NONE, first, recorded=self._page_store.mark(self._queue), of_page=page, bits=bits)

    def clear(self) -> list[Entry]:
        """Reads nothing: the messages of a page that are only on disk are one `UnloadedEntries`."""
        cleared = self.memory.clear()
        for page in list(self.page_index.unloaded_pages):
            away = self._unloaded(page, page.unloaded)
            assert away is not None, "some of its messages are unloaded"
            self.remove(away)
            cleared.append(away)
        return cleared

    # -- between memory and disk

    def load(self, page: PageState) -> bool:
        """Read a page's messages back into memory. False if the disk does not give them now."""
        entries = self._page_store.fetch(self._queue, page)
        if entries is None:
            return False
        self.page_index.mark_loaded(page, page.unloaded)
        for entry in reversed(entries):
            self._accounts.hold(entry.message)
            self.memory.put_back(entry)
        return True

    def load_message(self, seq: int) -> None:
        """Read the message with this place, and all others of its page, if it is only on disk."""
        found = self.find(seq)
        if isinstance(found, UnloadedEntries):
            self.load(found.page)

    def load_all(self) -> bool:
        """Read all pages. False if the disk does not give one of them now."""
        loaded = [self.load(page) for page in list(self.page_index.unloaded_pages)]
        return all(loaded)

    def unload(self, wanted_bytes: int, done: int) -> int:
        """Drop messages from memory whose pages are on disk, from the tail on, until `wanted_bytes` are free.

        `done` is the number of the last write that is on disk. Returns how many bytes became free.
        """
        page_index, memory = self.page_index, self.memory
        head = memory.peek()
        awaited = self._page_store.awaited(self._queue)
        kept: list[list[Entry]] = []
        size = 0
        for at in range(len(page_index.pages) - 1, -1, -1):
            page = page_index.pages[at]
            if size >= wanted_bytes or head is None or self._is_near(at, head.seq):
                break
            here = page.alive & ~page.unloaded
            if not here or page.written > done:
                continue
            rest, bits = [], 0
            for entry in memory.take_tail(page.first):
                place = entry.seq - page.first
                if entry.recorded and here >> place & 1 and entry.seq not in awaited:
                    bits |= 1 << place
                    if entry.deliveries:
                        self._page_store.came_back(self._queue, page, entry.seq, entry.deliveries)
                    self._accounts.release(entry.message)
                    size += entry.message.cost
                else:
                    rest.append(entry)
            kept.append(rest)
            if bits:
                page_index.mark_unloaded(page, bits)
        for rest in reversed(kept):
            memory.give_tail(rest)
        return size

    def _is_near(self, at: int, head: int) -> bool:
        """Whether the messages of the page will be delivered soon."""
        pages = self.page_index.pages
        return at < KEPT_PAGES or pages[at - KEPT_PAGES].last < head
