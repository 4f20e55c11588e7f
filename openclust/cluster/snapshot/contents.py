"""The messages of replicated queues for a snapshot: taken part by part, while the queues change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from openclust.broker.backlog.paged_backlog import PagedBacklog, UnloadedEntries
from openclust.broker.journal.batch import Batch, QueueBatch, encode_batch
from openclust.broker.model.durability_level import SHARED
from openclust.wire.text import encode_text

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker

PART_BYTES = 262_144
PART_QUEUES = 1_000
KEYS_MAX = 5_000
"""A part has at most so many keys of a dedup window."""
ENTRY_BYTES = 80


class Passing:
    """Take the `next` part when all entries of the log as it is now were sent. It is None after the last part, and
    empty where the disk has not given a page yet.

    The first part of a queue fixes what the queue holds: entries sent before it are in there, entries sent later come
    on top. Messages that came by the journal's open batch are left out, but messages that left by it are too. So a
    broker may begin with the snapshot only when the log has that batch (`is_settled`).
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._parts = self._all()
        self._batch = 0

    def next(self) -> bytes | None:
        self._batch = self._broker.journal.number
        return next(self._parts, None)

    def is_settled(self) -> bool:
        """Whether the log has all that had happened when the last part was taken."""
        journal = self._broker.journal
        return journal.number > self._batch or not journal.is_in_charge or journal.is_empty

    def _all(self) -> Iterator[bytes]:
        queues = [queue for _, vhost in sorted(self._broker.vhosts.items()) for queue in vhost.queues.values()]
        part = _Part(self._broker.wall_offset_ms)
        for queue in queues:
            if queue.owner is not None or queue.durability_level != SHARED or not queue.is_alive:
                continue
            yield from self._window(queue, part)
            waiting = self._entries(queue)
            part.begin(queue)
            for each in waiting:
                entries = _there(queue, each)
                while entries is None:
                    # The disk has not given the page yet.
                    yield b""
                    entries = _there(queue, each)
                for entry in entries:
                    # Not messages that have left since, nor those that are not in the log yet.
                    if 0 < entry.recorded < self._broker.journal.number:
                        part.add(entry)
                if part.size >= PART_BYTES:
                    yield part.take()
                    part.begin(queue)
            part.end(queue)
            if part.size >= PART_BYTES or part.count >= PART_QUEUES:
                yield part.take()
        yield part.take()

    def _window(self, queue: Queue, part: _Part) -> Iterator[bytes]:
        """The keys of a queue's dedup window: they go before its messages."""
        keys = queue.dedup.keys() if queue.dedup is not None else []
        for at in range(0, len(keys), KEYS_MAX):
            part.begin(queue).seen.extend(encode_text(key) for key in keys[at : at + KEYS_MAX])
            yield part.take()

    def _entries(self, queue: Queue) -> list[Entry]:
        """All messages that the log has of a queue: those that wait, and those that are delivered or about to leave."""
        backlog = queue.backlog
        # Messages on pages that are not in memory stay there, for now.
        entries = backlog.between(1, queue.next_seq) if isinstance(backlog, PagedBacklog) else list(backlog)
        entries += queue.recorded_unacked.values()
        entries += [entry for of, _, _, entry in self._broker.dead_letters if entry is not None and of is queue]
        entries.sort(key=lambda entry: entry.seq)
        return entries


def _there(queue: Queue, entry: Entry) -> Sequence[Entry] | None:
    """The messages of an entry that are still in the queue; of a page, all its messages, wherever they are by now.

    None where the disk has not given the page yet.
    """
    backlog = queue.backlog
    if not isinstance(backlog, PagedBacklog):
        return (entry,)
    if not isinstance(entry, UnloadedEntries):
        # Another object may stand for it by now.
        return (entry,) if entry.seq in queue.recorded_unacked or backlog.find(entry.seq) is not None else ()
    page = entry.page
    fetched = queue.vhost.broker.journal.page_store.fetch(queue, page) if page.unloaded & entry.bits else []
    if fetched is None:
        return None
    for first, last in zip(*[iter(page.runs(entry.bits & ~page.unloaded))] * 2, strict=True):
        for seq in range(first, last + 1):
            found = queue.recorded_unacked.get(seq) or backlog.memory.find(seq)
            if found is not None:
                fetched.append(found)
    fetched.sort(key=lambda each: each.seq)
    return fetched


class _Part:
    """A part that is being filled."""

    def __init__(self, wall_offset_ms: int) -> None:
        self._wall_offset_ms = wall_offset_ms
        self._work = Batch([], [])
        self.size = 0

    @property
    def count(self) -> int:
        return len(self._work.queues)

    def begin(self, queue: Queue) -> QueueBatch:
        vhost, name = (encode_text(each) for each in (queue.vhost.name, queue.name))
        queue_batch = QueueBatch(vhost, name, [], [], [], [], 0, [])
        self._work.queues.append(queue_batch)
        return queue_batch

    def add(self, entry: Entry) -> None:
        message = entry.message
        messages = self._work.messages
        expires = entry.expires_ms + self._wall_offset_ms if entry.expires_ms else 0
        queue_batch = self._work.queues[-1]
        queue_batch.singles.append((entry.seq, len(messages), expires, entry.deliveries, entry.priority))
        messages.append((message.suffix, message.header, message.body))
        self.size += len(message.header) + len(message.body) + ENTRY_BYTES

    def end(self, queue: Queue) -> None:
        """All messages of the queue are in this part and those before it."""
        queue_batch = self._work.queues[-1]
        queue_batch.reached, queue_batch.last = queue.reached, queue.next_seq

    def take(self) -> bytes:
        work, self._work, self.size = self._work, Batch([], []), 0
        return encode_batch(work)
