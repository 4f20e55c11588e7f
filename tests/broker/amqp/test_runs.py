"""Runs: what comes together is delivered as it would be one by one, only faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.amqp import runs
from openclust.broker.delivery.consumer import LARGE_BYTES
from openclust.broker.server.broker import Broker
from openclust.wire.methods import (
    BasicQos,
    BasicQosOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.support.client import Client, new_broker, publish_frames
from tests.support.driver import turn
from tests.support.invariants import check
from tests.support.wire import PROPERTY_TEST

NewBroker = Callable[..., Broker]
BODIES = [b"%03d" % number for number in range(100)]

QUEUES: dict[str, dict[str, Any]] = {
    "fifo": {},
    "short": {"x_max_length": 3},
    "refusing": {"x_max_length": 2, "x_overflow": "reject-publish"},
    "priority": {"x_max_priority": 3},
    "newest": {"x_last_value_key": "key"},
    "mortal": {"x_message_ttl": 300},
    "once": {"x_message_deduplication": True},
    "single": {"x_single_active_consumer": True},
}


def feed_of(*bodies: bytes, key: str = "q", **properties: Any) -> bytes:
    return b"".join(publish_frames(key, body, **properties) for body in bodies)


def primed(client: Client, key: str = "q", **properties: Any) -> Client:
    """Its broker knows the way of such messages: the first of them was published, and is not there any more."""
    client.feed(feed_of(b"first", key=key, **properties))
    return client


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many of each run went the short way."""
    found: list[int] = []

    def deliver_run(*args: Any) -> int:
        found.append(delivered(*args))
        return found[-1]

    delivered = runs.deliver_run
    monkeypatch.setattr(runs, "deliver_run", deliver_run)
    return found


# -- the short way


def test_a_run_reaches_the_only_consumer_in_order_with_one_tag_after_the_other(
    alice: Client, bob: Client, taken: list[int]
) -> None:
    bob.queue("q")
    bob.consume("q", no_ack=True)
    primed(alice).feed(feed_of(*BODIES, content_type="text/plain"))
    alice.feed(feed_of(*BODIES, content_type="text/plain"))
    assert taken == [100], "properties that were not looked at yet take the long way once"
    deliveries = bob.deliveries()[1:]
    assert [each.body for each in deliveries] == BODIES * 2
    assert [each.tag for each in deliveries] == list(range(2, 202))
    assert {each.properties.content_type for each in deliveries} == {"text/plain"}
    assert alice.broker.published == 201


def test_bodies_of_a_run_may_have_any_size(alice: Client, bob: Client, taken: list[int]) -> None:
    bob.queue("q")
    bob.consume("q", no_ack=True)
    bodies = [b"x" * (1 + number * 37 % 400) for number in range(200)]
    primed(alice).feed(feed_of(*bodies))
    assert taken == [200]
    assert bob.bodies()[1:] == bodies


def test_a_run_of_large_bodies_is_shared_one_by_one(alice: Client, bob: Client, taken: list[int]) -> None:
    bob.queue("q")
    bob.consume("q", no_ack=True)
    bodies = [bytes([number]) * LARGE_BYTES for number in range(4)]
    primed(alice).feed(feed_of(*bodies))
    assert taken == [0]
    assert bob.bodies()[1:] == bodies


def test_bodies_larger_than_the_consumers_frames_are_cut(new_broker: NewBroker, taken: list[int]) -> None:
    broker = new_broker()
    bob = Client(broker, frame_max=4_096)
    bob.queue("q")
    bob.consume("q", no_ack=True)
    bodies = [bytes([number]) * 5_000 for number in range(4)]
    primed(Client(broker)).feed(feed_of(*bodies))
    assert taken == [0]
    assert bob.bodies()[1:] == bodies and bob.largest_frame <= 4_096


def test_what_a_run_adds_to_outboxes_counts_for_the_turn(new_broker: NewBroker) -> None:
    broker = new_broker(turn_bytes_max=5_000)
    bob, alice = Client(broker), Client(broker)
    bob.queue("q")
    bob.consume("q", no_ack=True)
    primed(alice)
    alice.connection.receive(feed_of(*BODIES))
    assert broker.turn_bytes == sum(len(body) + 200 for body in BODIES)
    alice.connection.receive(feed_of(b"later", b"later"))
    assert alice.connection.hold == "turn", "the next has to wait until this was written"
    turn(broker)
    assert bob.bodies()[1:] == [*BODIES, b"later", b"later"]


# -- the long way


def test_a_run_waits_in_the_queue_where_nobody_takes_it(alice: Client) -> None:
    alice.queue("q")
    alice.feed(feed_of(*BODIES))
    assert alice.count("q") == 100


def test_several_queues_get_the_whole_run(alice: Client, bob: Client) -> None:
    for client, queue in ((alice, "a"), (bob, "b")):
        client.queue(queue)
        client.bind(queue, "amq.fanout")
        client.consume(queue, no_ack=True)
    for _ in range(2):
        alice.feed(b"".join(publish_frames("", body, exchange="amq.fanout") for body in BODIES))
    assert alice.bodies() == bob.bodies() == BODIES * 2


