"""All pages that this broker's store has, queue by queue, and what has happened to their messages since a checkpoint.

Where this broker is in charge, the batches of its journal tell which messages enter and leave (`sealed`). Where it
follows, or reads its store at start, it tells of each message (`entered`, `left`). A message that comes and goes
between two checkpoints only takes a place in a list.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.backlog.backlog import FifoBacklog
from openclust.broker.backlog.page import PageState, decode_page, encode_page, is_plain, new_page, split
from openclust.broker.backlog.page_index import PageIndex
from openclust.broker.backlog.paged_backlog import PagedBacklog, UnloadedEntries
from openclust.broker.journal.queue_notes import QueueNotes
from openclust.broker.journal.store_rows import Page
from openclust.broker.model.durability_level import SHARED

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.journal.batch import OpenBatch
    from openclust.broker.journal.store_rows import StoreReader
    from openclust.broker.queues.queue import Queue

_by_seq = attrgetter("seq")
_KEPT = 1
RELIEF_BYTES = 4_194_304
"""At most so many bytes are freed in one turn, which takes about 10 ms."""


class Collected(msgspec.Struct, frozen=True):
    """The part of a `Checkpoint` that is about pages."""

    pages: list[Page]
    dead: list[tuple[int, bytes]]
    gone: list[int]


class PageStore:
    """Without a `source` it does nothing. Call `relieve` once a turn while memory is short."""

    def __init__(self) -> None:
        self.source: StoreReader | None = None
        self.number = 1
        # How many messages have come or gone since the last checkpoint.
        self.count = 0
        self.queue_notes = QueueNotes()
        self._page_indexes: dict[Queue, PageIndex] = {}
        # Since the last checkpoint. An entry that has left by now is recorded no more.
        self._entered: list[list[tuple[Queue, Entry]]] = []
        self._left: list[list[tuple[Queue, Entry]]] = []
        self._returned: list[list[tuple[Queue, Entry]]] = []
        # The places of messages that had left and were put back: what a page has at such a place may be out of date.
        self._put_back: dict[Queue, set[int]] = {}
        self._touched: dict[PageState, Queue] = {}
        self._gone: list[int] = []
        # Empty pages of shared queues, and the last sequence of the log at that time: a rollback may need them.
        self._empty_shared: list[tuple[int, PageState]] = []
        # The queues with pages whose messages may leave memory.
        self._unloadable: dict[Queue, None] = {}
        self._unwritten: list[PageState] = []
        # How many messages were read from disk.
        self.fetched = 0
        self._is_unreadable = False

    def page_index(self, queue: Queue) -> PageIndex:
        page_index = self._page_indexes.get(queue)
        if page_index is None:
            page_index = self._page_indexes[queue] = PageIndex()
        return page_index

    def mark(self, queue: Queue) -> int:
        """`Entry.recorded` of a message that is read from a page."""
        return _KEPT if queue.durability_level == SHARED else -_KEPT

    # -- what happens

    def sealed(self, batch: OpenBatch) -> None:
        """A batch of the journal has ended."""
        if self.source is None:
            return
        if batch.entered:
            self._entered.append(batch.entered)
        if batch.left:
            self._left.append(batch.left)
        if batch.returned:
            self._returned.append(batch.returned)
        self.count += len(batch.entered) + len(batch.left)
        if batch.seen:
            self.queue_notes.mention(queue for queue, _ in batch.seen)
        if batch.reached:
            self.queue_notes.mention(batch.reached)

    def entered(self, queue: Queue, entry: Entry) -> None:
        """A recorded message has its place in its queue, though by no batch of this broker. It may not be new."""
        if self.source is not None and not isinstance(entry, UnloadedEntries):
            self._append(self._entered, queue, entry)

    def put_back(self, queue: Queue, entry: Entry) -> None:
        """A message that had left has its place again."""
        self.entered(queue, entry)
        if self.source is not None:
            self._put_back.setdefault(queue, set()).add(entry.seq)

    def awaited(self, queue: Queue) -> Container[int]:
        """The places of messages that must stay in memory until the next checkpoint, even if a page has the place."""
        return self._put_back.get(queue, ())

    def left(self, queue: Queue, entry: Entry) -> None:
        """A message has left its queue, though by no batch of this broker."""
        if self.source is not None:
            entry.recorded = 0
            self._append(self._left, queue, entry)

    def returned(self, queue: Queue, entry: Entry) -> None:
        """A message was delivered by another broker, and came back."""
        if self.source is not None:
            self._append(self._returned, queue, entry)

    def _append(self, lists: list[list[tuple[Queue, Entry]]], queue: Queue, entry: Entry) -> None:
        self.count += 1
        if not lists or len(lists[-1]) >= 1_000:
            lists.append([])
        lists[-1].append((queue, entry))

    def mentioned(self, queue: Queue) -> None:
        """The notes of a queue may have changed: write them at the next checkpoint."""
        if self.source is not None:
            self.queue_notes.mention((queue,))

    def touched(self, page: PageState, queue: Queue) -> None:
        """The notes of a page have changed: write them at the next checkpoint."""
        self._touched[page] = queue

    def lost(self, number: int) -> None:
        """The store has a page that belongs to no queue: delete it at the next checkpoint."""
        self._gone.append(number)

    def dropped(self, queue: Queue) -> None:
        """A queue was deleted, with all its messages."""
        page_index = self._page_indexes.pop(queue, None)
        if page_index is not None:
            self._gone += [page.number for page in page_index.pages]
        self._gone += self.queue_notes.dropped(queue)
        self._unloadable.pop(queue, None)
        self._put_back.pop(queue, None)

    def emptied(self, queue: Queue) -> None:
        """A queue was emptied, and other messages will take the places: its pages are out of date."""
        page_index = self._page_indexes.get(queue)
        if page_index is not None:
            self._gone += page_index.clear()
        self._unloadable.pop(queue, None)
        self._put_back.pop(queue, None)

    # -- a snapshot

    def lay_ahead(self) -> list[Page]:
        """New pages of replicated queues, written while a snapshot is installed, ahead of its checkpoint."""
        entered, self._entered = _split_replicated(self._entered)
        left, self._left = _split_replicated(self._left)
        returned, self._returned = _split_replicated(self._returned)
        self._mark_left(left)
        self._mark_deliveries(returned)
        return self._new_pages(entered)

    def begin_anew(self, queues: Iterable[Queue]) -> list[int]:
        """The store will begin anew with the messages of these queues: all there are. Returns the pages to keep."""
        self._gone, self._empty_shared = [], []
        self.queue_notes = QueueNotes()
        self.queue_notes.mention(queues)
        return [page.number for page_index in self._page_indexes.values() for page in page_index.pages]

    # -- a checkpoint

    def collect(self, sequence: int, sure: int, uuid: str, commits: list[tuple[bytes, int, int]]) -> Collected:
        """All that the next checkpoint says of pages. Seal the journal first.

        The log ends at `sequence`, and is committed up to `sure`.
        """
        self.count = 0
        entered, self._entered = self._entered, []
        left, self._left = self._left, []
        returned, self._returned = self._returned, []
        self._mark_left(left)
        self._mark_deliveries(returned)
        pages = self._new_pages(entered)
        self._put_back.clear()
        dead, gone = self._changed_pages(sequence, sure)
        noted, stale = self.queue_notes.collect(uuid, commits, self._next_number)
        return Collected(pages + noted, dead, gone + stale)

    def _next_number(self) -> int:
        number = self.number
        self.number += 1
        return number

    def _mark_left(self, left: list[list[tuple[Queue, Entry]]]) -> None:
        page_indexes, touched = self._page_indexes, self._touched
        mentioned: dict[Queue, None] = {}
        for some in left:
            for queue, entry in some:
                mentioned[queue] = None
                if entry.recorded or isinstance(entry, UnloadedEntries):
                    continue
                page_index = page_indexes.get(queue)
                if page_index is None or page_index.is_past(entry.seq):
                    continue
                page = page_index.find(entry.seq)
                if page is not None:
                    page.alive ^= 1 << (entry.seq - page.first)
                    touched[page] = queue
        self.queue_notes.mention(mentioned)

    def _mark_deliveries(self, returned: list[list[tuple[Queue, Entry]]]) -> None:
        for some in returned:
            for queue, entry in some:
                page_index = self._page_indexes.get(queue)
                page = page_index.find(entry.seq) if page_index is not None and entry.recorded else None
                if page is not None:
                    self.came_back(queue, page, entry.seq, entry.deliveries)

    def came_back(self, queue: Queue, page: PageState, seq: int, deliveries: int) -> None:
        """A message of a page came back; it was delivered this many times in all."""
        if page.deliveries is None:
            page.deliveries = {}
        if page.deliveries.get(seq) != deliveries:
            page.deliveries[seq] = deliveries
            self._touched[page] = queue

    def _new_pages(self, entered: list[list[tuple[Queue, Entry]]]) -> list[Page]:
        alive: dict[Queue, list[Entry]] = {}
        mentioned: dict[Queue, None] = {}
        for some in entered:
            for queue, entry in some:
                if entry.recorded:
                    found = alive.get(queue)
                    if found is None:
                        alive[queue] = [entry]
                    else:
                        found.append(entry)
                else:
                    mentioned[queue] = None
        self.queue_notes.mention(mentioned)
        self.queue_notes.mention(alive)
        pages: list[Page] = []
        for queue, entries in alive.items():
            if not queue.is_alive:
                continue
            if queue.settings.last_value_key is not None:
                entries = self._without_superseded(queue, entries)
            if entries:
                pages += self._pages_of(queue, entries)
        return pages

    def _without_superseded(self, queue: Queue, entries: list[Entry]) -> list[Entry]:
        """Without deliveries that a newer value of their key has replaced: followers have removed them already."""
        superseded = {seq for seq, entry in queue.recorded_unacked.items() if entry.gone}
        for seq in superseded:
            page = self.page_index(queue).find(seq)
            if page is not None:
                page.alive ^= 1 << (seq - page.first)
                self._touched[page] = queue
        return [entry for entry in entries if entry.seq not in superseded]

    def _pages_of(self, queue: Queue, entries: list[Entry]) -> list[Page]:
        page_index = self.page_index(queue)
        vhost, offset_ms = queue.vhost, queue.vhost.broker.wall_offset_ms
        entries.sort(key=_by_seq)
        if not page_index.is_past(entries[0].seq) or any(a.seq == b.seq for a, b in pairwise(entries)):
            by_place = {entry.seq: entry for entry in entries if page_index.find(entry.seq) is None}
            entries = list(by_place.values())
        pages = []
        for some in split(entries):
            page = new_page(self._next_number(), some)
            page_index.add(page)
            self._unwritten.append(page)
            if not is_plain(page):
                self._touched[page] = queue
            size = sum(len(entry.message.body) for entry in some)
            body = encode_page(some, offset_ms)
            pages.append(Page(page.number, vhost.name, queue.name, page.first, page.last, len(some), size, body))
        self._unloadable[queue] = None
        return pages

    def _changed_pages(self, sequence: int, sure: int) -> tuple[list[tuple[int, bytes]], list[int]]:
        dead: list[tuple[int, bytes]] = []
        touched, self._touched = self._touched, {}
        gone, self._gone = self._gone, []
        for page, queue in touched.items():
            page_index = self._page_indexes.get(queue)
            if page_index is None or not queue.is_alive or not page.is_indexed:
                continue
            if page.alive:
                dead.append((page.number, page.notes()))
                continue
            page_index.drop(page)
            if queue.durability_level == SHARED:
                self._empty_shared.append((sequence, page))
                dead.append((page.number, page.notes()))
            else:
                gone.append(page.number)
        keep = 0
        for at, page in self._empty_shared:
            if at > sure:
                break
            keep += 1
            if not page.is_indexed:
                gone.append(page.number)
        del self._empty_shared[:keep]
        return dead, gone

    def written(self, number: int) -> None:
        """The pages that were collected last are on disk when the write with this number is."""
        new, self._unwritten = self._unwritten, []
        for page in new:
            page.written = number

    # -- memory and disk

    def fetch(self, queue: Queue, page: PageState) -> list[Entry] | None:
        """The unloaded messages of a page, read from the store. None if they cannot be read now."""
        broker = queue.vhost.broker
        try:
            if self.source is None:
                raise OSError("there is no store")
            body = self.source.page(page.number)
            entries = decode_page(page, page.unloaded, body, self.mark(queue), broker.wall_offset_ms)
        except (OSError, ValueError) as error:
            if not self._is_unreadable:
                self._is_unreadable = True
                broker.note(
                    "error",
                    f"queue '{queue.name}' in vhost '{queue.vhost.name}' waits: its messages cannot be read from disk",
                    text=str(error),
                )
            return None
        self._is_unreadable = False
        self.fetched += len(entries)
        return entries

    def relieve(self, excess: int, done: int) -> bool:
        """Drop messages from memory whose pages are on disk, `excess` bytes. True if there are no more of them."""
        wanted = min(excess, RELIEF_BYTES)
        for queue in reversed(list(self._unloadable)):
            if wanted <= 0:
                return False
            if type(queue.backlog) is FifoBacklog and queue.is_alive:
                queue.backlog = PagedBacklog(queue, self, queue.backlog, queue.vhost.broker.memory_accounts)
            size = 0
            if isinstance(queue.backlog, PagedBacklog) and queue.is_alive:
                size = queue.backlog.unload(wanted, done)
            wanted -= size
            pages = self.page_index(queue).pages
            if not size and (not pages or pages[-1].written <= done):
                del self._unloadable[queue]
        return wanted > 0


def _split_replicated(
    lists: list[list[tuple[Queue, Entry]]],
) -> tuple[list[list[tuple[Queue, Entry]]], list[list[tuple[Queue, Entry]]]]:
    """The lists split in two: for replicated queues, and for all others."""
    shared = [[each for each in some if each[0].durability_level == SHARED] for some in lists]
    others = [[each for each in some if each[0].durability_level != SHARED] for some in lists]
    return [some for some in shared if some], [some for some in others if some]
