"""How messages leave a queue other than to a consumer: expiry, length limits, and the dead letters that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.backlog.backlog import Entry
from openclust.broker.model.message import Message

if TYPE_CHECKING:
    from openclust.broker.queues.queue import Queue

EXPIRED = "expired"
MAX_LENGTH = "maxlen"


def expire(queue: Queue) -> None:
    """Take out what has expired at the head."""
    now_ms = queue.vhost.broker.now_ms
    while queue.backlog:
        due = queue.backlog.next_expiry_ms()
        if not due or due > now_ms:
            return
        for entry in queue.backlog.pop_expired(now_ms):
            queue.ready_bytes -= len(entry.message.body)
            bury(queue, entry, EXPIRED)


def expiry(queue: Queue, message: Message) -> int:
    """When a message that comes now expires: the earlier of its own time to live and the queue's, 0 for never."""
    own = message.properties.expiration if message.header[12] & 0x01 else None
    ttl = queue.settings.message_ttl_ms
    if own is not None and (ttl is None or int(own) < ttl):
        ttl = int(own)
    return 0 if ttl is None else max(1, queue.vhost.broker.now_ms + ttl)


def is_full(queue: Queue, message: Message) -> bool:
    """Whether one more message would pass a length limit."""
    settings = queue.settings
    return (settings.max_length is not None and len(queue.backlog) >= settings.max_length) or (
        settings.max_length_bytes is not None and queue.ready_bytes + len(message.body) > settings.max_length_bytes
    )


def make_room(queue: Queue) -> None:
    """Drop heads until the queue is within its limits."""
    settings = queue.settings
    if settings.overflow not in (None, "drop-head"):
        return
    backlog = queue.backlog
    while backlog and (
        (settings.max_length is not None and len(backlog) > settings.max_length)
        or (settings.max_length_bytes is not None and queue.ready_bytes > settings.max_length_bytes)
    ):
        victim = backlog.drop_head()
        if victim is None:
            # The disk has it, and does not give it now.
            return
        queue.ready_bytes -= len(victim.message.body)
        bury(queue, victim, MAX_LENGTH)
        queue.watch_head()


def refuse(queue: Queue, message: Message) -> None:
    """Turn a message away from a full queue; with reject-publish-dlx it becomes a dead letter."""
    if queue.settings.overflow == "reject-publish-dlx" and queue.settings.dead_letter_exchange is not None:
        queue.vhost.broker.dead_letters.append((queue, message, MAX_LENGTH, None))


def bury(queue: Queue, entry: Entry, reason: str) -> None:
    """A message leaves for good: as a dead letter where the queue has an exchange for these."""
    if queue.settings.dead_letter_exchange is None:
        queue.release(entry)
        return
    broker = queue.vhost.broker
    broker.books.release(entry.message)
    # It leaves here in the same batch as it comes there.
    broker.dead_letters.append((queue, entry.message, reason, entry))
