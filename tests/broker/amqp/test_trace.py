"""What a broker tells of the messages that are followed, and which these are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openclust.broker.amqp.trace import HASHED_BYTES_MAX, TraceEvent, Tracer
from openclust.broker.model.message import delivery_suffix
from openclust.broker.server.broker import Broker
from openclust.wire.methods import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk
from openclust.wire.properties import Properties, encode_header
from tests.support.client import Client

Told = list[TraceEvent]
HEADER = encode_header(Properties(), 5)
SUFFIX = delivery_suffix("x", "key")


@pytest.fixture
def told(broker: Broker) -> Told:
    """All events of a broker that follows every message."""
    events: Told = []
    broker.tracer = Tracer(1, events.append)
    return events


def seen(told: Told, *fields: str) -> list[tuple[Any, ...]]:
    """What was told, by event and these fields; and forget it."""
    found = [(each.event, *(getattr(each, field) for field in fields)) for each in told]
    told.clear()
    return found


def marks(sample: int, bodies: list[bytes]) -> list[str]:
    tracer = Tracer(sample, lambda event: None)
    return [tracer.mark(SUFFIX, HEADER, body) for body in bodies]


def subscriber(broker: Broker, key: str = "a", *, no_ack: bool = True) -> Client:
    client = Client(broker)
    queue = client.queue(exclusive=True)
    client.bind(queue, "amq.topic", key)
    client.consume(queue, no_ack=no_ack)
    return client


# -- which messages


def test_one_in_so_many_messages_is_followed() -> None:
    bodies = [b"message %d" % number for number in range(50_000)]
    followed = [each for each in marks(100, bodies) if each]
    assert 400 <= len(followed) <= 600
    assert len(set(followed)) == len(followed), "each has an id of its own"


def test_all_brokers_follow_the_same_ones() -> None:
    bodies = [b"message %d" % number for number in range(10_000)]
    assert marks(10, bodies) == marks(10, bodies)
    everyone = marks(1, bodies)
    assert all(everyone)
    assert all(one in ("", other) for one, other in zip(marks(10, bodies), everyone, strict=True))


def test_a_message_is_told_from_others_by_key_properties_and_body() -> None:
    tracer = Tracer(1, lambda event: None)
    ids = {
        tracer.mark(SUFFIX, HEADER, b"12345"),
        tracer.mark(SUFFIX, HEADER, b"12346"),
        tracer.mark(delivery_suffix("x", "other"), HEADER, b"12345"),
        tracer.mark(SUFFIX, encode_header(Properties(message_id="1"), 5), b"12345"),
    }
    assert len(ids) == 4
    assert all(len(each) == 16 and int(each, 16) >= 0 for each in ids)


def test_of_a_large_body_the_beginning_tells() -> None:
    one, other, shorter = b"x" * 10_000 + b"1", b"x" * 10_000 + b"2", b"x" * HASHED_BYTES_MAX
    tracer = Tracer(1, lambda event: None)
    header = encode_header(Properties(), len(one))
    assert tracer.mark(SUFFIX, header, one) == tracer.mark(SUFFIX, header, other)
    assert tracer.mark(SUFFIX, encode_header(Properties(), len(shorter)), shorter) != tracer.mark(SUFFIX, header, one)


def test_a_tracer_that_is_off_follows_nothing() -> None:
    tracer = Tracer(1, lambda event: None)
    tracer.is_on = False
    assert tracer.mark(SUFFIX, HEADER, b"12345") == ""


def test_what_is_not_followed_is_delivered_without_a_word(broker: Broker) -> None:
    events: Told = []
    broker.tracer = Tracer(10**9, events.append)
    reader, writer = subscriber(broker), Client(broker)
    writer.publish("a", b"1", exchange="amq.topic")
    assert reader.bodies() == [b"1"]
    assert events == []


# -- what is told


def test_a_local_fan_out_is_a_publish_and_one_delivery_with_its_count(broker: Broker, told: Told) -> None:
    readers = [subscriber(broker) for _ in range(3)] + [subscriber(broker, no_ack=False)]
    Client(broker).publish("a", b"12345", exchange="amq.topic")
    assert [reader.bodies() for reader in readers] == [[b"12345"]] * 4
    assert len({each.id for each in told}) == 1
    fields = ("exchange", "key", "size", "queue", "count")
    assert seen(told, *fields) == [("publish", "amq.topic", "a", 5, "", 0), ("deliver", "", "", 5, "", 4)]


def test_a_message_that_nobody_wants_is_published_all_the_same(broker: Broker, told: Told) -> None:
    Client(broker).publish("a", b"1", exchange="amq.topic")
    assert seen(told) == [("publish",)]


@pytest.mark.parametrize("no_ack", [True, False])
def test_a_shared_queue_takes_a_message_and_hands_it_to_one_consumer(
    broker: Broker, alice: Client, told: Told, no_ack: bool
) -> None:
    alice.queue("work")
    alice.consume("work", no_ack=no_ack)
    Client(broker).publish("work", b"1")
    assert alice.bodies() == [b"1"]
    assert seen(told, "queue", "count") == [("publish", "", 0), ("enqueue", "work", 1), ("deliver", "work", 1)]


def test_a_message_that_waits_in_a_shared_queue_is_told_of_when_it_leaves(
    broker: Broker, alice: Client, told: Told
) -> None:
    alice.queue("work")
    alice.publish("work", b"1")
    alice.publish("work", b"2")
    assert seen(told, "queue") == [("publish", ""), ("enqueue", "work")] * 2
    assert alice.get("work") is not None
    assert seen(told, "queue", "count") == [("deliver", "work", 1)]
    alice.consume("work")
    assert seen(told, "queue", "count") == [("deliver", "work", 1)]


def test_a_delivery_that_comes_back_is_told_of_again(broker: Broker, alice: Client, told: Told) -> None:
    alice.queue("work")
    alice.consume("work")
    alice.publish("work", b"1")
    alice.nack(alice.deliveries()[0].tag)
    assert [event for (event,) in seen(told)] == ["publish", "enqueue", "deliver", "deliver"]


def test_an_answer_to_a_reply_address_is_one_delivery(broker: Broker, alice: Client, told: Told) -> None:
    alice.consume("amq.rabbitmq.reply-to", no_ack=True)
    alice.queue("rpc")
    alice.publish("rpc", b"?", reply_to="amq.rabbitmq.reply-to")
    asked = alice.get("rpc")
    assert asked is not None and asked.properties.reply_to
    told.clear()
    alice.publish(asked.properties.reply_to, b"!")
    assert seen(told, "queue", "count") == [("publish", "", 0), ("deliver", "", 1)]


def test_a_transaction_publishes_with_its_commit(broker: Broker, alice: Client, told: Told) -> None:
    reader = subscriber(broker)
    alice.call(TxSelect(), TxSelectOk)
    alice.publish("a", b"1", exchange="amq.topic")
    alice.call(TxRollback(), TxRollbackOk)
    alice.publish("a", b"2", exchange="amq.topic")
    assert told == []
    alice.call(TxCommit(), TxCommitOk)
    assert reader.bodies() == [b"2"]
    assert seen(told, "count") == [("publish", 0), ("deliver", 1)]


def test_copies_share_the_id_of_what_was_published(broker: Broker, alice: Client, told: Told) -> None:
    reader = subscriber(broker, "a.*")
    alice.publish("a.b", b"1", exchange="amq.topic", headers={"CC": ["a.c"], "BCC": ["a.d"]})
    assert len(reader.bodies()) == 1
    assert len({each.id for each in told}) == 1
    assert seen(told) == [("publish",), ("deliver",)]


def test_a_broker_that_stops_tracing_delivers_on(broker: Broker, alice: Client, told: Told) -> None:
    alice.queue("work")
    alice.consume("work")
    tracer, broker.tracer = broker.tracer, None
    assert tracer is not None
    tracer.is_on = False
    alice.publish("work", b"1")
    assert alice.bodies() == [b"1"]
    assert told == []


def test_limits_hold_for_what_is_followed(new_broker: Callable[..., Broker]) -> None:
    broker = new_broker()
    events: Told = []
    broker.tracer = Tracer(1, events.append)
    client = Client(broker)
    client.queue("work", x_max_length=1, x_overflow="reject-publish")
    for body in (b"1", b"2"):
        client.publish("work", body)
    assert client.count("work") == 1
