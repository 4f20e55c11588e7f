"""What a queue holds between a publish and a delivery, in the order in which it will be delivered.

There are several kinds with one interface (`Backlog`): first in first out is in this file, by priority in
`priority_backlog.py`, the last value of each key in `last_value_backlog.py`. A backlog only keeps the order: its queue
counts bytes, marks redeliveries and decides which messages leave. An empty backlog has no container, since most queues
of a broker are empty most of the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from openclust.broker.model.message import Message

_by_seq = attrgetter("seq")


class Entry(msgspec.Struct, gc=False):
    """A message's place in one queue. `seq` ascends with every push and is never used twice in a queue.

    `expires_ms` is 0 for never. `deliveries` above 0 means redelivered. `gone` is set by the backlog: the entry was
    removed or superseded, and must not come back. `recorded` is the number of the journal's batch that has the entry:
    positive in the cluster's log, negative on this broker's own disk, 0 in neither. A Struct takes 34 ns to build, a
    class with slots 94.
    """

    message: Message
    seq: int
    expires_ms: int = 0
    deliveries: int = 0
    priority: int = 0
    gone: bool = False
    recorded: int = 0


class Backlog(Protocol):
    """What a queue asks of any kind of backlog. `len()` counts what is ready, `iter()` goes in delivery order."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Entry]: ...
    def push(self, entry: Entry, key: str | None = None) -> Entry | None:
        """Add a new entry; one with the same key that it replaces comes back, for the caller's accounts."""

    def put_back(self, entry: Entry) -> bool:
        """Return a delivery to its old position. False: it is superseded, the caller discards it."""

    def settle(self, entry: Entry) -> None:
        """Say that a popped entry will never be put back (acknowledged, rejected, or delivered without ack).

        Only `LastValueBacklog` minds: a hot path that knows its kind may leave it out.
        """

    def peek(self) -> Entry | None:
        """The next entry to deliver, which stays."""

    def pop(self) -> Entry | None:
        """Take the next entry to deliver; later `put_back` or `settle` it."""

    def drop_head(self) -> Entry | None:
        """Take the victim of a length limit, for good."""

    def remove(self, entry: Entry) -> None:
        """Take `entry`, which must be ready, out of the middle, for good."""

    def find(self, seq: int) -> Entry | None:
        """The ready entry with that place; None where there is none."""

    def pop_expired(self, now_ms: int, limit: int = 1_000) -> list[Entry]:
        """Take up to `limit` entries that expired at a head, for good. A full list: call again."""

    def next_expiry_ms(self) -> int:
        """When the first head expires; 0 if none does. What stands behind a head waits for it, as in RabbitMQ."""

    def heads(self) -> list[Entry]:
        """The entries that could expire first."""

    def clear(self) -> list[Entry]:
        """Take everything that is ready, for good, in delivery order."""


class OneHead(Protocol):
    """A backlog in which one entry is the next to be delivered: so only that one can expire."""

    __slots__ = ()

    def peek(self) -> Entry | None: ...
    def drop_head(self) -> Entry | None: ...

    def pop_expired(self, now_ms: int, limit: int = 1_000) -> list[Entry]:
        expired: list[Entry] = []
        while len(expired) < limit:
            head = self.peek()
            if head is None or not 0 < head.expires_ms <= now_ms:
                break
            expired.append(head)
            self.drop_head()
        return expired

    def next_expiry_ms(self) -> int:
        head = self.peek()
        return head.expires_ms if head is not None else 0

    def heads(self) -> list[Entry]:
        head = self.peek()
        return [head] if head is not None else []


