"""The journal: which messages entered and left the queues whose contents are kept.

Queues call the journal for each such message; `seal` encodes one batch of these calls. One batch has all that must
happen together: a transaction, a message and all queues it went to, a dead letter and the place that it left. A message
that leaves before its batch is sealed is not in the batch.

The caller of `seal` stores the batches, and calls `advance` when they are where they must be: confirms wait for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from openclust.broker.journal.batch import OpenBatch
from openclust.broker.journal.page_store import PageStore
from openclust.broker.model.durability_level import NOTHING, OWN, SHARED
from openclust.broker.model.outcome import IN_MEMORIES, ON_DISKS, ON_OWN_DISK

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.model.message import Message
    from openclust.broker.queues.queue import Queue

KEPT = 1
"""The number of all that this broker did not seal itself: read from a store, a snapshot or another root's log."""


class ConfirmWaiter(Protocol):
    """Somebody who must tell a client something once a batch is where it must be."""

    def send_confirms(self) -> None: ...


class Sealed(msgspec.Struct, frozen=True):
    """One batch: `own` is for this broker's disk, `shared` for the cluster's log. Each is empty if nothing happened.

    For a rollback of the shared part there are the places that were taken (`entered`), the entries that left (`left`),
    and the dedup keys of messages that came and left (`seen`). A batch `is_urgent` if somebody waits for it to be in
    the memories of other primaries, and not only on disks.
    """

    number: int
    own: bytes
    shared: bytes
    entered: list[tuple[Queue, int]]
    left: list[tuple[Queue, Entry]]
    seen: list[tuple[Queue, str]]
    is_urgent: bool


