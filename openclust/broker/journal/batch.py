"""Batches of the journal, as bytes: which messages entered which queues, which left, and which came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.backlog.paged_backlog import UnloadedEntries
from openclust.broker.model.message import Message, names_in
from openclust.wire.text import decode_text, encode_text

if TYPE_CHECKING:
    from openclust.broker.queues.queue import Queue, QueueBroker

REACHED_AHEAD = 100
"""A batch says of so many places more that they were delivered: they may be, before the next batch is anywhere."""
ENTRY_BYTES = 80
"""About what a message takes in a batch beside its header and body."""


class QueueBatch(msgspec.Struct, array_like=True):
    """What happened to one queue. Names are bytes, since they need not be UTF-8.

    `runs` are messages that entered at consecutive places: first place, index of the first message, count. `singles`
    are messages that have more to them: place, index, expiry by the wall clock, deliveries, priority. `left` has ranges
    of places: first and last. `returned` has places and how often their messages were delivered. `reached` is the
    highest place that was delivered, and `last` the highest that was ever taken; 0 says nothing. `seen` has the dedup
    keys of messages that came and left.
    """

    vhost: bytes
    name: bytes
    runs: list[int] = []
    singles: list[tuple[int, int, int, int, int]] = []
    left: list[int] = []
    returned: list[tuple[int, int]] = []
    reached: int = 0
    seen: list[bytes] = []
    last: int = 0


class Batch(msgspec.Struct, array_like=True):
    """`messages` are suffix, header and body. A message that went to several queues is there once.

    `commits` are the transactions in it: the broker that asked, its number, and that broker's first unanswered number.
    """

    messages: list[tuple[bytes, bytes, bytes]]
    queues: list[QueueBatch]
    commits: list[tuple[bytes, int, int]] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Batch)


def decode_batch(body: bytes) -> Batch:
    """ValueError if these bytes are no batch."""
    return _decoder.decode(body)


def encode_batch(batch: Batch) -> bytes:
    return _encoder.encode(batch)


class OpenBatch:
    """A batch that is not sealed yet: queues and their entries, in the order in which things happened.

    A message that came and left within the batch is not in it, but for the key that a dedup window has `seen`.
    """

    __slots__ = ("commits", "entered", "left", "reached", "returned", "seen")

    def __init__(self) -> None:
        self.entered: list[tuple[Queue, Entry]] = []
        self.left: list[tuple[Queue, Entry]] = []
        self.returned: list[tuple[Queue, Entry]] = []
        self.seen: list[tuple[Queue, str]] = []
        self.reached: dict[Queue, None] = {}
        self.commits: list[tuple[bytes, int, int]] = []

    @property
    def is_empty(self) -> bool:
        return not (self.entered or self.left or self.returned or self.seen or self.reached or self.commits)

    @property
    def size(self) -> int:
        return sum(len(entry.message.body) + ENTRY_BYTES for _, entry in self.entered)

    def encode(self, number: int, wall_offset_ms: int) -> bytes:
        """The bytes of the batch; empty if nothing is in it."""
        table = _Table()
        for queue, entry in self.entered:
            # With another number it has left again.
            if entry.recorded == number:
                queue_batch = table.of(queue)
                if queue_batch is not None:
                    _enter(queue_batch, table.index(entry.message), entry, wall_offset_ms)
        for queue, entry in self.left:
            queue_batch = table.of(queue)
            if queue_batch is not None:
                ranges, seq = queue_batch.left, entry.seq
                if isinstance(entry, UnloadedEntries):
                    ranges += entry.runs
                elif ranges and ranges[-1] == seq - 1:
                    ranges[-1] = seq
                else:
                    ranges += (seq, seq)
        for queue, entry in self.returned:
            queue_batch = table.of(queue)
            if queue_batch is not None and entry.recorded:
                queue_batch.returned.append((entry.seq, entry.deliveries))
        for queue, key in self.seen:
            queue_batch = table.of(queue)
            if queue_batch is not None:
                queue_batch.seen.append(encode_text(key))
        for queue in self.reached:
            queue_batch = table.of(queue)
            if queue_batch is not None:
                # The next root may not hear of the very last deliveries: so the log says some places in advance.
                queue_batch.reached = (
                    queue.reached if number < 0 else min(queue.next_seq, queue.reached + REACHED_AHEAD)
                )
        queues = table.queues()
        return _encoder.encode(Batch(table.messages, queues, self.commits)) if queues or self.commits else b""


class _Table:
    """The queues and messages of a batch that is being encoded."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, bytes, bytes]] = []
        self._of: dict[Queue, QueueBatch | None] = {}
        self._indexes: dict[int, int] = {}

    def of(self, queue: Queue) -> QueueBatch | None:
        """None if the queue is deleted: then nothing else of it matters."""
        try:
            return self._of[queue]
        except KeyError:
            queue_batch = None
            if queue.is_alive:
                vhost = encode_text(queue.vhost.name)
                queue_batch = QueueBatch(vhost, encode_text(queue.name), [], [], [], [], 0, [])
            self._of[queue] = queue_batch
            return queue_batch

    def index(self, message: Message) -> int:
        if message.holders > 1:
            known = self._indexes.get(id(message))
            if known is not None:
                return known
            self._indexes[id(message)] = len(self.messages)
        self.messages.append((message.suffix, message.header, message.body))
        return len(self.messages) - 1

    def queues(self) -> list[QueueBatch]:
        return [queue_batch for queue_batch in self._of.values() if queue_batch is not None]


