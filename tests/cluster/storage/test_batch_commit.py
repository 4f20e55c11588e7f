"""The journal's batches: each is confirmed where it must be, and no earlier."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from openclust.broker.journal.journal import Journal, Sealed
from openclust.broker.model.outcome import IN_MEMORIES, ON_DISKS, ON_OWN_DISK
from openclust.cluster.log.commit_index import CommitIndex
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.leadership import Leadership
from openclust.cluster.protocol.status import Position
from openclust.cluster.storage.batch_commit import BatchCommit, BatchRole
from openclust.cluster.storage.log_store import LogStore
from openclust.cluster.storage.store_writes import StoreWrites
from tests.support.client import Client, new_broker

WAIT_MS = 30_000


class RootLog:
    """A role that takes batches into a log, and notes when more of that is on disk."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.stored = 0

    def add_work(self, batch: Sealed) -> Position:
        self.batches.append(batch.number)
        return Position(1, len(self.batches))

    def is_on_disk(self) -> None:
        self.stored += 1


class Committing:
    """A root with a disk, whose followers hold what `commit_index` says."""

    def __init__(self) -> None:
        self.broker = new_broker(journal=Journal("shared", has_disk=True))
        self.journal = self.broker.journal
        self.log = RootLog()
        self.commit_index = CommitIndex()
        leadership: Leadership[BatchRole] = Leadership()
        leadership.role = self.log
        self.writes = StoreWrites(self.journal)
        nothing: Any = SimpleNamespace(kept=lambda *_: None, is_cut=lambda _: None)
        self.sender = SimpleNamespace(awaits_batch=False)
        replica: Any = SimpleNamespace(sender=self.sender, is_installing=False)
        disk_health: Any = SimpleNamespace(look=lambda _: WAIT_MS, illness="")
        links: Any = SimpleNamespace(is_alone=False)
        self.batch_commit = BatchCommit(
            self.broker,
            links,
            leadership,
            self.writes,
            LogStore(self.writes, nothing),
            nothing,
            disk_health,
            replica,
            self.commit_index,
            Bounds(root_wait_ms=WAIT_MS),
        )
        self.client = Client(self.broker)
        self.client.queue("shared", durable=True)
        self.client.queue("own", durable=True, x_replicate="configuration")

    def publish(self, queue: str = "shared", *, mode: int = 2) -> int:
        """Publish a message; the number of the batch that it is in."""
        number = self.journal.number
        self.client.publish(queue, b"x", delivery_mode=mode)
        return number

    def sealed(self, queue: str = "shared") -> int:
        number = self.publish(queue)
        self.batch_commit.flush()
        return number

    def commit(self, memory: int, disk: int = 0) -> None:
        self.commit_index.advance(Position(1, memory), Position(1, disk) if disk else Position())
        self.batch_commit.moved()

    def places(self, number: int) -> list[int]:
        """The places to which a batch has come."""
        return [place for place in (ON_OWN_DISK, IN_MEMORIES, ON_DISKS) if self.journal.has(number, place)]


def test_a_batch_in_the_log_comes_to_memories_and_then_to_disks() -> None:
    it = Committing()
    number = it.sealed()
    assert it.log.batches == [number]
    assert IN_MEMORIES not in it.places(number) and ON_DISKS not in it.places(number)
    it.commit(1)
    assert IN_MEMORIES in it.places(number) and ON_DISKS not in it.places(number)
    it.commit(1, 1)
    assert IN_MEMORIES in it.places(number) and ON_DISKS in it.places(number)


def test_a_batch_of_this_broker_alone_waits_for_its_own_disk_only() -> None:
    it = Committing()
    number = it.sealed("own")
    assert it.log.batches == [] and it.places(number) == [IN_MEMORIES, ON_DISKS]
    it.batch_commit.stored(it.writes.given)
    assert ON_OWN_DISK in it.places(number)
    assert it.log.stored == 0, "nothing of the log came to the disk"


def test_what_happens_while_a_batch_waits_makes_one_batch() -> None:
    it = Committing()
    first = it.sealed()
    second = it.sealed()
    assert it.sealed() == second and it.log.batches == [first], "it is still open"
    it.commit(1, 1)
    it.batch_commit.flush()
    assert it.log.batches == [first, second]


def test_a_follower_that_needs_the_end_of_the_open_batch_gets_it() -> None:
    it = Committing()
    first = it.sealed()
    it.sender.awaits_batch = True
    second = it.sealed()
    assert it.log.batches == [first, second] and not it.sender.awaits_batch


def test_a_reign_begins_with_a_batch_that_waits_for_its_opening() -> None:
    it = Committing()
    it.commit_index.advance(Position(1, 5), Position(1, 5))
    assert it.batch_commit.begin_reign(Position(2, 6)) == []
    number = it.journal.number
    it.batch_commit.moved()
    assert not it.journal.has(number, ON_DISKS)
    it.commit_index.advance(Position(2, 6), Position(2, 6))
    it.batch_commit.moved()
    it.sealed("own")
    assert it.journal.has(number, ON_DISKS)


def test_who_is_root_no_more_confirms_nothing_that_waits_though_it_is_committed_later() -> None:
    it = Committing()
    number = it.sealed()
    it.batch_commit.abandon()
    it.commit(1, 1)
    assert it.places(number) == [ON_OWN_DISK]
    assert it.journal.has_lost(number, ON_DISKS)


def test_who_waits_too_long_is_refused() -> None:
    it = Committing()
    number = it.sealed()
    it.batch_commit.look_at_disk("")
    assert not it.journal.has_lost(number, ON_DISKS), "it was not the oldest yet"
    it.batch_commit.look_at_disk("")
    assert it.journal.has_lost(number, ON_DISKS)
