"""A broker that follows another's journal holds the same, whatever is done to the queues of the first."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.journal.batch import apply_batch, decode_batch
from openclust.broker.journal.journal import KEPT, Journal
from openclust.broker.server.broker import Broker
from tests.support.client import Client, new_broker
from tests.support.driver import later, turn

QUEUES: dict[str, dict[str, Any]] = {
    "fifo": {},
    "priority": {"x_max_priority": 3},
    "ring": {"x_max_length": 3},
    "newest": {"x_last_value_key": "key"},
    "mortal": {"x_message_ttl": 300, "x_dead_letter_exchange": "", "x_dead_letter_routing_key": "fifo"},
    "once": {"x_message_deduplication": True},
    "tried": {"x_queue_type": "quorum", "x_delivery_limit": 2},
}
NAMES = sorted(QUEUES)
WALL_OFFSET_MS = 77


class Twins:
    """`leader` is in charge; `follower` is told its batches."""

    def __init__(self) -> None:
        self.leader = new_broker(journal=Journal("shared"))
        self.follower = new_broker(journal=Journal("shared"))
        # Their clocks differ, but not on what the wall's says.
        self.leader.wall_offset_ms = WALL_OFFSET_MS
        self.follower.now_ms += 5_000
        self.follower.wall_offset_ms = WALL_OFFSET_MS - 5_000
        self.clients = [Client(self.leader), Client(self.leader)]
        for client in (self.clients[0], Client(self.follower)):
            for name in NAMES:
                client.queue(name, durable=True, **QUEUES[name])
        self.follower.journal.abandon()
        self.published = 0

    def publish(self, name: str, priority: int, key: int, is_short: bool) -> None:
        self.published += 1
        more: dict[str, Any] = {"expiration": "200"} if is_short else {}
        self.clients[0].publish(
            name,
            b"%d" % self.published,
            priority=priority,
            headers={"key": key},
            message_id=str(self.published // 2),
            delivery_mode=2,
            **more,
        )

    def publish_to_all(self) -> None:
        for name in NAMES:
            self.clients[0].bind(name, "amq.fanout")
        self.published += 1
        self.clients[0].publish("", b"%d" % self.published, exchange="amq.fanout", delivery_mode=2)

    def consume(self, name: str, no_ack: bool) -> None:
        self.clients[1].consume(name, no_ack=no_ack)

    def settle(self, index: int, what: str) -> None:
        client = self.clients[1]
        tags = list(client.connection.channels[1].unacked)
        if tags:
            tag = tags[index % len(tags)]
            if what == "ack":
                client.ack(tag)
            else:
                client.nack(tag, requeue=what == "return")

    def get(self, name: str, no_ack: bool) -> None:
        self.clients[0].get(name, no_ack=no_ack)

    def leave(self, index: int) -> None:
        self.clients[index].lose()
        self.clients[index] = Client(self.leader)

    def purge(self, name: str) -> None:
        self.leader.vhosts["/"].queues[name].purge()

    def wait(self, ms: int) -> None:
        later(self.leader, ms)
        self.follower.now_ms += ms

    def seal(self) -> None:
        sealed = self.leader.journal.seal(self.leader.wall_offset_ms)
        if sealed.shared:
            apply_batch(self.follower, decode_batch(sealed.shared), KEPT)

    def compare(self) -> None:
        for name in NAMES:
            wanted = sorted(described(self.leader, name, self.leader.now_ms))
            found = sorted(described(self.follower, name, self.follower.now_ms))
            assert found == wanted, name
            queue = self.follower.vhosts["/"].queues[name]
            assert len(queue) == len(found)
            assert queue.ready_bytes == sum(len(each[1]) for each in found)
            ours, theirs = self.leader.vhosts["/"].queues[name].dedup, queue.dedup
            if ours is not None and theirs is not None:
                keys = {str(number) for number in range(self.published)}
                assert {key for key in keys if key in ours} == {key for key in keys if key in theirs}


def described(broker: Broker, name: str, now_ms: int) -> list[tuple[Any, ...]]:
    """All that a queue has, what is out at consumers too, unless a newer value has taken its place."""
    queue = broker.vhosts["/"].queues[name]
    entries = list(queue.backlog)
    for connection in broker.connections:
        for channel in connection.channels.values():
            entries += [item.entry for item in channel.unacked.values() if item.queue is queue and not item.entry.gone]
    return [
        (
            entry.seq,
            entry.message.body,
            entry.priority,
            entry.expires_ms and entry.expires_ms - now_ms,
            entry.deliveries,
            entry.message.routing_key,
            entry.message.header,
        )
        for entry in entries
    ]


def _steps(some: list[str]) -> st.SearchStrategy[tuple[Any, ...]]:
    names = st.sampled_from(some)
    publish = st.tuples(st.just("publish"), names, st.integers(0, 5), st.integers(0, 2), st.booleans())
    settle = st.tuples(st.just("settle"), st.integers(0, 9), st.sampled_from(("ack", "return", "reject")))
    return st.one_of(
        publish,
        publish,
        settle,
        settle,
        st.tuples(st.just("publish_to_all")),
        st.tuples(st.just("consume"), names, st.booleans()),
        st.tuples(st.just("get"), names, st.booleans()),
        st.tuples(st.just("leave"), st.integers(0, 1)),
        st.tuples(st.just("purge"), names),
        st.tuples(st.just("wait"), st.integers(1, 250)),
        st.tuples(st.just("seal")),
        st.tuples(st.just("seal")),
    )


# Few queues at a time, so that much happens to each.
histories = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).flatmap(
    lambda some: st.lists(_steps(some), max_size=60)
)


@given(histories)
def test_a_follower_holds_what_its_leader_holds(history: list[tuple[Any, ...]]) -> None:
    twins = Twins()
    for name, *arguments in history:
        getattr(twins, name)(*arguments)
    turn(twins.leader)
    twins.seal()
    twins.compare()


@given(histories)
def test_what_is_told_twice_changes_nothing(history: list[tuple[Any, ...]]) -> None:
    twins = Twins()
    told: list[bytes] = []
    for name, *arguments in [*history, ("seal",)]:
        if name == "seal":
            shared = twins.leader.journal.seal(twins.leader.wall_offset_ms).shared
            told += [shared] if shared else []
        else:
            getattr(twins, name)(*arguments)
    for _ in range(2):
        for shared in told:
            apply_batch(twins.follower, decode_batch(shared), KEPT)
    for name in NAMES:
        if name != "newest":
            ours = {entry[:3] for entry in described(twins.leader, name, 0)}
            theirs = {entry[:3] for entry in described(twins.follower, name, 0)}
            assert theirs == ours, name