def _enter(queue_batch: QueueBatch, index: int, entry: Entry, wall_offset_ms: int) -> None:
    if entry.expires_ms or entry.deliveries or entry.priority:
        expires = entry.expires_ms + wall_offset_ms if entry.expires_ms else 0
        queue_batch.singles.append((entry.seq, index, expires, entry.deliveries, entry.priority))
        return
    runs = queue_batch.runs
    if runs and runs[-3] + runs[-1] == entry.seq and runs[-2] + runs[-1] == index:
        runs[-1] += 1
    else:
        runs += (entry.seq, index, 1)


class AppliedBatch(msgspec.Struct, frozen=True):
    """What a batch has done to the queues here, so that a rollback can undo it.

    Entries that left, places that were taken, and dedup keys of messages that came and left.
    """

    left: list[tuple[Queue, Entry]]
    entered: list[tuple[Queue, int]]
    seen: list[tuple[Queue, str]]


def apply_batch(broker: QueueBroker, batch: Batch, recorded: int) -> AppliedBatch:
    """Do to the queues here what a batch says. What they have already does not change them."""
    applied = AppliedBatch([], [], [])
    offset_ms = broker.wall_offset_ms
    messages = [Message(*names_in(suffix), header, body, suffix) for suffix, header, body in batch.messages]
    for each in batch.queues:
        vhost = broker.vhosts.get(decode_text(each.vhost))
        queue = vhost.queues.get(decode_text(each.name)) if vhost is not None else None
        if queue is None or queue.owner is not None:
            continue
        entered = []
        runs = each.runs
        for at in range(0, len(runs), 3):
            first, index, count = runs[at : at + 3]
            entered += [Entry(messages[index + i], first + i, recorded=recorded) for i in range(count)]
        for seq, index, expires, deliveries, priority in each.singles:
            expires_ms = max(1, expires - offset_ms) if expires else 0
            entered.append(Entry(messages[index], seq, expires_ms, deliveries, priority, recorded=recorded))
        if each.singles:
            entered.sort(key=_seq)
        for entry in entered:
            replaced = queue.restore(entry)
            applied.entered.append((queue, entry.seq))
            if replaced is not None:
                applied.left.append((queue, replaced))
        left = each.left
        for at in range(0, len(left), 2):
            applied.left.extend((queue, gone) for gone in queue.remove_run(left[at], left[at + 1]))
        for seq, deliveries in each.returned:
            queue.came_back(seq, deliveries)
        broker.journal.page_store.mentioned(queue)
        queue.reached = max(queue.reached, each.reached)
        queue.next_seq = max(queue.next_seq, each.last)
        for raw in each.seen:
            key = decode_text(raw)
            if queue.dedup is not None and not queue.dedup.seen(key, broker.now_ms):
                applied.seen.append((queue, key))
    return applied


def _seq(entry: Entry) -> int:
    return entry.seq
