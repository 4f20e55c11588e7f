"""How queues take what was kept of them, here or on another broker, and how much is kept from now on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.backlog import Entry

if TYPE_CHECKING:
    from openclust.broker.queue import Queue


def restore(queue: Queue, entry: Entry) -> Entry | None:
    """Take a message at the place that it had; if it is there already, nothing changes.

    What it supersedes comes back. Nothing is delivered, or expires, before the queue is told to take charge.
    """
    is_new = entry.seq > queue.next_seq
    if not is_new and queue.backlog.find(entry.seq) is not None:
        return None
    if queue.dedup is not None:
        queue.dedup.repeats(entry.message, queue.vhost.broker.now_ms)
    if is_new:
        queue.next_seq = entry.seq
        return queue.take_in(entry)
    put_in_place(queue, entry)
    return None


def put_in_place(queue: Queue, entry: Entry) -> None:
    """Put a message that is not there back among the others."""
    entry.gone = False
    queue.vhost.broker.books.hold(entry.message)
    queue.ready_bytes += len(entry.message.body)
    queue.backlog.put_back(entry)


def remove(queue: Queue, seq: int) -> Entry | None:
    """Take out what has that place, and is out of it elsewhere; None where nothing has."""
    entry = queue.backlog.find(seq)
    if entry is not None:
        queue.backlog.remove(entry)
        queue.ready_bytes -= len(entry.message.body)
        queue.vhost.broker.books.release(entry.message)
    return entry


def keep_as(queue: Queue, level: int) -> None:
    """From now on so much is kept of a queue, of what is there too."""
    before, queue.records = queue.records, level
    journal = queue.vhost.broker.journal
    if before == level or not queue.backlog or not journal.is_in_charge:
        return
    for entry in list(queue.backlog):
        if entry.recorded:
            journal.left(queue, entry)
        if level:
            journal.entered(queue, entry, level)
