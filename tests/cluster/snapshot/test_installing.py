"""A snapshot is put to use with little of it in memory, and the store has the old state or the new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from openclust.broker.backlog import page as page_module
from openclust.broker.journal.store_rows import Ahead, Restart
from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import DeclareQueue
from openclust.broker.queues.queue import Queue
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.messages import Enlist, Snapshot
from openclust.cluster.protocol.status import Position, Reign
from openclust.cluster.roles.follower import Follower as FollowerRole
from openclust.cluster.snapshot import contents, installing
from openclust.cluster.snapshot.contents import Passing
from tests.cluster.test_checkpoints import Life, bodies, drain, publish
from tests.simulator.store import ModelStore

COUNT = 400
FROM = "p9"
PRIMARIES = ("b", FROM, "p8")


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "PAGE_BYTES", 300)
        patch.setattr(contents, "PART_BYTES", 1_000)
        patch.setattr(installing, "AHEAD_MAX", 3)
        yield


@pytest.fixture
def parts() -> list[Snapshot]:
    """Of another broker, with other messages at the same places."""
    root = filled(ModelStore(), range(1_000, 1_000 + COUNT))
    passing = Passing(root.broker)
    works = [work for work in iter(passing.next, None) if work]
    definitions = list(root.membership.replica.definitions.in_passing())
    assert len(works) > 20
    return snapshot(definitions, works)


def snapshot(definitions: list[Any], works: list[bytes]) -> list[Snapshot]:
    messages = [Snapshot(epoch=7, part=0, changes=list(map(encode_change, definitions)), is_last=False)]
    messages += [Snapshot(epoch=7, part=at, work=work, is_last=False) for at, work in enumerate(works, 1)]
    return [*messages, Snapshot(epoch=7, part=len(messages), position=Position(7, 900), uuid="u")]


def filled(store: ModelStore, numbers: range) -> Life:
    """A root, and what it has of one queue."""
    root = Life(store, peer="b:5673")
    assert root.membership.is_root
    publish(root.declare("q"), *numbers)
    root.membership.checkpoints.is_wanted = True
    root.turn()
    return root


def revived(store: ModelStore) -> Life:
    """It has died, and begins again."""
    store.opened()
    return Life(store, peer="b:5673", primaries=PRIMARIES)


class Follower(Life):
    """With a full queue from a former reign, all of which a snapshot replaces; every turn is looked at."""

    def __init__(self) -> None:
        store = ModelStore()
        filled(store, range(COUNT))
        super().__init__(store, peer="b:5673", primaries=PRIMARIES)
        assert not self.membership.is_root and bodies(self.queue()) == before()
        # Whoever sends it is root.
        self.membership.become(FollowerRole(self.membership, Reign(7, FROM)))
        self.most = 0

    def hear(self, parts: list[Snapshot]) -> None:
        for part in parts:
            self.membership.replica.snapshot(FROM, part)
            self.one_turn()

    @property
    def is_installing(self) -> bool:
        return self.membership.replica.is_installing

    def in_memory(self) -> int:
        found = self.broker.vhosts["/"].queues.get("q")
        memory = getattr(found.backlog, "memory", found.backlog) if found is not None else ()
        return len(memory)

    def begin(self) -> None:
        """Until some of it is in pages."""
        for _ in range(100):
            if any(isinstance(each, Ahead) for each in self.given):
                return
            self.one_turn()
        raise AssertionError("no pages")

    def install(self) -> None:
        for _ in range(1_000):
            if not self.is_installing:
                return
            self.one_turn()
            self.most = max(self.most, self.in_memory())
        raise AssertionError("a snapshot without end")


def before() -> list[bytes]:
    return [b"%06d" % number for number in range(COUNT)]


def wanted() -> list[bytes]:
    return [b"%06d" % number for number in range(1_000, 1_000 + COUNT)]


def taken(queue: Queue) -> list[bytes]:
    return [entry.message.body for entry in drain(queue)]


def test_what_is_in_pages_leaves_memory_while_the_rest_is_put_to_use(parts: list[Snapshot]) -> None:
    follower = Follower()
    follower.hear(parts)
    follower.install()
    assert 0 < follower.most < COUNT / 5
    assert taken(follower.queue()) == wanted()


def test_with_its_end_the_store_has_it_all(parts: list[Snapshot]) -> None:
    follower = Follower()
    follower.hear(parts)
    follower.install()
    assert any(isinstance(each, Ahead) for each in follower.given)
    (restart,) = [each for each in follower.given if isinstance(each, Restart)]
    assert restart.kept
    again = revived(follower.store)
    assert again.membership.replica.position == Position(7, 900)
    assert taken(again.queue()) == wanted()


def test_who_dies_before_its_end_has_what_was_before(parts: list[Snapshot]) -> None:
    follower = Follower()
    position = follower.membership.replica.position
    follower.hear(parts)
    turns = 0
    while follower.is_installing and turns < 12:
        follower.one_turn()
        turns += 1
    assert follower.is_installing and any(isinstance(each, Ahead) for each in follower.given)
    again = revived(follower.store)
    assert again.membership.replica.position >= position
    assert bodies(again.queue()) == before()


def test_a_part_is_told_of_when_it_is_on_disk(parts: list[Snapshot], monkeypatch: pytest.MonkeyPatch) -> None:
    """Though so much waits for the disk that no entry of the log would be taken."""
    follower = Follower()
    told: list[int] = []
    monkeypatch.setattr(follower.membership.links, "send", lambda _, message: told.append(message.parts))
    for part in parts[:6]:
        follower.membership.replica.snapshot(FROM, part)
        follower.one_turn(is_told=False)
        follower.membership.disk_health.is_full = True
    # Definitions are in no file.
    assert told == [1]
    batch_commit, writes = follower.membership.batch_commit, follower.membership.store_writes
    batch_commit.stored(writes.given - 2)
    follower.one_turn(is_told=False)
    assert told == [1, 4]
    batch_commit.stored(writes.given)
    follower.one_turn(is_told=False)
    assert told == [1, 4, 6]


def test_what_is_on_its_way_to_the_disk_is_not_asked_for_again(
    parts: list[Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower()
    sent: list[object] = []
    monkeypatch.setattr(follower.membership.links, "send", lambda _, message: sent.append(message))
    replica, batch_commit = follower.membership.replica, follower.membership.batch_commit
    writes = follower.membership.store_writes
    for part in parts[:6]:
        replica.snapshot(FROM, part)
        follower.one_turn(is_told=False)
    for _ in range(200):
        follower.broker.set_clock(follower.broker.now_ms + 100, follower.broker.now_ms + 5_000_100)
        follower.membership.role.root_is_at(Position(7, 900))
    assert not any(isinstance(each, Enlist) for each in sent)
    batch_commit.stored(writes.given)
    follower.one_turn()
    for _ in range(200):
        follower.broker.set_clock(follower.broker.now_ms + 100, follower.broker.now_ms + 5_000_100)
        follower.membership.role.root_is_at(Position(7, 900))
    assert any(isinstance(each, Enlist) for each in sent), "nothing more has come"


def test_no_snapshot_begins_while_too_much_waits_for_the_disk(parts: list[Snapshot]) -> None:
    follower = Follower()
    follower.membership.disk_health.is_full = True
    follower.hear(parts)
    assert not follower.is_installing and bodies(follower.queue()) == before()
    follower.membership.disk_health.is_full = False
    follower.hear(parts)
    follower.install()
    assert taken(follower.queue()) == wanted()


def test_it_waits_for_a_disk_that_is_behind(parts: list[Snapshot]) -> None:
    follower = Follower()
    follower.hear(parts)
    follower.begin()
    follower.given.clear()
    for _ in range(50):
        follower.one_turn(is_told=False)
    assert follower.is_installing and not follower.membership.replica.is_busy
    assert sum(isinstance(each, Ahead) for each in follower.given) < 2 * installing.AHEAD_MAX
    follower.membership.batch_commit.stored(follower.membership.store_writes.given)
    assert follower.membership.replica.is_busy
    follower.install()
    assert taken(follower.queue()) == wanted()


def test_what_the_log_told_meanwhile_is_in_pages_too(parts: list[Snapshot]) -> None:
    """It adds a queue."""
    *most, last = parts
    declared = DeclareQueue(vhost="/", name="late", durable=True, auto_delete=False, arguments={})
    entries = [told(901, declared)]
    follower = Follower()
    more = Snapshot(epoch=7, part=last.part, entries=entries, is_last=False)
    end = Snapshot(epoch=7, part=last.part + 1, position=Position(7, 901), uuid="u")
    follower.hear([*most, more, end])
    follower.install()
    again = revived(follower.store)
    assert again.queue("late").durable
    assert taken(again.queue()) == wanted()


def told(sequence: int, change: DeclareQueue) -> LogEntry:
    return LogEntry(Position(7, sequence), "change", encode_change(change))


def test_a_part_that_cannot_be_read_leaves_nothing_that_counts(parts: list[Snapshot]) -> None:
    follower = Follower()
    follower.hear(parts)
    follower.begin()
    follower.store._spool.clear()
    follower.install()
    assert follower.membership.replica.position == Position()
    assert taken(follower.queue()) == []
    again = revived(follower.store)
    assert again.membership.replica.position == Position() and taken(again.queue()) == []
