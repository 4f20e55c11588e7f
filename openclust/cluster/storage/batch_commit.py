"""Seals the journal's batches, gives them to the store and the log, and tells the journal where each has come to."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from openclust.broker.journal.store_rows import Keep
from openclust.broker.model.outcome import IN_MEMORIES, ON_DISKS, ON_OWN_DISK

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry as QueueEntry
    from openclust.broker.journal.journal import Sealed
    from openclust.broker.model.changes import Change
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.log.replica import Replica
    from openclust.cluster.protocol.bounds import Bounds
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.protocol.status import Position
    from openclust.cluster.storage.checkpointing import Checkpointing
    from openclust.cluster.storage.disk_health import DiskHealth
    from openclust.cluster.storage.log_store import LogStore
    from openclust.cluster.storage.store_writes import StoreWrites

UNDERWAY_MAX = 1
"""So many batches may wait for disks or followers. What happens meanwhile goes into the next one, which is larger."""
BATCH_BYTES_MAX = 1_048_576
"""A batch of so many bytes is sealed however many wait."""
OWN = "own"
"""The kind of rows that are no entries of the log: work that only this broker keeps."""


class BatchRole(Protocol):
    """What the role in force does with batches."""

    def add_work(self, batch: Sealed) -> Position:
        """As root: put a batch into the log; the position that it has there."""

    def is_on_disk(self) -> None:
        """More of the log is on this broker's disk."""


class BatchCommit:
    """Call `flush` at the end of a turn, `stored` when the disk has done something, `moved` when more is committed.

    Work that only this broker keeps waits for `StoreWrites.done`, work in the log for the `CommitIndex`.
    """

    def __init__(
        self,
        broker: Broker,
        links: Links,
        leadership: Leadership[BatchRole],
        writes: StoreWrites,
        log_store: LogStore,
        checkpoints: Checkpointing,
        disk_health: DiskHealth,
        replica: Replica,
        commit_index: CommitIndex,
        bounds: Bounds,
    ) -> None:
        self._broker = broker
        self._journal = broker.journal
        self._links = links
        self._leadership = leadership
        self._writes = writes
        self._log_store = log_store
        self._checkpoints = checkpoints
        self._disk_health = disk_health
        self._replica = replica
        self._commit_index = commit_index
        self._wait_ms = bounds.root_wait_ms
        # Changes that were made here before the first reign: the log gets them when it begins.
        self.passing: list[Change] = []
        # Batches that wait. Of work that only this broker keeps: the first batch in a row, and the number of its write.
        # Of work in the log: the batch, and its position.
        self._own: deque[tuple[int, int]] = deque()
        self._shared: deque[tuple[int, Position]] = deque()
        self._sealed = self._journal.number - 1
        # For each place that batches wait for: the oldest batch that waits, and for how long it has been the oldest.
        self._oldest: dict[int, tuple[int, int]] = {}

    def stored(self, done: int) -> None:
        """So many writes are on disk, of all that were ever given."""
        self._writes.done = done
        if self._log_store.stored():
            # A root counts first what is committed by that.
            self._leadership.role.is_on_disk()
        self._look()

    # -- batches

    def flush(self) -> None:
        """Seal the journal's batch, and make a checkpoint, if it is time to."""
        journal, sender = self._journal, self._replica.sender
        if not journal.is_empty:
            is_full = len(self._own) + len(self._shared) >= UNDERWAY_MAX and journal.open_bytes < BATCH_BYTES_MAX
            if not is_full or sender.awaits_batch:
                self._seal()
        sender.awaits_batch = False
        if journal.page_store.source is not None:
            if not self._replica.is_installing:
                self._checkpoints.flush(self._seal)
            self._relieve()

    def _seal(self) -> None:
        sealed = self._journal.seal(self._broker.wall_offset_ms)
        # Work that only this broker keeps, of a batch that was abandoned, is in the next batch.
        first, self._sealed = self._sealed + 1, sealed.number
        if sealed.own:
            self._writes.give(Keep(OWN, 0, 0, sealed.own))
            self._own.append((first, self._writes.given))
            self._checkpoints.kept(len(sealed.own))
        if sealed.shared:
            self._shared.append((sealed.number, self._leadership.role.add_work(sealed)))
        self._look()

    def _relieve(self) -> None:
        """While messages take too much memory, drop those from memory that are on disk. There must be a store."""
        broker, page_store = self._broker, self._journal.page_store
        accounts = broker.memory_accounts
        # Well before publishers would have to wait.
        bound = min(broker.limits.queue_memory_bytes, max(0, accounts.high_bytes - accounts.base_bytes) // 2)
        if accounts.held_bytes > bound:
            page_store.relieve(accounts.held_bytes - bound, self._writes.done)

    def begin_reign(self, opening: Position) -> list[Change]:
        """A reign of this broker begins with that opening entry: returns the changes that the log must get first.

        Entries of an earlier epoch may exist on this broker only. A client's repeat of such an entry waits for the open
        batch of the journal: that batch counts as committed only when the opening entry of this epoch is.
        """
        if not self._links.is_alone and opening > self._commit_index.disk:
            self._shared.append((self._journal.number, opening))
        passing, self.passing = self.passing, []
        return passing

    def abandon(self) -> tuple[list[tuple[Queue, QueueEntry]], list[tuple[Queue, QueueEntry]]]:
        """As root no more: the messages that came by the open batch, which no log has, and those that left by it."""
        self._shared.clear()
        return self._journal.abandon()

    def look_at_disk(self, failure: str) -> None:
        """Every heartbeat, and when writes begin to fail or go on: `failure` is why they fail, empty if they do not.

        Whoever waits for a disk has an end of it. What is refused may come there yet, and be there twice then.
        """
        passed_ms = self._disk_health.look(failure)
        for place, waiting in ((ON_OWN_DISK, self._own), (ON_DISKS, self._shared)):
            self._refuse_overdue(place, waiting[0][0] if waiting else 0, passed_ms)

    def _refuse_overdue(self, place: int, oldest: int, passed_ms: int) -> None:
        """Refuse what waits, where `oldest`, the first batch that has not come to that place, has waited too long."""
        before, since_ms = self._oldest.get(place, (0, 0))
        since_ms = since_ms + passed_ms if oldest and oldest == before else 0
        self._oldest[place] = oldest, since_ms
        if oldest and since_ms >= self._wait_ms:
            self._oldest[place] = oldest, 0
            where = "this broker's disk" if place == ON_OWN_DISK else "the disks of half of the primaries"
            reason = f"; {self._disk_health.illness}" if self._disk_health.illness else ""
            text = f"nothing came to {where} for {self._wait_ms} ms: what waits to be confirmed is refused{reason}"
            self._broker.note("error", text)
            if not self._journal.is_empty:
                self._seal()
            self._journal.refuse(place, self._sealed)

    def moved(self) -> None:
        """More of the log is committed."""
        if self._shared:
            self._look()

    def _look(self) -> None:
        """Tell the journal how far its batches have come."""
        journal, own, shared = self._journal, self._own, self._shared
        while own and own[0][1] <= self._writes.done:
            own.popleft()
        journal.advance(ON_OWN_DISK, own[0][0] - 1 if own else self._sealed)
        while shared and shared[0][1] <= self._commit_index.disk:
            shared.popleft()
        journal.advance(ON_DISKS, shared[0][0] - 1 if shared else self._sealed)
        in_memories = self._commit_index.memory
        held = next((number - 1 for number, position in shared if position > in_memories), self._sealed)
        journal.advance(IN_MEMORIES, held)
