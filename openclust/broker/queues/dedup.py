"""The window of message ids that a queue has seen lately, by which it drops duplicates."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.model.message import Message
    from openclust.broker.model.queue_arguments import QueueArgs

SIZE_DEFAULT = 10_000
HEADER_DEFAULT = "x-deduplication-header"


class DedupWindow:
    """The newest `size` keys of the last `ttl_ms` milliseconds (0: of any age). Takes O(1) for a message.

    The age of a key counts from its first message: a publisher that repeats a message does not keep its key for ever.
    `added` counts the keys that were ever added, less the forgotten ones; `discarded` the keys that were taken back.
    """

    __slots__ = ("_header", "_order", "_seen", "_size", "_ttl_ms", "added", "discarded")

    def __init__(self, size: int, ttl_ms: int = 0, header: str | None = None) -> None:
        assert size > 0 and ttl_ms >= 0
        self._header = header
        self._size = size
        self._ttl_ms = ttl_ms
        self.added = self.discarded = 0
        # When each key was first seen, and the order in which they leave.
        self._seen: dict[str, int] | None = None
        self._order: deque[str] | None = None

    def __len__(self) -> int:
        return len(self._seen) if self._seen is not None else 0

    def __contains__(self, key: str) -> bool:
        return self._seen is not None and key in self._seen

    def keys(self) -> list[str]:
        """All keys in the window, the oldest first."""
        return list(self._order or ())

    def key(self, message: Message) -> str | None:
        """The key of a message: equal messages have equal keys. None if the message has none."""
        properties = message.properties
        key = (properties.headers or {}).get(self._header or HEADER_DEFAULT)
        if key is None and self._header is None:
            key = properties.message_id
        return None if key is None else str(key)

    def repeats(self, message: Message, now_ms: int) -> bool:
        """Whether a message was seen before. It is from now on."""
        key = self.key(message)
        return key is not None and self.seen(key, now_ms)

    def forget_message(self, message: Message) -> None:
        """The newest message was refused: its publisher may try again."""
        key = self.key(message)
        if key is not None:
            self.forget(key)

    def seen(self, key: str, now_ms: int) -> bool:
        """Add `key`. True if it was in the window already: then the message is a duplicate."""
        if self._seen is None or self._order is None:
            self._seen, self._order = {}, deque()
        seen, order = self._seen, self._order
        if self._ttl_ms:
            oldest_ms = now_ms - self._ttl_ms
            while order and seen[order[0]] <= oldest_ms:
                del seen[order.popleft()]
        if key in seen:
            return True
        if len(order) >= self._size:
            del seen[order.popleft()]
        seen[key] = now_ms
        order.append(key)
        self.added += 1
        return False

    def newest(self, count: int) -> list[tuple[str, int]]:
        """At most `count` of the newest keys with the moments when they came, the oldest first."""
        order, seen = self._order, self._seen
        if order is None or seen is None:
            return []
        found = list(islice(reversed(order), count))
        found.reverse()
        return [(key, seen[key]) for key in found]

    def discard(self, message: Message) -> None:
        """A message was rolled back: as if it had not come."""
        key = self.key(message)
        if key is not None:
            self.discard_key(key)

    def discard_key(self, key: str) -> None:
        if self._seen is not None and self._order is not None and key in self._seen:
            del self._seen[key]
            self._order.remove(key)
            self.discarded += 1

    def forget(self, key: str) -> None:
        """Remove the newest key: its message was refused, and may be tried again."""
        if self._seen is not None and self._order and self._order[-1] == key:
            self._order.pop()
            self.added -= 1
            del self._seen[key]


def dedup_window(settings: QueueArgs, size_max: int) -> DedupWindow | None:
    """A new, empty window if this queue drops repeated messages; it remembers at most `size_max` of them."""
    if not settings.dedup:
        return None
    return DedupWindow(
        min(settings.dedup_size or SIZE_DEFAULT, size_max), settings.dedup_ttl_ms or 0, settings.dedup_header
    )