def test_a_run_is_confirmed_message_by_message(alice: Client, bob: Client) -> None:
    bob.queue("q")
    bob.consume("q", no_ack=True)
    primed(alice).call(ConfirmSelect(), ConfirmSelectOk)
    alice.feed(feed_of(*BODIES))
    assert max(each.delivery_tag for each in alice.confirms) == 100  # type: ignore[attr-defined]
    assert bob.bodies()[1:] == BODIES


def test_a_run_in_a_transaction_waits_for_its_commit(alice: Client, bob: Client) -> None:
    bob.queue("q")
    bob.consume("q", no_ack=True)
    primed(alice).call(TxSelect(), TxSelectOk)
    alice.feed(feed_of(*BODIES))
    assert bob.bodies() == [b"first"]
    alice.call(TxCommit(), TxCommitOk)
    assert bob.bodies() == BODIES


def test_a_run_with_acknowledgements_stops_at_the_prefetch(alice: Client, bob: Client) -> None:
    bob.queue("q")
    bob.call(BasicQos(prefetch_count=3), BasicQosOk)
    bob.consume("q")
    alice.feed(feed_of(*BODIES))
    alice.feed(feed_of(*BODIES))
    assert bob.bodies() == BODIES[:3] and alice.count("q") == 197


def test_a_client_that_said_stop_gets_nothing_of_a_run(alice: Client, bob: Client) -> None:
    bob.queue("q")
    bob.consume("q", no_ack=True)
    primed(alice)
    bob.call(ChannelFlow(active=False), ChannelFlowOk)
    alice.feed(feed_of(*BODIES))
    assert bob.bodies() == [b"first"]
    bob.call(ChannelFlow(active=True), ChannelFlowOk)
    assert bob.bodies() == BODIES


def test_a_message_that_is_too_large_closes_the_channel_in_the_middle_of_a_run(new_broker: NewBroker) -> None:
    broker = new_broker(message_size_max=10)
    alice, bob = Client(broker), Client(broker)
    bob.queue("q")
    bob.consume("q", no_ack=True)
    primed(alice).feed(feed_of(b"1", b"2", b"x" * 11, b"3"))
    assert alice.channel_error().code == 311
    assert bob.bodies() == [b"first", b"1", b"2"]


def test_properties_that_do_not_add_up_are_refused_though_they_come_in_a_run(alice: Client, bob: Client) -> None:
    bob.queue("q")
    bob.consume("q", no_ack=True)
    sound = feed_of(b"a", b"b", content_type="t")
    # Flags say that there is a content type, and there is none.
    damaged = sound.replace(b"\x80\0\1t\xce", b"\x80\0\5t\xce")
    assert damaged != sound
    primed(alice).feed(damaged)
    assert alice.closed is not None and alice.closed.code == 502
    assert bob.bodies() == [b"first"]


def test_what_comes_of_a_run_after_the_channel_was_closed_is_dropped(alice: Client) -> None:
    alice.feed(b"".join(publish_frames("key", body, exchange="nowhere") for body in BODIES))
    assert alice.channel_error().code == 404
    assert alice.closed is None


# -- both ways are one


class Pair:
    """Two brokers that hear the same: one in whole runs, the other one message at a time."""

    def __init__(self) -> None:
        self.brokers = (new_broker(), new_broker())
        self.publishers = [Client(broker) for broker in self.brokers]
        self.consumers = [Client(broker) for broker in self.brokers]
        for client in self.consumers:
            for name, arguments in QUEUES.items():
                client.queue(name, **arguments)

    def publish(self, name: str, bodies: list[bytes], properties: dict[str, Any]) -> None:
        pieces = [publish_frames(name, body, **properties) for body in bodies]
        self.publishers[0].feed(b"".join(pieces))
        for piece in pieces:
            self.publishers[1].feed(piece)

    def consume(self, name: str, no_ack: bool) -> None:
        for client in self.consumers:
            client.consume(name, no_ack=no_ack)

    def compare(self) -> None:
        heard = [
            [(each.method, each.properties, each.body) for each in client.deliveries()] for client in self.consumers
        ]
        assert heard[0] == heard[1]
        ours, theirs = self.brokers
        for name in QUEUES:
            assert [each.message.body for each in ours.vhosts["/"].queues[name].backlog] == [
                each.message.body for each in theirs.vhosts["/"].queues[name].backlog
            ]
        assert ours.memory_accounts.held_bytes == theirs.memory_accounts.held_bytes
        assert (ours.published, ours.memory_accounts.outbox_bytes) == (
            theirs.published,
            theirs.memory_accounts.outbox_bytes,
        )
        check(ours)


some_properties = st.sampled_from(
    (
        {},
        {"content_type": "t"},
        {"delivery_mode": 2},
        {"expiration": "100"},
        {"headers": {"key": "k"}},
        {"message_id": "m"},
    )
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("publish"),
            st.sampled_from(sorted(QUEUES)),
            st.lists(st.binary(max_size=3), min_size=1, max_size=6),
            some_properties,
        ),
        st.tuples(st.just("consume"), st.sampled_from(sorted(QUEUES)), st.booleans()),
    ),
    max_size=12,
)


@PROPERTY_TEST
@given(steps)
def test_a_run_comes_to_the_same_as_its_messages_one_by_one(steps: list[tuple[Any, ...]]) -> None:
    pair = Pair()
    for name, *arguments in steps:
        getattr(pair, name)(*arguments)
    pair.compare()