class FifoBacklog(OneHead):
    """First in, first out. Returned deliveries take their old place in O(log n), usually O(1)."""

    # Kept true: a container is None when it is empty, and its head is never `gone`.
    __slots__ = ("_live", "_ready", "_returned", "_tombstones")

    def __init__(self) -> None:
        self._live = 0
        self._tombstones = 0
        self._ready: deque[Entry] | None = None
        self._returned: list[tuple[int, Entry]] | None = None

    def __len__(self) -> int:
        return self._live

    def __iter__(self) -> Iterator[Entry]:
        returned = [entry for _, entry in sorted(self._returned or ())]
        return (entry for entry in merge(returned, self._ready or (), key=_by_seq) if not entry.gone)

    def push(self, entry: Entry, key: str | None = None) -> Entry | None:
        if self._ready is None:
            self._ready = deque((entry,))
        else:
            self._ready.append(entry)
        self._live += 1
        return None

    def put_back(self, entry: Entry) -> bool:
        if entry.gone:
            return False
        ready = self._ready
        if ready is None:
            self._ready = deque((entry,))
        elif entry.seq < ready[0].seq:
            ready.appendleft(entry)
        elif entry.seq > ready[-1].seq:
            ready.append(entry)
        elif self._returned is None:
            self._returned = [(entry.seq, entry)]
        else:
            heappush(self._returned, (entry.seq, entry))
        self._live += 1
        return True

    def settle(self, entry: Entry) -> None:
        return None

    def peek(self) -> Entry | None:
        ready, returned = self._ready, self._returned
        if returned is None:
            return ready[0] if ready is not None else None
        if ready is None or returned[0][0] < ready[0].seq:
            return returned[0][1]
        return ready[0]

    def pop(self) -> Entry | None:
        ready = self._ready
        if ready is None or self._returned is not None:
            return self._pop_merged()
        entry = ready.popleft()
        self._live -= 1
        if self._tombstones:
            self._trim()
        elif not ready:
            self._ready = None
        return entry

    def drop_head(self) -> Entry | None:
        entry = self.pop()
        if entry is not None:
            entry.gone = True
            self.settle(entry)
        return entry

    def remove(self, entry: Entry) -> None:
        assert not entry.gone, "removed twice"
        if entry is self.peek():
            self.drop_head()
            return
        entry.gone = True
        self.settle(entry)
        self._live -= 1
        self._tombstones += 1
        # One pass over both containers pays for at least as many removals.
        if self._tombstones > 32 and self._tombstones > self._live:
            self._compact()
        else:
            self._trim()

    def find(self, seq: int) -> Entry | None:
        if self._returned is not None:
            # Only a follower searches, and no delivery comes back to it: so the two containers are merged once.
            self._ready, self._returned = deque(self), None
            self._tombstones = 0
        ready = self._ready
        if ready is None or not ready[0].seq <= seq <= ready[-1].seq:
            return None
        # Mostly it is near the head, and what is near an end of a deque is found fast.
        low, high = 0, 1
        while high < len(ready) and ready[high].seq <= seq:
            low, high = high, 2 * high
        high = min(high, len(ready))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if ready[middle].seq <= seq else (low, middle)
        entry = ready[low]
        return entry if entry.seq == seq and not entry.gone else None

    def clear(self) -> list[Entry]:
        cleared = list(self)
        self._live = self._tombstones = 0
        self._ready = self._returned = None
        for entry in cleared:
            entry.gone = True
            self.settle(entry)
        return cleared

    def take_tail(self, seq: int) -> list[Entry]:
        """Take the entries from this place on, but no returned deliveries. Those that stay go back by `give_tail`."""
        ready = self._ready
        taken: list[Entry] = []
        while ready and ready[-1].seq >= seq:
            entry = ready.pop()
            if entry.gone:
                self._tombstones -= 1
            else:
                taken.append(entry)
        self._live -= len(taken)
        self._ready = ready or None
        taken.reverse()
        return taken

    def give_tail(self, entries: list[Entry]) -> None:
        """Append these entries, in their order."""
        if entries:
            self._ready = self._ready if self._ready is not None else deque()
            self._ready += entries
            self._live += len(entries)

    def _pop_merged(self) -> Entry | None:
        entry = self.peek()
        if entry is None:
            return None
        returned, ready = self._returned, self._ready
        if returned is not None and returned[0][1] is entry:
            heappop(returned)
        else:
            assert ready is not None
            ready.popleft()
        self._live -= 1
        self._trim()
        return entry

    def _trim(self) -> None:
        """Take tombstones off both heads, and drop a container that became empty."""
        ready, returned = self._ready, self._returned
        if ready is not None:
            while ready and ready[0].gone:
                ready.popleft()
                self._tombstones -= 1
            if not ready:
                self._ready = None
        if returned is not None:
            while returned and returned[0][1].gone:
                heappop(returned)
                self._tombstones -= 1
            if not returned:
                self._returned = None

    def _compact(self) -> None:
        self._ready = deque(entry for entry in self._ready or () if not entry.gone) or None
        self._returned = [pair for pair in self._returned or () if not pair[1].gone] or None
        if self._returned is not None:
            heapify(self._returned)
        self._tombstones = 0
