"""A broker that dies at any moment begins with what it had: rows, checkpoints, pages in memory and pages on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from openclust.broker.backlog import page as page_module
from openclust.broker.backlog.backlog import Entry
from openclust.broker.backlog.paged_backlog import PagedBacklog
from openclust.broker.journal import queue_notes as queue_notes_module
from openclust.broker.journal.journal import Journal
from openclust.broker.journal.store_rows import Checkpoint, Restart
from openclust.broker.model.changes import DeclareQueue, DeleteQueue, PutPolicy
from openclust.broker.model.limits import Limits
from openclust.broker.model.message import Message, delivery_suffix
from openclust.broker.model.policy import Policy
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.cluster.election.events import StoreRead
from openclust.cluster.election.view import Terms, begin
from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.hello import Hello
from openclust.node import Node
from openclust.wire.properties import Properties, encode_header
from tests.simulator.store import ModelStore
from tests.support.driver import Driver
from tests.support.examples import examples


@pytest.fixture(autouse=True, scope="module")
def _small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "PAGE_BYTES", 300)
        patch.setattr(queue_notes_module, "KEYS_PAGE_FULL", 6)
        yield


SMALL = Bounds(checkpoint_bytes=2_000, checkpoint_messages=8, slice_max=3)


class Life:
    """A broker between its start and its sudden end, of one, or of a cluster that has a `peer` address.

    Of several `primaries` it is one that follows, if anything.
    """

    def __init__(
        self,
        store: ModelStore,
        *,
        bounds: Bounds = SMALL,
        memory: int = 0,
        now_ms: int = 1_000_000,
        primaries: tuple[str, ...] = ("b",),
        peer: str = "",
    ) -> None:
        self.store = store
        self.broker = Broker(
            Limits(queue_memory_bytes=memory), random_name=lambda: "name", name="b", journal=Journal(has_disk=True)
        )
        self.broker.set_clock(now_ms, now_ms + 5_000_000)
        terms = Terms(primaries=primaries, heartbeat_ms=60, start_grace_ms=0)
        hello = Hello(cluster_key="k", name="b", primaries=tuple(sorted(primaries)), heartbeat_ms=60, peer=peer)
        election = begin(terms, "b", now_ms, now_ms, None)
        self.membership = Membership(self.broker, hello, "s", election, bounds=bounds)
        self.driver = Driver(self.broker, Node(self.broker, self.membership))
        self.membership.recover(store.contents(), store)
        self.membership.tell(StoreRead(now_ms))
        self.given: list[Any] = []
        self.turn()

    def turn(self) -> None:
        """As many as it needs to rest."""
        for _ in range(100):
            self.one_turn()
            if not self.membership.checkpoints.is_busy:
                return
        raise AssertionError("a checkpoint without end")

    def one_turn(self, *, is_told: bool = True) -> None:
        """What is written is on disk; perhaps the broker is not told yet."""
        self.driver.turn()
        writes, self.driver.writes = self.driver.writes, []
        self.given += writes
        self.store.perform(writes)
        if is_told:
            self.membership.batch_commit.stored(self.membership.store_writes.given)

    def declare(self, name: str, *, durable: bool = True, **arguments: Any) -> Queue:
        change = DeclareQueue(
            vhost="/",
            name=name,
            durable=durable,
            auto_delete=False,
            arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()},
        )
        self.broker.define(change)
        self.turn()
        return self.queue(name)

    def queue(self, name: str = "q") -> Queue:
        return self.broker.vhosts["/"].queues[name]

    def checkpoints(self) -> list[Checkpoint]:
        return [each for each in self.given if isinstance(each, Checkpoint)]


def message(body: bytes, *, persistent: bool = True, **properties: Any) -> Message:
    header = encode_header(Properties(delivery_mode=2 if persistent else None, **properties), len(body))
    return Message("", "q", header, body, delivery_suffix("", "q"))


def bodies(queue: Queue) -> list[bytes]:
    return [entry.message.body for entry in queue.backlog]


def publish(queue: Queue, *numbers: int, **properties: Any) -> None:
    for number in numbers:
        queue.publish(message(b"%06d" % number, **properties))


def drain(queue: Queue) -> list[Entry]:
    found = []
    while (entry := queue.get(no_ack=False)) is not None:
        found.append(entry)
    return found


# -- what a checkpoint does


def test_rows_do_not_pile_up_and_all_is_there_after_a_restart() -> None:
    store = ModelStore()
    life = Life(store)
    queue = life.declare("q")
    for number in range(300):
        publish(queue, number)
        life.turn()
    assert len(life.checkpoints()) > 20
    assert len(store.contents().rows) < 20
    again = Life(store).queue()
    assert len(again) == 300
    assert again.ready_bytes == 6 * 300
    assert bodies(again) == [b"%06d" % number for number in range(300)]


def test_messages_that_come_and_go_between_two_checkpoints_are_in_no_page() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    before = len(life.checkpoints())
    for number in range(100):
        publish(queue, number)
        life.turn()
        entry = queue.get(no_ack=False)
        assert entry is not None
        queue.forget(entry)
        life.turn()
    made = life.checkpoints()[before:]
    assert len(made) > 5
    assert sum(page.count for each in made for page in each.pages) < 20
    assert sum(info.count for info in life.store.contents().pages) < 5


def test_what_consumers_hold_is_in_pages_too() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    publish(queue, *range(5))
    held = [queue.get(no_ack=False) for _ in range(2)]
    publish(queue, *range(5, 50))
    life.turn()
    assert held[0] is not None and life.checkpoints()
    again = Life(life.store).queue()
    found = drain(again)
    assert [entry.message.body for entry in found] == [b"%06d" % number for number in range(50)]
    assert [bool(entry.deliveries) for entry in found[:3]] == [True, True, False]


def test_the_place_of_the_newest_message_is_kept_when_it_is_gone() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    publish(queue, *range(50))
    for entry in drain(queue):
        queue.forget(entry)
    life.turn()
    publish(queue, *range(20))
    life.turn()
    assert queue.purge() == 20
    life.declare("other")
    life.turn()
    again = Life(life.store).queue()
    assert (again.next_seq, again.reached, len(again)) == (70, 50, 0)


def test_a_dedup_window_outlives_checkpoints_and_restarts() -> None:
    life = Life(ModelStore())
    queue = life.declare("q", message_deduplication=True, deduplication_size=30)
    for number in range(100):
        publish(queue, number, message_id=f"m{number}")
        life.turn()
    queue.purge()
    life.turn()
    for _ in range(2):
        life = Life(life.store)
        queue = life.queue()
        assert queue.dedup is not None and len(queue.dedup) == 30
        assert "m99" in queue.dedup and "m70" in queue.dedup and "m69" not in queue.dedup
        publish(queue, 99, message_id="m99")
        assert not len(queue)
    slips = [info for info in life.store.contents().pages if info.queue and not info.count]
    assert len(slips) <= 6, "what is not in the window any more is gone from the store"


def test_deliveries_in_vain_are_counted_across_checkpoints() -> None:
    life = Life(ModelStore())
    queue = life.declare("q", queue_type="quorum", delivery_limit=10)
    publish(queue, *range(30))
    life.turn()
    for _ in range(3):
        entry = queue.get(no_ack=False)
        assert entry is not None and entry.message.body == b"000000"
        queue.put_back(entry)
        life.turn()
    publish(queue, *range(30, 60))
    life.turn()
    publish(queue, *range(60, 90))
    life.turn()
    entry = Life(life.store).queue().get(no_ack=False)
    assert entry is not None and entry.deliveries == 3


def test_a_deleted_queue_leaves_no_pages() -> None:
    life = Life(ModelStore())
    queue = life.declare("q", message_deduplication=True)
    publish(queue, *range(50), message_id="x")
    for number in range(50):
        publish(queue, number, message_id=f"{number}")
    life.turn()
    assert any(info.queue == "q" for info in life.store.contents().pages)
    life.broker.define(DeleteQueue(vhost="/", name="q"))
    other = life.declare("other")
    publish(other, *range(20))
    life.turn()
    assert not any(info.queue == "q" for info in life.store.contents().pages)


def test_a_queue_with_the_name_of_another_begins_anew() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    publish(queue, *range(50))
    drain(queue)
    life.turn()
    life.broker.define(DeleteQueue(vhost="/", name="q"))
    life.declare("q")
    publish(life.declare("other"), *range(20))
    life.turn()
    again = Life(life.store).queue()
    assert (again.next_seq, again.reached) == (0, 0)
    publish(again, 7)
    assert [entry.deliveries for entry in drain(again)] == [0]


def test_a_policy_that_keeps_nothing_of_a_queue_takes_it_out_of_the_store() -> None:
    life = Life(ModelStore())
    queue = life.declare("q", durable=True)
    publish(queue, *range(50))
    life.turn()
    life.turn()
    assert isinstance(queue.backlog, PagedBacklog) and queue.backlog.page_index.unloaded_count
    queue.durable = False  # as if it had never been
    queue.follow(queue.settings)
    life.turn()
    other = life.declare("other")
    publish(other, *range(20))
    life.turn()
    assert bodies(queue) == [b"%06d" % number for number in range(50)]
    assert not any(info.queue == "q" for info in life.store.contents().pages)


def test_definitions_are_written_only_when_they_have_changed() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    for number in range(40):
        publish(queue, number)
        life.turn()
    told = [each.definitions is not None for each in life.checkpoints()]
    assert told.count(True) == 1
    policy = Policy(vhost="/", name="p", pattern="^x", apply_to="queues", priority=0, definition={"max-length": 5})
    life.broker.define(PutPolicy(vhost="/", policy=policy))
    for number in range(40):
        publish(queue, number)
        life.turn()
    assert [each.definitions is not None for each in life.checkpoints()].count(True) == 2
    life = Life(life.store)
    assert [each.name for each in life.broker.policies.list()] == ["p"]


def test_a_definition_that_changes_while_all_are_taken_is_in_the_checkpoint() -> None:
    life = Life(ModelStore())
    publish(life.declare("q"), *range(20))
    for number in range(20):
        life.broker.define(DeclareQueue(vhost="/", name=f"q{number}", durable=True, auto_delete=False, arguments={}))
    checkpointing = life.membership.checkpoints
    life.one_turn()
    assert checkpointing.is_busy
    policy = Policy(vhost="/", name="p", pattern="^x", apply_to="queues", priority=0, definition={"max-length": 5})
    life.broker.define(PutPolicy(vhost="/", policy=policy))
    life.broker.define(DeleteQueue(vhost="/", name="q19"))
    life.turn()
    assert life.checkpoints()[-1].definitions
    again = Life(life.store)
    assert [each.name for each in again.broker.policies.list()] == ["p"]
    assert sorted(again.broker.vhosts["/"].queues) == sorted(["q", *(f"q{number}" for number in range(19))])


def test_what_the_journal_has_open_is_told_with_the_checkpoint() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    for number in range(2):
        publish(queue, number)
        life.one_turn(is_told=False)
    entry = queue.get(no_ack=False)
    assert entry is not None
    queue.forget(entry)
    publish(queue, 2)
    life.one_turn(is_told=False)
    assert not life.broker.journal.is_empty, "two batches are under way"
    life.membership.checkpoints.is_wanted = True
    life.one_turn(is_told=False)
    assert life.checkpoints()
    assert bodies(Life(life.store).queue()) == [b"000001", b"000002"]


def test_the_name_of_the_cluster_outlives_the_row_that_told_it() -> None:
    life = Life(ModelStore())
    uuid = life.membership.cluster_uuid.uuid
    publish(life.declare("q"), *range(40))
    life.turn()
    assert not any(kept.row.kind == "opening" for kept in life.store.contents().rows)
    assert uuid and Life(life.store).membership.cluster_uuid.uuid == uuid


@pytest.mark.parametrize(
    "arguments", [{"max_priority": 5}, {"last_value_key": "k"}], ids=["by priority", "the last value of each key"]
)
def test_other_orders_come_back_from_pages_too(arguments: dict[str, Any]) -> None:
    life = Life(ModelStore())
    queue = life.declare("q", **arguments)
    for number in range(60):
        publish(queue, number, priority=number % 4, headers={"k": f"v{number % 7}"})
    life.turn()
    publish(queue, 60, priority=1, headers={"k": "v1"})
    life.turn()
    again = Life(life.store).queue()
    assert bodies(again) == bodies(queue)
    assert again.ready_bytes == queue.ready_bytes


def test_what_a_newer_value_replaces_on_a_follower_stays_away() -> None:
    life = Life(ModelStore())
    life.broker.journal.mode = "shared"
    queue = life.declare("q", last_value_key="k")
    life.broker.journal.is_in_charge = False
    for seq in range(1, 31):
        queue.restore(Entry(message(b"%06d" % seq, headers={"k": f"v{seq % 2}"}), seq, recorded=1))
        if seq % 10 == 0:
            life.turn()
    assert life.checkpoints()
    assert bodies(queue) == bodies(Life(life.store).queue()) == [b"000029", b"000030"]


def test_what_a_newer_value_replaced_while_it_was_delivered_does_not_come_back() -> None:
    life = Life(ModelStore())
    queue = life.declare("q", last_value_key="k")
    for number in range(3):
        publish(queue, number, headers={"k": f"v{number}"})
    held = drain(queue)
    publish(life.declare("other"), *range(20))
    life.turn()
    publish(queue, 3, headers={"k": "v1"})
    newest = queue.get(no_ack=False)
    assert newest is not None and len(held) == 3
    publish(life.queue("other"), *range(20))
    life.turn()
    queue.forget(newest)
    life.turn()
    assert bodies(Life(life.store).queue()) == [b"000000", b"000002"]


def test_after_a_snapshot_all_is_told_anew_in_the_same_turn() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    publish(queue, *range(100))
    held = queue.get(no_ack=False)
    life.turn()
    life.given.clear()
    life.membership.checkpoints.restart()
    assert held is not None
    kinds = [type(each) for each in life.membership.store_writes.take_writes()]
    assert kinds == [Restart, Checkpoint]
    life.turn()
    assert bodies(Life(life.store).queue()) == [b"%06d" % number for number in range(100)]


# -- memory


def test_what_is_in_pages_leaves_memory_but_for_the_head() -> None:
    life = Life(ModelStore(), memory=50_000)
    queue = life.declare("q")
    for number in range(2_000):
        queue.publish(message(b"%06d" % number + bytes(5_000)))
        life.turn()
    assert life.broker.memory_accounts.held_bytes < 1_200_000
    assert len(queue) == 2_000 and queue.ready_bytes == 5_006 * 2_000
    entry = queue.get(no_ack=False)
    assert entry is not None and entry.message.body[:6] == b"000000"
    queue.forget(entry)
    assert [each.message.body[:6] for each in drain(queue)] == [b"%06d" % number for number in range(1, 2_000)]


def test_a_page_that_cannot_be_read_keeps_its_queue_waiting_and_nothing_is_lost() -> None:
    life = Life(ModelStore())
    publish(life.declare("q"), *range(100))
    life.turn()
    life = Life(life.store)
    queue = life.queue()
    page_store = life.broker.journal.page_store

    class Broken:
        def page(self, number: int) -> bytes:
            raise OSError(5, "input/output error")

        def spooled(self, part: int) -> bytes:
            raise OSError(5, "input/output error")

    page_store.source = Broken()
    first = drain(queue)
    assert 0 < len(first) < 20, "the head had been read"
    assert len(queue) == 100 - len(first)
    publish(queue, 100)
    queue.dispatch()
    notes = [effect for effect in life.broker.effects if "cannot be read" in getattr(effect, "text", "")]
    assert len(notes) == 1
    page_store.source = life.store
    assert [each.message.body for each in first + drain(queue)] == [b"%06d" % number for number in range(101)]


# -- all of it at random

LESS = ["die", "recreate", "limit"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [*["publish"] * 3, *["get", "ack", "turn"] * 2, "transient", "expiring", "requeue", "purge", "later", *LESS]
        ),
        st.integers(0, 30),
    ),
    max_size=80,
)


class Story:
    """What must be in the queue, in its order: (number, whether it is kept, when it expires)."""

    def __init__(self) -> None:
        self.life = Life(ModelStore())
        self.now_ms = self.life.broker.now_ms
        self.queue = self.life.declare("q")
        self.number = 0
        self.ready: dict[int, tuple[bytes, bool, int]] = {}
        self.held: list[Entry] = []

    def step(self, step: str, pick: int) -> None:
        queue, broker = self.queue, self.life.broker
        if step in ("publish", "transient", "expiring"):
            for _ in range(pick % 7 + 1):
                self.number += 1
                body = b"%d" % self.number + bytes(pick)
                ttl = pick * 10 + 1 if step == "expiring" else 0
                expiration = {"expiration": str(ttl)} if ttl else {}
                queue.publish(message(body, persistent=step != "transient", **expiration))
                self.ready[queue.next_seq] = body, step != "transient", broker.now_ms + ttl if ttl else 0
        elif step == "get":
            for _ in range(pick % 5 + 1):
                self._expire()
                entry = queue.get(no_ack=False)
                assert (entry.seq if entry is not None else None) == min(self.ready, default=None)
                if entry is not None:
                    assert entry.message.body == self.ready.pop(entry.seq)[0]
                    self.held.append(entry)
        elif step == "ack" and self.held:
            queue.forget(self.held.pop(pick % len(self.held)))
        elif step == "requeue" and self.held:
            entry = self.held.pop(pick % len(self.held))
            self.ready[entry.seq] = entry.message.body, bool(entry.recorded), entry.expires_ms
            queue.put_back(entry)
            broker.tick(self.now_ms)
            self._expire()
        elif step == "turn":
            self.life.turn()
        elif step == "purge" and pick % 4 == 0:
            assert queue.purge() == len(self.ready)
            self.ready.clear()
        elif step == "later":
            self.now_ms += pick * 5
            broker.tick(self.now_ms)
            self._expire()
        elif step == "limit" and pick % 3 == 0:
            queue.backlog.peek()
            for _ in range(min(pick, len(queue))):
                victim = queue.backlog.drop_head()
                assert victim is not None
                queue.ready_bytes -= len(victim.message.body)
                queue.release(victim)
                del self.ready[victim.seq]
        elif step == "recreate" and pick == 7:
            broker.define(DeleteQueue(vhost="/", name="q"))
            self.ready, self.held = {}, []
            self.queue = self.life.declare("q")
        elif step == "die":
            self._die()
        assert len(self.queue) == len(self.ready)
        assert self.queue.ready_bytes == sum(len(body) for body, _, _ in self.ready.values())

    def _expire(self) -> None:
        """Only at the head, as it does."""
        for seq in sorted(self.ready):
            expires_ms = self.ready[seq][2]
            if not 0 < expires_ms <= self.life.broker.now_ms:
                return
            del self.ready[seq]
        self.queue.backlog.peek()

    def _die(self) -> None:
        self.life.turn()
        for entry in self.held:
            self.ready[entry.seq] = entry.message.body, bool(entry.recorded), entry.expires_ms
        self.held = []
        self.ready = {seq: each for seq, each in self.ready.items() if each[1]}
        newest = self.queue.next_seq
        self.life = Life(self.life.store, now_ms=self.now_ms)
        self.queue = self.life.queue()
        assert self.queue.next_seq <= newest
        self._expire()
        self.queue.on_deadline(self.now_ms)


@examples(60, suppress=list(HealthCheck))
@given(steps=STEPS)
def test_whatever_happens_the_queue_is_what_the_story_tells(steps: list[tuple[str, int]]) -> None:
    story = Story()
    for step, pick in steps:
        story.step(step, pick)
    story.step("die", 0)
    found = [(entry.seq, entry.message.body) for entry in story.queue.backlog]
    assert found == [(seq, story.ready[seq][0]) for seq in sorted(story.ready)]
    while story.ready:
        story.step("get", 0)
    assert story.queue.get(no_ack=False) is None
