"""Batches of the journal, as bytes: which messages entered which queues, which left, and which came back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.backlog.paged_backlog import Away
from openclust.broker.model.message import Message, names_in
from openclust.wire.text import decode_text, encode_text

if TYPE_CHECKING:
    from openclust.broker.queues.queue import Queue, QueueBroker

AHEAD = 100
"""So many places more than were delivered are told as such: they may be delivered before anybody hears of that."""
ENTRY_BYTES = 80
"""What a message costs in a batch beside its header and body, roughly."""


class OfQueue(msgspec.Struct, array_like=True):
    """What happened to one queue. Names are bytes: they may be no text.

    `runs` are messages with consecutive places: the first place, the first message's index, how many. `singles` have
    more to be said of them: place, index, expiry by the wall clock, deliveries, priority. `left` are places, first and
    last in turn. `reached` is the highest place that was delivered, 0 where that is not told. `seen` are keys of the
    dedup window whose messages came and went. `last` is the highest place that was ever taken, 0 where that is not
    told.
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


class Work(msgspec.Struct, array_like=True):
    """`messages` are suffix, header and body: one that went to many queues is there once.

    `commits` name the transactions in it: whose, its number, and the first of that one's that is not answered yet.
    """

    messages: list[tuple[bytes, bytes, bytes]]
    queues: list[OfQueue]
    commits: list[tuple[bytes, int, int]] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Work)


def decode_work(body: bytes) -> Work:
    """ValueError where it is none."""
    return _decoder.decode(body)


def encode_work(work: Work) -> bytes:
    return _encoder.encode(work)


class Writing:
    """An open batch: lists of queues and their entries, in the order in which things happened. Of what came and went
    in it a queue that knows repetitions has `seen` the key.
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
        """Empty where nothing is left to be told."""
        table = _Table()
        for queue, entry in self.entered:
            # Another number: it has left again.
            if entry.recorded == number:
                of_queue = table.of(queue)
                if of_queue is not None:
                    _enter(of_queue, table.index(entry.message), entry, wall_offset_ms)
        for queue, entry in self.left:
            of_queue = table.of(queue)
            if of_queue is not None:
                ranges, seq = of_queue.left, entry.seq
                if isinstance(entry, Away):
                    ranges += entry.runs
                elif ranges and ranges[-1] == seq - 1:
                    ranges[-1] = seq
                else:
                    ranges += (seq, seq)
        for queue, entry in self.returned:
            of_queue = table.of(queue)
            if of_queue is not None and entry.recorded:
                of_queue.returned.append((entry.seq, entry.deliveries))
        for queue, key in self.seen:
            of_queue = table.of(queue)
            if of_queue is not None:
                of_queue.seen.append(encode_text(key))
        for queue in self.reached:
            of_queue = table.of(queue)
            if of_queue is not None:
                # Whoever is root next may not hear of the very last deliveries: so they are told before they are made.
                of_queue.reached = queue.reached if number < 0 else min(queue.next_seq, queue.reached + AHEAD)
        queues = table.queues()
        return _encoder.encode(Work(table.messages, queues, self.commits)) if queues or self.commits else b""


class _Table:
    """The queues and messages of a batch that is being encoded."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, bytes, bytes]] = []
        self._of: dict[Queue, OfQueue | None] = {}
        self._indexes: dict[int, int] = {}

    def of(self, queue: Queue) -> OfQueue | None:
        """None where the queue is gone: what happened to it is told by that."""
        try:
            return self._of[queue]
        except KeyError:
            of_queue = None
            if queue.is_alive:
                vhost = encode_text(queue.vhost.name)
                of_queue = OfQueue(vhost, encode_text(queue.name), [], [], [], [], 0, [])
            self._of[queue] = of_queue
            return of_queue

    def index(self, message: Message) -> int:
        if message.holders > 1:
            known = self._indexes.get(id(message))
            if known is not None:
                return known
            self._indexes[id(message)] = len(self.messages)
        self.messages.append((message.suffix, message.header, message.body))
        return len(self.messages) - 1

    def queues(self) -> list[OfQueue]:
        return [of_queue for of_queue in self._of.values() if of_queue is not None]


def _enter(of_queue: OfQueue, index: int, entry: Entry, wall_offset_ms: int) -> None:
    if entry.expires_ms or entry.deliveries or entry.priority:
        expires = entry.expires_ms + wall_offset_ms if entry.expires_ms else 0
        of_queue.singles.append((entry.seq, index, expires, entry.deliveries, entry.priority))
        return
    runs = of_queue.runs
    if runs and runs[-3] + runs[-1] == entry.seq and runs[-2] + runs[-1] == index:
        runs[-1] += 1
    else:
        runs += (entry.seq, index, 1)


class Applied(msgspec.Struct, frozen=True):
    """What a batch has done here: to be undone, where it does not stay. Entries that left, and what is new: places, and
    keys of dedup windows without them.
    """

    left: list[tuple[Queue, Entry]]
    entered: list[tuple[Queue, int]]
    seen: list[tuple[Queue, str]]


def apply_work(broker: QueueBroker, work: Work, recorded: int) -> Applied:
    """Do to the queues here what was done elsewhere, or before. What was done already changes nothing."""
    applied = Applied([], [], [])
    offset_ms = broker.wall_offset_ms
    messages = [Message(*names_in(suffix), header, body, suffix) for suffix, header, body in work.messages]
    for each in work.queues:
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
        broker.journal.library.mentioned(queue)
        queue.reached = max(queue.reached, each.reached)
        queue.next_seq = max(queue.next_seq, each.last)
        for raw in each.seen:
            key = decode_text(raw)
            if queue.dedup is not None and not queue.dedup.seen(key, broker.now_ms):
                applied.seen.append((queue, key))
    return applied


def _seq(entry: Entry) -> int:
    return entry.seq
