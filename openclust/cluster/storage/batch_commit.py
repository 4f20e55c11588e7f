"""What of this broker goes to its store, and how far that has come: the journal's batches, and the log.

Each turn `take_writes` for the store, in their order; the shell says how many of them are on disk (`stored`). A broker
without a disk has all in memory, and goes on as if that were one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from openclust.broker.journal.store_rows import Keep, Write
from openclust.broker.model.outcome import IN_MEMORIES, ON_DISKS, ON_OWN_DISK
from openclust.cluster.protocol.status import Position
from openclust.cluster.storage.checkpointing import Checkpointing
from openclust.cluster.storage.disk_health import DiskHealth

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry as QueueEntry
    from openclust.broker.model.changes import Change
    from openclust.broker.queues.queue import Queue
    from openclust.cluster.membership.membership import Membership
    from openclust.cluster.protocol.bounds import Bounds
    from openclust.cluster.protocol.log_entry import LogEntry

UNDERWAY_MAX = 1
"""So many batches are under way to where they must be. What happens meanwhile makes the next one, and it is larger."""
BATCH_BYTES_MAX = 1_048_576
"""A batch as large as that waits for no other."""
OWN = "own"
"""The kind of rows that are no entries of the log: work of this broker alone."""


class BatchCommit:
    """Call `flush` at the end of a turn, `stored` when the disk has done something, `moved` when others have.

    Set `is_awaited` where the open batch must end with the next turn: those under way may wait for who waits for it.
    """

    def __init__(self, membership: Membership, bounds: Bounds) -> None:
        self._cluster = membership
        self._journal = membership.broker.journal
        self.disk = DiskHealth(membership, bounds)
        self.checkpoints = Checkpointing(membership, bounds)
        # What is undone here, and not in the log yet.
        self.passing: list[Change] = []
        self.writes: list[Write] = []
        self.given = 0
        self.done = 0
        # What is on its way: the journal's batches of this broker alone, by the write, each the first of those in it;
        # and those in the log, by place.
        self._own: deque[tuple[int, int]] = deque()
        self._shared: deque[tuple[int, Position]] = deque()
        self._sealed = self._journal.number - 1
        # Where the log was at which write; and up to where it is on disk.
        self._log: deque[tuple[int, Position]] = deque()
        self.on_disk = Position()
        # The last entry that somebody waits for until half of the primaries have it in memory.
        self.urgent = Position()
        self.is_awaited = False

    @property
    def has_disk(self) -> bool:
        return self._journal.has_disk

    def give(self, write: Write) -> None:
        """Have something written."""
        self.given += 1
        if self.has_disk:
            self.writes.append(write)
        else:
            self.done = self.given

    def take_writes(self) -> list[Write]:
        """What is to be written, in its order; it is the caller's now."""
        if not self.writes:
            return []
        writes, self.writes = self.writes, []
        return writes

    def keep(self, entry: LogEntry) -> None:
        """An entry of the log, which now ends with it."""
        self.give(Keep(entry.kind, entry.position.epoch, entry.position.sequence, entry.body))
        self.checkpoints.kept(len(entry.body), entry)
        if self.has_disk:
            self._log.append((self.given, entry.position))
        else:
            self.on_disk = entry.position

    def log_is(self, position: Position) -> None:
        """The log was cut, or begun anew, and ends there; what is to be written of that is given."""
        self._log.clear()
        self.checkpoints.is_cut(position)
        if self.has_disk:
            # Not before the disk has followed.
            self.on_disk = min(self.on_disk, position)
            self._log.append((self.given, position))
        else:
            self.on_disk = position

    def restart(self) -> None:
        """A snapshot is in force: the store begins anew where the log does."""
        self.checkpoints.restart()
        self.log_is(self._cluster.replica.log.last)

    def stored(self, done: int) -> None:
        """So many writes are on disk, of all that were ever given."""
        self.done = done
        moved = False
        while self._log and self._log[0][0] <= done:
            self.on_disk = self._log.popleft()[1]
            moved = True
        if moved:
            # As root it counts first what is committed by that.
            self._cluster.leadership.role.is_on_disk()
        self._look()

    # -- batches

    def flush(self) -> None:
        """End the journal's batch, and make a checkpoint, if it is time to."""
        journal = self._journal
        is_full = len(self._own) + len(self._shared) >= UNDERWAY_MAX and journal.open_bytes < BATCH_BYTES_MAX
        if not journal.is_empty and (not is_full or self.is_awaited):
            self._seal()
        self.is_awaited = False
        self.checkpoints.flush(self._seal)
        self._relieve()

    def _seal(self) -> None:
        sealed = self._journal.seal(self._cluster.broker.wall_offset_ms)
        # What is this broker's own of a batch that was abandoned is in the next one.
        first, self._sealed = self._sealed + 1, sealed.number
        if sealed.own:
            self.give(Keep(OWN, 0, 0, sealed.own))
            self._own.append((first, self.given))
            self.checkpoints.kept(len(sealed.own))
        if sealed.shared:
            self._shared.append((sealed.number, self._cluster.leadership.role.add_work(sealed)))
            if sealed.is_urgent:
                self.urgent = self._shared[-1][1]
        self._look()

    def _relieve(self) -> None:
        """While messages take more memory than they should, let go of those that are on disk."""
        broker, library = self._cluster.broker, self._journal.library
        books = broker.books
        # Well before publishers would have to wait.
        bound = min(broker.limits.queue_memory_bytes, max(0, books.high_bytes - books.base_bytes) // 2)
        if books.held_bytes > bound and library.source is not None:
            library.relieve(books.held_bytes - bound, self.done)

    def begin_reign(self, opening: Position) -> list[Change]:
        """What did not outlive this broker of one, for the log: once, when its reign begins with that entry.

        What this log has from before may be in no other. A repetition of it waits for the open batch, which tells
        nothing of that: so that batch is nowhere before the opening is.
        """
        if not self._cluster.links.is_alone and opening > self._cluster.commit_index.disk:
            self._shared.append((self._journal.number, opening))
        passing, self.passing = self.passing, []
        return passing

    def abandon(self) -> tuple[list[tuple[Queue, QueueEntry]], list[tuple[Queue, QueueEntry]]]:
        """As root no more: what entered by the open batch is in no log, and what left by it is still in there."""
        self._shared.clear()
        return self._journal.abandon()

    def oldest(self, place: int) -> int:
        """The oldest batch that is not on this broker's own disk, or on those of half of the primaries; 0 for none."""
        waiting = self._own if place == ON_OWN_DISK else self._shared
        return waiting[0][0] if waiting else 0

    def refuse(self, place: int) -> None:
        """What waits for its batch to come there is told no; it may come there yet."""
        if not self._journal.is_empty:
            self._seal()
        self._journal.refuse(place, self._sealed)

    def moved(self) -> None:
        """More brokers have more of the log."""
        if self._shared:
            self._look()

    def _look(self) -> None:
        """Tell the journal how far its batches have come."""
        journal, own, shared = self._journal, self._own, self._shared
        while own and own[0][1] <= self.done:
            own.popleft()
        journal.advance(ON_OWN_DISK, own[0][0] - 1 if own else self._sealed)
        committed = self._cluster.commit_index
        while shared and shared[0][1] <= committed.disk:
            shared.popleft()
        journal.advance(ON_DISKS, shared[0][0] - 1 if shared else self._sealed)
        in_memories = committed.memory
        held = next((number - 1 for number, position in shared if position > in_memories), self._sealed)
        journal.advance(IN_MEMORIES, held)
