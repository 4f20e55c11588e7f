"""How queues take what was kept of them, here or on another broker, and how much is kept from now on."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.backlog.last_value_backlog import LastValueBacklog
from openclust.broker.backlog.paged_backlog import Away, PagedBacklog, size_of
from openclust.broker.model.durability_level import SHARED

if TYPE_CHECKING:
    from openclust.broker.model.message import Message
    from openclust.broker.queues.queue import Queue


def restore(queue: Queue, entry: Entry) -> Entry | None:
    """Take a message at the place that it had; if it is there already, nothing changes.

    What it supersedes comes back. Nothing is delivered, or expires, before the queue is told to take charge.
    """
    is_new = entry.seq > queue.next_seq
    if not is_new and queue.backlog.find(entry.seq) is not None:
        return None
    library = queue.vhost.broker.journal.library
    if queue.dedup is not None:
        queue.dedup.repeats(entry.message, queue.vhost.broker.now_ms)
    if is_new:
        queue.next_seq = entry.seq
        library.entered(queue, entry)
        replaced = queue.take_in(entry)
        if replaced is not None:
            library.left(queue, replaced)
        return replaced
    put_in_place(queue, entry)
    return None


def put_in_place(queue: Queue, entry: Entry) -> None:
    """Put a message that is not there back among the others."""
    if isinstance(entry, Away):
        queue.ready_bytes += size_of(entry)
        queue.backlog.put_back(entry)
        return
    if entry.gone:
        # The backlog may still know it as that. What is told of it is told of the new one from here on.
        entry, former = msgspec.structs.replace(entry, gone=False), entry
        former.recorded = 0
    # A delivery that was refused is out until its dead letter is somewhere.
    queue.out.pop(entry.seq, None)
    queue.vhost.broker.journal.library.put_back(queue, entry)
    if isinstance(queue.backlog, LastValueBacklog):
        key = value_key(queue, entry.message)
        if key is not None:
            queue.backlog.know(entry, key)
    queue.vhost.broker.books.hold(entry.message)
    queue.ready_bytes += len(entry.message.body)
    queue.backlog.put_back(entry)


def remove(queue: Queue, seq: int) -> Entry | None:
    """Take out what has that place, and is out of it elsewhere; None where nothing has."""
    entry = queue.backlog.find(seq)
    if entry is not None:
        _remove(queue, entry)
    return entry


def _remove(queue: Queue, entry: Entry) -> None:
    queue.ready_bytes -= size_of(entry)
    queue.backlog.remove(entry)
    queue.vhost.broker.books.release(entry.message)
    queue.vhost.broker.journal.library.left(queue, entry)


def remove_run(queue: Queue, first: int, last: int) -> list[Entry]:
    """Take out all that has these places; a page's messages that are not in memory are one entry."""
    backlog = queue.backlog
    if isinstance(backlog, PagedBacklog) and last - first > len(backlog.memory):
        found = backlog.between(first, last)
        for entry in found:
            _remove(queue, entry)
        return found
    return [gone for seq in range(first, last + 1) if (gone := remove(queue, seq)) is not None]


def came_back(queue: Queue, seq: int, deliveries: int) -> None:
    """A message that waits here was delivered in vain elsewhere, so often in all."""
    entry = queue.backlog.find(seq)
    library = queue.vhost.broker.journal.library
    if isinstance(entry, Away):
        library.came_back(queue, entry.of, seq, deliveries)
    elif entry is not None:
        entry.deliveries = deliveries
        library.returned(queue, entry)


def bring_in(queue: Queue) -> None:
    """Have all of its messages in memory."""
    if isinstance(queue.backlog, PagedBacklog):
        queue.backlog.bring_in()


def set_adrift(queue: Queue, entry: Entry) -> Entry:
    """Take out what this broker alone has, to be kept elsewhere: for its store it is still there."""
    queue.ready_bytes -= len(entry.message.body)
    queue.backlog.remove(entry)
    queue.vhost.broker.books.release(entry.message)
    return entry


def take_back(queue: Queue, seq: int) -> Entry | None:
    """Take out what has that place, as if it had never come."""
    if isinstance(queue.backlog, PagedBacklog):
        # It may be needed itself: its key, or all of it for another root.
        queue.backlog.bring(seq)
    entry = remove(queue, seq) if queue.is_alive else None
    if entry is not None and queue.dedup is not None:
        queue.dedup.discard(entry.message)
    return entry


def unsee(queue: Queue, key: str) -> None:
    """A message with this key came and went, as if it had never come."""
    if queue.is_alive and queue.dedup is not None:
        queue.dedup.discard_key(key)
        queue.vhost.broker.journal.library.mentioned(queue)


def value_key(queue: Queue, message: Message) -> str | None:
    """Of which key a message is the value, in a queue that keeps the last of each."""
    if queue.settings.last_value_key is None:
        return None
    value = (message.properties.headers or {}).get(queue.settings.last_value_key)
    return None if value is None else str(value)


def has_value(queue: Queue, message: Message, since: int) -> bool:
    """Whether its key has a value already that has one of the places from `since` on."""
    backlog = queue.backlog
    key = value_key(queue, message)
    if key is None or not isinstance(backlog, LastValueBacklog):
        return False
    newest = backlog.newest(key)
    return newest is not None and newest.seq >= since


def newest_of(queue: Queue, entries: deque[Entry]) -> tuple[deque[Entry], list[Entry]]:
    """Of messages in order: those that count, and in a queue of last values those that a later one replaces."""
    if queue.settings.last_value_key is None:
        return entries, []
    stay: deque[Entry] = deque()
    replaced: list[Entry] = []
    keys: set[str] = set()
    for entry in reversed(entries):
        key = value_key(queue, entry.message)
        if key is None or key not in keys:
            stay.appendleft(entry)
        else:
            replaced.append(entry)
        if key is not None:
            keys.add(key)
    return stay, replaced


def keep_as(queue: Queue, level: int) -> None:
    """From now on so much is kept of a queue, of what is there too."""
    before, queue.records = queue.records, level
    journal = queue.vhost.broker.journal
    if before == level or not queue.backlog:
        return
    bring_in(queue)
    if not journal.is_in_charge:
        if level == SHARED:
            # Their places are the log's from now on.
            journal.strays += [(queue, set_adrift(queue, each)) for each in list(queue.backlog) if each.recorded <= 0]
        return
    for entry in list(queue.backlog):
        if entry.recorded:
            journal.left(queue, entry)
        if level:
            journal.entered(queue, entry, level)