class Journal:
    """In `mode` "shared" there is a log that other primaries have too. Without a disk nothing is kept on this broker.

    `number` is that of the open batch. `is_in_charge` is False while the shared queues here only follow those of the
    root; `since` is the first batch of the time in which it is True.
    """

    __slots__ = (
        "_has_news",
        "_is_urgent",
        "_lost",
        "_own",
        "_places",
        "_refused",
        "_repeated",
        "_settled_on_own_disk",
        "_shared",
        "has_disk",
        "is_in_charge",
        "mode",
        "number",
        "page_store",
        "since",
        "stored",
        "strays",
        "waiters",
    )

    def __init__(self, mode: Literal["alone", "shared"] = "alone", *, has_disk: bool = False) -> None:
        self.mode = mode
        self.has_disk = has_disk
        self.is_in_charge = True
        self.number = self.since = KEPT + 1
        self.waiters: dict[ConfirmWaiter, None] = {}
        self.page_store = PageStore()
        # Messages of queues that became replicated while this broker followed: they are in no log, and in no backlog.
        self.strays: list[tuple[Queue, Entry]] = []
        # How many messages batches took to this broker's disk or into the log.
        self.stored = 0
        self._own = OpenBatch()
        self._shared = OpenBatch()
        # The last batch that is in each place; and the batches before it that never will be: place, first, last.
        self._places = {ON_OWN_DISK: KEPT, IN_MEMORIES: KEPT, ON_DISKS: KEPT}
        self._lost: list[tuple[int, int, int]] = []
        # Up to this batch nothing waits for this broker's own disk any more.
        self._settled_on_own_disk = KEPT
        # For each place the last batch for which nobody waits any more.
        self._refused: dict[int, int] = {}
        self._has_news = False
        # Whether somebody waits for the open batch, even if it has nothing in it.
        self._repeated = False
        self._is_urgent = False

    def level(self, queue: Queue) -> int:
        """The durability level of a queue: `NOTHING`, `OWN` or `SHARED`."""
        if queue.owner is not None:
            return NOTHING
        replicate = queue.settings.replicate or ("messages" if queue.durable else "configuration")
        if self.mode == "shared" and replicate == "messages":
            return SHARED
        return OWN if self.has_disk and queue.durable else NOTHING

    # -- what happens

    def entered(self, queue: Queue, entry: Entry, level: int) -> int:
        """A message has its place in a queue with this level. Returns where the open batch must be for its confirm."""
        if level == SHARED:
            entry.recorded = self.number
            self._shared.entered.append((queue, entry))
            if entry.message.is_persistent:
                return ON_DISKS
            self._is_urgent = True
            return IN_MEMORIES
        if not entry.message.is_persistent:
            return 0
        entry.recorded = -self.number
        self._own.entered.append((queue, entry))
        return ON_OWN_DISK

    def repeated(self, message: Message, level: int) -> int:
        """A publisher repeats a message. Its confirm must wait until the first copy is where it must be.

        The first copy is in the open batch or in one before it.
        """
        self._repeated |= level != NOTHING
        if level == SHARED:
            self._is_urgent |= not message.is_persistent
            return ON_DISKS if message.is_persistent else IN_MEMORIES
        return ON_OWN_DISK if level and message.is_persistent else 0

    def left(self, queue: Queue, entry: Entry) -> None:
        """A recorded message has left its queue for good."""
        recorded, entry.recorded = entry.recorded, 0
        queue.recorded_unacked.pop(entry.seq, None)
        if recorded > 0 and not self.is_in_charge:
            # The message is in the log: the root's entries say that it has left.
            self.page_store.left(queue, entry)
            return
        batch = self._shared if recorded > 0 else self._own
        if recorded in (self.number, -self.number):
            key = queue.dedup.key(entry.message) if queue.dedup is not None else None
            if key is not None:
                batch.seen.append((queue, key))
        else:
            batch.left.append((queue, entry))

    def returned(self, queue: Queue, entry: Entry) -> None:
        """A recorded message is back in its place after one more delivery."""
        if entry.recorded not in (self.number, -self.number):
            (self._shared if entry.recorded > 0 else self._own).returned.append((queue, entry))

    def reached(self, queue: Queue, level: int) -> None:
        """A message was delivered: after a crash it may be delivered again."""
        (self._shared if level == SHARED else self._own).reached[queue] = None

    def committed(self, commit: tuple[bytes, int, int]) -> None:
        """All that a transaction does to replicated queues is in the open batch."""
        self._shared.commits.append(commit)

    @property
    def mark(self) -> int:
        """How many messages have entered by the shared part of the open batch: for `taken`."""
        return len(self._shared.entered)

    def taken(self, since: int) -> list[tuple[Queue, Entry]]:
        """The messages that have entered by the shared part of the open batch since that `mark`."""
        return self._shared.entered[since:]

    # -- who is in charge

    def take_charge(self) -> None:
        """Shared queues are active here from now on."""
        self.is_in_charge = True
        self.since = self.number

    # -- batches

    @property
    def is_empty(self) -> bool:
        return self._own.is_empty and self._shared.is_empty and not self._repeated

    @property
    def open_bytes(self) -> int:
        """About how large the open batch is."""
        return self._own.size + self._shared.size

    def seal(self, wall_offset_ms: int) -> Sealed:
        """End the open batch. Times in it are those of the wall clock: `wall_offset_ms` ahead of the broker's clock."""
        own, shared = self._own, self._shared
        number = self.number
        entered = [(queue, entry.seq) for queue, entry in shared.entered if entry.recorded == number]
        self.stored += len(entered) + sum(entry.recorded == -number for _, entry in own.entered)
        left = [(queue, entry) for queue, entry in shared.left if queue.is_alive]
        sealed = Sealed(
            number,
            own.encode(-number, wall_offset_ms),
            shared.encode(number, wall_offset_ms),
            entered,
            left,
            shared.seen,
            self._is_urgent,
        )
        self._own, self._shared = OpenBatch(), OpenBatch()
        self._repeated = self._is_urgent = False
        self.page_store.sealed(own)
        self.page_store.sealed(shared)
        self.number = number + 1
        return sealed

    def abandon(self) -> tuple[list[tuple[Queue, Entry]], list[tuple[Queue, Entry]]]:
        """This broker is no longer in charge. Returns the messages that entered by the open batch, and those that left.

        The first are in no log; the second are still in the log. Their publishers and consumers are told of neither.
        """
        self.is_in_charge = False
        shared, self._shared = self._shared, OpenBatch()
        entered = [(queue, entry) for queue, entry in shared.entered if entry.recorded == self.number]
        for _, entry in entered:
            entry.recorded = 0
        for queue, key in shared.seen:
            # No log says that a message with this key came: if it comes again, it is new.
            queue.forget_key(key)
        self._mark_lost()
        self._is_urgent = False
        self._has_news = True
        self.number += 1
        # What only this broker keeps stays in the open batch, which has a new number.
        for _, entry in self._own.entered:
            if entry.recorded == 1 - self.number:
                entry.recorded = -self.number
        return entered, shared.left

    def _mark_lost(self) -> None:
        """Remember that the shared batches that are not committed yet are lost.

        A later batch may be committed, which says nothing of these. They are remembered as long as a confirm may ask
        for them: it may wait for this broker's own disk first.
        """
        firsts = {place: self._places[place] + 1 for place in (IN_MEMORIES, ON_DISKS)}
        self._lost = [each for each in self._lost if each[1] < firsts[each[0]] and each[2] > self._settled_on_own_disk]
        self._lost += [(place, first, self.number) for place, first in firsts.items()]

    # -- where batches are

    def advance(self, place: int, number: int) -> None:
        """All batches up to this one are in that place."""
        if number > self._places[place]:
            self._places[place] = number
            self._has_news = True

    def refuse(self, place: int, number: int) -> None:
        """Give up waiting for the batches up to this one to be in that place; they may still come."""
        self._refused[place] = number
        self._has_news = True

    def has(self, number: int, places: int) -> bool:
        """Whether a batch is in all of these places."""
        if any(places & place and number > last for place, last in self._places.items()):
            return False
        return not self._lost or not self._has_lost(number, places)

    def has_lost(self, number: int, places: int) -> bool:
        """Whether a batch will never be in one of these places, or nobody waits for that any more."""
        if self._has_lost(number, places):
            return True
        return any(places & place and number <= last for place, last in self._refused.items())

    def _has_lost(self, number: int, places: int) -> bool:
        return any(places & place and first <= number <= last for place, first, last in self._lost)

    def take_waiters(self) -> list[ConfirmWaiter]:
        """The waiters that may have something to tell since batches have moved."""
        if not self._has_news:
            return []
        self._has_news = False
        self._settled_on_own_disk = max(self._places[ON_OWN_DISK], self._refused.get(ON_OWN_DISK, 0))
        waiters, self.waiters = self.waiters, {}
        return list(waiters)
