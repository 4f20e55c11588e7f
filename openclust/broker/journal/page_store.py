"""All that this broker's store has in pages, queue by queue, and what has happened since the last checkpoint.

What is recorded enters and leaves by the journal (`sealed`) where this broker is in charge, one by one (`entered`,
`left`) where it follows or begins. What comes and goes between two checkpoints costs a place in a list.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.backlog.backlog import FifoBacklog
from openclust.broker.backlog.page import Leaf, decode_page, encode_page, is_plain, new_leaf, split
from openclust.broker.backlog.page_index import Shelf
from openclust.broker.backlog.paged_backlog import Away, PagedBacklog
from openclust.broker.journal.queue_notes import Notebook
from openclust.broker.journal.store_rows import Page
from openclust.broker.model.durability_level import SHARED

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.journal.batch import Writing
    from openclust.broker.journal.store_rows import Shelves
    from openclust.broker.queues.queue import Queue

_by_seq = attrgetter("seq")
_KEPT = 1
RELIEF_BYTES = 4_194_304
"""So much leaves memory in one turn: about 10 ms."""


class Collected(msgspec.Struct, frozen=True):
    """What a checkpoint says of pages."""

    pages: list[Page]
    dead: list[tuple[int, bytes]]
    gone: list[int]


class Library:
    """It does nothing before `source` is there. Call `relieve` once a turn while memory is short."""

    def __init__(self) -> None:
        self.source: Shelves | None = None
        self.number = 1
        # How many messages have come or gone since the last checkpoint.
        self.count = 0
        self.notebook = Notebook()
        self._shelves: dict[Queue, Shelf] = {}
        # Since the last checkpoint. An entry that has left by now is recorded no more.
        self._entered: list[list[tuple[Queue, Entry]]] = []
        self._left: list[list[tuple[Queue, Entry]]] = []
        self._returned: list[list[tuple[Queue, Entry]]] = []
        # Of these places too, what had left and was put back. What a page has there may have left for good.
        self._put_back: dict[Queue, set[int]] = {}
        self._touched: dict[Leaf, Queue] = {}
        self._gone: list[int] = []
        # Empty pages of shared queues may be wanted again, until the log is sure to stay as far as it was then.
        self._dying: list[tuple[int, Leaf]] = []
        # Whose pages may be let go of.
        self._full: dict[Queue, None] = {}
        self._new: list[Leaf] = []
        self._is_unreadable = False

    def shelf(self, queue: Queue) -> Shelf:
        shelf = self._shelves.get(queue)
        if shelf is None:
            shelf = self._shelves[queue] = Shelf()
        return shelf

    def mark(self, queue: Queue) -> int:
        """How an entry is recorded that was in a page."""
        return _KEPT if queue.records == SHARED else -_KEPT

    # -- what happens

    def sealed(self, writing: Writing) -> None:
        """A batch of the journal has ended."""
        if self.source is None:
            return
        if writing.entered:
            self._entered.append(writing.entered)
        if writing.left:
            self._left.append(writing.left)
        if writing.returned:
            self._returned.append(writing.returned)
        self.count += len(writing.entered) + len(writing.left)
        if writing.seen:
            self.notebook.mention(queue for queue, _ in writing.seen)
        if writing.reached:
            self.notebook.mention(writing.reached)

    def entered(self, queue: Queue, entry: Entry) -> None:
        """A recorded message has its place in its queue, by no batch of this broker's; perhaps once more."""
        if self.source is not None and not isinstance(entry, Away):
            self._of_following(self._entered, queue, entry)

    def put_back(self, queue: Queue, entry: Entry) -> None:
        """It had left, and has its place again."""
        self.entered(queue, entry)
        if self.source is not None:
            self._put_back.setdefault(queue, set()).add(entry.seq)

    def awaited(self, queue: Queue) -> Container[int]:
        """The places of messages that must be in memory at the next checkpoint, whatever pages there are."""
        return self._put_back.get(queue, ())

    def left(self, queue: Queue, entry: Entry) -> None:
        """It has left, by no batch of this broker's."""
        if self.source is not None:
            entry.recorded = 0
            self._of_following(self._left, queue, entry)

    def returned(self, queue: Queue, entry: Entry) -> None:
        """It was delivered in vain, by another broker."""
        if self.source is not None:
            self._of_following(self._returned, queue, entry)

    def _of_following(self, lists: list[list[tuple[Queue, Entry]]], queue: Queue, entry: Entry) -> None:
        self.count += 1
        if not lists or len(lists[-1]) >= 1_000:
            lists.append([])
        lists[-1].append((queue, entry))

    def mentioned(self, queue: Queue) -> None:
        """There may be something new of a queue beside its messages."""
        if self.source is not None:
            self.notebook.mention((queue,))

    def touched(self, leaf: Leaf, queue: Queue) -> None:
        """What is alive of a page is not what its notes in the store say."""
        self._touched[leaf] = queue

    def lost(self, number: int) -> None:
        """A page was found that is nobody's."""
        self._gone.append(number)

    def dropped(self, queue: Queue) -> None:
        """A queue is gone, with all it held."""
        shelf = self._shelves.pop(queue, None)
        if shelf is not None:
            self._gone += [leaf.number for leaf in shelf.leaves]
        self._gone += self.notebook.dropped(queue)
        self._full.pop(queue, None)
        self._put_back.pop(queue, None)

    def emptied(self, queue: Queue) -> None:
        """All that a queue held is gone, and others take the places: what its pages have is none of these."""
        shelf = self._shelves.get(queue)
        if shelf is not None:
            self._gone += shelf.clear()
        self._full.pop(queue, None)
        self._put_back.pop(queue, None)

    # -- a snapshot

    def lay_ahead(self) -> list[Page]:
        """New pages of what replicated queues hold, while a snapshot is put to use: the store knows nothing of that."""
        entered, self._entered = _shared(self._entered)
        left, self._left = _shared(self._left)
        returned, self._returned = _shared(self._returned)
        self._bury(left)
        self._count(returned)
        return self._store(entered)

    def begin_anew(self, queues: Iterable[Queue]) -> list[int]:
        """The store is to begin with what these queues hold, which are all: the pages that it must keep for that."""
        self._gone, self._dying = [], []
        self.notebook = Notebook()
        self.notebook.mention(queues)
        return [leaf.number for shelf in self._shelves.values() for leaf in shelf.leaves]

    # -- a checkpoint

    def collect(self, sequence: int, sure: int, uuid: str, commits: list[tuple[bytes, int, int]]) -> Collected:
        """What has become of pages; the journal is sealed, and the log ends at `sequence` and is sure up to `sure`."""
        self.count = 0
        entered, self._entered = self._entered, []
        left, self._left = self._left, []
        returned, self._returned = self._returned, []
        self._bury(left)
        self._count(returned)
        pages = self._store(entered)
        self._put_back.clear()
        dead, gone = self._tell(sequence, sure)
        noted, stale = self.notebook.collect(uuid, commits, self._next_number)
        return Collected(pages + noted, dead, gone + stale)

    def _next_number(self) -> int:
        number = self.number
        self.number += 1
        return number

    def _bury(self, left: list[list[tuple[Queue, Entry]]]) -> None:
        shelves, touched = self._shelves, self._touched
        mentioned: dict[Queue, None] = {}
        for some in left:
            for queue, entry in some:
                mentioned[queue] = None
                if entry.recorded or isinstance(entry, Away):
                    continue
                shelf = shelves.get(queue)
                if shelf is None or shelf.is_past(entry.seq):
                    continue
                leaf = shelf.find(entry.seq)
                if leaf is not None:
                    leaf.alive ^= 1 << (entry.seq - leaf.first)
                    touched[leaf] = queue
        self.notebook.mention(mentioned)

    def _count(self, returned: list[list[tuple[Queue, Entry]]]) -> None:
        for some in returned:
            for queue, entry in some:
                shelf = self._shelves.get(queue)
                leaf = shelf.find(entry.seq) if shelf is not None and entry.recorded else None
                if leaf is not None:
                    self.came_back(queue, leaf, entry.seq, entry.deliveries)

    def came_back(self, queue: Queue, leaf: Leaf, seq: int, deliveries: int) -> None:
        """A message of a page was delivered in vain, so often in all."""
        if leaf.deliveries is None:
            leaf.deliveries = {}
        if leaf.deliveries.get(seq) != deliveries:
            leaf.deliveries[seq] = deliveries
            self._touched[leaf] = queue

    def _store(self, entered: list[list[tuple[Queue, Entry]]]) -> list[Page]:
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
        self.notebook.mention(mentioned)
        self.notebook.mention(alive)
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
        """A newer value has come while they were delivered: elsewhere that has taken their place, and here it will."""
        superseded = {seq for seq, entry in queue.out.items() if entry.gone}
        for seq in superseded:
            leaf = self.shelf(queue).find(seq)
            if leaf is not None:
                leaf.alive ^= 1 << (seq - leaf.first)
                self._touched[leaf] = queue
        return [entry for entry in entries if entry.seq not in superseded]

    def _pages_of(self, queue: Queue, entries: list[Entry]) -> list[Page]:
        shelf = self.shelf(queue)
        vhost, offset_ms = queue.vhost, queue.vhost.broker.wall_offset_ms
        entries.sort(key=_by_seq)
        if not shelf.is_past(entries[0].seq) or any(a.seq == b.seq for a, b in pairwise(entries)):
            by_place = {entry.seq: entry for entry in entries if shelf.find(entry.seq) is None}
            entries = list(by_place.values())
        pages = []
        for some in split(entries):
            leaf = new_leaf(self._next_number(), some)
            shelf.add(leaf)
            self._new.append(leaf)
            if not is_plain(leaf):
                self._touched[leaf] = queue
            size = sum(len(entry.message.body) for entry in some)
            body = encode_page(some, offset_ms)
            pages.append(Page(leaf.number, vhost.name, queue.name, leaf.first, leaf.last, len(some), size, body))
        self._full[queue] = None
        return pages

    def _tell(self, sequence: int, sure: int) -> tuple[list[tuple[int, bytes]], list[int]]:
        dead: list[tuple[int, bytes]] = []
        touched, self._touched = self._touched, {}
        gone, self._gone = self._gone, []
        for leaf, queue in touched.items():
            shelf = self._shelves.get(queue)
            if shelf is None or not queue.is_alive or not leaf.is_shelved:
                continue
            if leaf.alive:
                dead.append((leaf.number, leaf.notes()))
                continue
            shelf.drop(leaf)
            if queue.records == SHARED:
                self._dying.append((sequence, leaf))
                dead.append((leaf.number, leaf.notes()))
            else:
                gone.append(leaf.number)
        keep = 0
        for at, leaf in self._dying:
            if at > sure:
                break
            keep += 1
            if not leaf.is_shelved:
                gone.append(leaf.number)
        del self._dying[:keep]
        return dead, gone

    def written(self, number: int) -> None:
        """With this write, what was collected last is on disk."""
        new, self._new = self._new, []
        for leaf in new:
            leaf.written = number

    # -- memory and disk

    def fetch(self, queue: Queue, leaf: Leaf) -> list[Entry] | None:
        """What is out of a page, from the store; None where that cannot be read now."""
        broker = queue.vhost.broker
        try:
            if self.source is None:
                raise OSError("there is no store")
            body = self.source.page(leaf.number)
            entries = decode_page(leaf, leaf.out, body, self.mark(queue), broker.wall_offset_ms)
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
        return entries

    def relieve(self, excess: int, done: int) -> bool:
        """Let go of so many bytes, if so many are in pages on disk; whether there is nothing more of these."""
        wanted = min(excess, RELIEF_BYTES)
        for queue in reversed(list(self._full)):
            if wanted <= 0:
                return False
            if type(queue.backlog) is FifoBacklog and queue.is_alive:
                queue.backlog = PagedBacklog(queue, self, queue.backlog, queue.vhost.broker.books)
            size = 0
            if isinstance(queue.backlog, PagedBacklog) and queue.is_alive:
                size = queue.backlog.shelve(wanted, done)
            wanted -= size
            leaves = self.shelf(queue).leaves
            if not size and (not leaves or leaves[-1].written <= done):
                del self._full[queue]
        return wanted > 0


def _shared(
    lists: list[list[tuple[Queue, Entry]]],
) -> tuple[list[list[tuple[Queue, Entry]]], list[list[tuple[Queue, Entry]]]]:
    """What is of replicated queues, and the rest."""
    shared = [[each for each in some if each[0].records == SHARED] for some in lists]
    others = [[each for each in some if each[0].records != SHARED] for some in lists]
    return [some for some in shared if some], [some for some in others if some]
