"""The journal: which messages entered and left the queues whose contents are kept.

Queues note it here; `seal` makes one batch of it, as bytes. What is atomic lies in one batch: a transaction, a message
and the queues it went to, a dead letter and the place it left. What leaves before its batch is sealed was never there.

Who seals keeps the batches, and says where they have come to (`advance`): confirms wait for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from openclust.broker.journal.batch import Writing
from openclust.broker.journal.page_store import Library
from openclust.broker.model.durability_level import NOTHING, OWN, SHARED
from openclust.broker.model.outcome import IN_MEMORIES, ON_DISKS, ON_OWN_DISK

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.model.message import Message
    from openclust.broker.queues.queue import Queue

KEPT = 1
"""The batch of what was there before: of a store, a snapshot, another root. Batches of this broker count from 2."""


class ConfirmWaiter(Protocol):
    """Somebody with something to tell."""

    def send_confirms(self) -> None: ...


class Sealed(msgspec.Struct, frozen=True):
    """One batch: what is this broker's own, and what is the cluster's, each empty where there is nothing.

    `entered` are the places that were taken by the cluster's part, `left` the entries that left by it, and `seen` the
    keys of what came and went: to be undone, where it does not stay. It `is_urgent` where somebody waits for it to be
    in memories, not on disks.
    """

    number: int
    own: bytes
    shared: bytes
    entered: list[tuple[Queue, int]]
    left: list[tuple[Queue, Entry]]
    seen: list[tuple[Queue, str]]
    is_urgent: bool


class Journal:
    """`mode` says whether there is a log that others have. Without a disk nothing is this broker's own.

    `number` is that of the open batch. `is_in_charge` is not so where shared queues only follow; `since` is the first
    batch of the time in which it is.
    """

    __slots__ = (
        "_is_urgent",
        "_looked",
        "_lost",
        "_moved",
        "_own",
        "_places",
        "_refused",
        "_repeated",
        "_shared",
        "has_disk",
        "is_in_charge",
        "library",
        "mode",
        "number",
        "since",
        "strays",
        "waiters",
    )

    def __init__(self, mode: Literal["alone", "shared"] = "alone", *, has_disk: bool = False) -> None:
        self.mode = mode
        self.has_disk = has_disk
        self.is_in_charge = True
        self.number = self.since = KEPT + 1
        self.waiters: dict[ConfirmWaiter, None] = {}
        self.library = Library()
        # What was in queues whose contents the log has from now on, and is not in it; out of their backlogs.
        self.strays: list[tuple[Queue, Entry]] = []
        self._own = Writing()
        self._shared = Writing()
        # The last batch that has come to each place; and which of those up to there never will: place, first, last.
        self._places = {ON_OWN_DISK: KEPT, IN_MEMORIES: KEPT, ON_DISKS: KEPT}
        self._lost: list[tuple[int, int, int]] = []
        # Up to there nothing waits for the own disk any more, nor behind what does.
        self._looked = KEPT
        # The last batch for whose coming to a place nobody waits any more.
        self._refused: dict[int, int] = {}
        self._moved = False
        # Whether somebody waits for the open batch, though it may have nothing to tell.
        self._repeated = False
        self._is_urgent = False

    def level(self, queue: Queue) -> int:
        """What is kept of a queue."""
        if queue.owner is not None:
            return NOTHING
        replicate = queue.settings.replicate or ("messages" if queue.durable else "configuration")
        if self.mode == "shared" and replicate == "messages":
            return SHARED
        return OWN if self.has_disk and queue.durable else NOTHING

    # -- what happens

    def entered(self, queue: Queue, entry: Entry, level: int) -> int:
        """A message has its place in a queue of which that much is kept; where the open batch must be for that."""
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
        """A message is in a queue already, or was: it is accepted, but not before the first of it is where it must be.

        That is in no batch after the open one.
        """
        self._repeated |= level != NOTHING
        if level == SHARED:
            self._is_urgent |= not message.is_persistent
            return ON_DISKS if message.is_persistent else IN_MEMORIES
        return ON_OWN_DISK if level and message.is_persistent else 0

    def left(self, queue: Queue, entry: Entry) -> None:
        """A recorded message has left its queue for good."""
        recorded, entry.recorded = entry.recorded, 0
        queue.out.pop(entry.seq, None)
        if recorded > 0 and not self.is_in_charge:
            # The log's: who is in charge tells it.
            self.library.left(queue, entry)
            return
        writing = self._shared if recorded > 0 else self._own
        if recorded in (self.number, -self.number):
            key = queue.dedup.key(entry.message) if queue.dedup is not None else None
            if key is not None:
                writing.seen.append((queue, key))
        else:
            writing.left.append((queue, entry))

    def returned(self, queue: Queue, entry: Entry) -> None:
        """A recorded message is back in its place, delivered in vain once more."""
        if entry.recorded not in (self.number, -self.number):
            (self._shared if entry.recorded > 0 else self._own).returned.append((queue, entry))

    def reached(self, queue: Queue, level: int) -> None:
        """A message was delivered, and may be again."""
        (self._shared if level == SHARED else self._own).reached[queue] = None

    def committed(self, commit: tuple[bytes, int, int]) -> None:
        """All that a transaction does to queues of which the cluster keeps all is in the open batch."""
        self._shared.commits.append(commit)

    @property
    def mark(self) -> int:
        """How far the open batch has come; see `taken`."""
        return len(self._shared.entered)

    def taken(self, since: int) -> list[tuple[Queue, Entry]]:
        """What has entered by the cluster's part of the open batch since that mark."""
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
        """What the open batch has to hold, roughly."""
        return self._own.size + self._shared.size

    def seal(self, wall_offset_ms: int) -> Sealed:
        """End the open batch. Moments in it are the wall clock's: that is so much ahead of the broker's."""
        own, shared = self._own, self._shared
        number = self.number
        entered = [(queue, entry.seq) for queue, entry in shared.entered if entry.recorded == number]
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
        self._own, self._shared = Writing(), Writing()
        self._repeated = self._is_urgent = False
        self.library.sealed(own)
        self.library.sealed(shared)
        self.number = number + 1
        return sealed

    def abandon(self) -> tuple[list[tuple[Queue, Entry]], list[tuple[Queue, Entry]]]:
        """This broker is in charge no more: what has entered by the open batch, and what has left.

        The first is nobody's now, the second is still where the log has it. What waits will never be told.
        """
        self.is_in_charge = False
        shared, self._shared = self._shared, Writing()
        entered = [(queue, entry) for queue, entry in shared.entered if entry.recorded == self.number]
        for _, entry in entered:
            entry.recorded = 0
        for queue, key in shared.seen:
            # It is in no log that this has come: it is new where it comes again.
            queue.unsee(key)
        self._lose()
        self._is_urgent = False
        self._moved = True
        self.number += 1
        # What is this broker's own stays in the open batch, under its new number.
        for _, entry in self._own.entered:
            if entry.recorded == 1 - self.number:
                entry.recorded = -self.number
        return entered, shared.left

    def _lose(self) -> None:
        """What of the cluster's is not where it must be will never be known to come there.

        Batches of a later time do not tell of it: it is remembered as long as it may be asked for, behind the own disk.
        """
        firsts = {place: self._places[place] + 1 for place in (IN_MEMORIES, ON_DISKS)}
        self._lost = [each for each in self._lost if each[1] < firsts[each[0]] and each[2] > self._looked]
        self._lost += [(place, first, self.number) for place, first in firsts.items()]

    # -- where batches are

    def advance(self, place: int, number: int) -> None:
        """All batches up to this one are there."""
        if number > self._places[place]:
            self._places[place] = number
            self._moved = True

    def refuse(self, place: int, number: int) -> None:
        """Nobody waits any more for the batches up to this one to come there; they may come yet."""
        self._refused[place] = number
        self._moved = True

    def has(self, number: int, places: int) -> bool:
        """Whether a batch is in all of these places."""
        if any(places & place and number > last for place, last in self._places.items()):
            return False
        return not self._lost or not self._has_lost(number, places)

    def has_lost(self, number: int, places: int) -> bool:
        """Whether a batch will never be there, or not while anybody waits for it."""
        if self._has_lost(number, places):
            return True
        return any(places & place and number <= last for place, last in self._refused.items())

    def _has_lost(self, number: int, places: int) -> bool:
        return any(places & place and first <= number <= last for place, first, last in self._lost)

    def take_waiters(self) -> list[ConfirmWaiter]:
        """Who may have something to tell by now."""
        if not self._moved:
            return []
        self._moved = False
        self._looked = max(self._places[ON_OWN_DISK], self._refused.get(ON_OWN_DISK, 0))
        waiters, self.waiters = self.waiters, {}
        return list(waiters)
