"""The journal: what enters and leaves queues whose contents are kept, and confirms that wait for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openclust.broker.backlog.backlog import Entry
from openclust.broker.journal.batch import Batch, QueueBatch, decode_batch
from openclust.broker.journal.journal import KEPT, Journal
from openclust.broker.model.message import Message
from openclust.broker.model.outcome import IN_MEMORIES, ON_DISKS, ON_OWN_DISK
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.wire.methods import (
    BasicAck,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from openclust.wire.properties import Properties, encode_header
from tests.support.client import Client
from tests.support.driver import later, turn

NewBroker = Callable[..., Broker]


@pytest.fixture
def broker(new_broker: NewBroker) -> Broker:
    return new_broker(journal=Journal("shared", has_disk=True))


def seal(broker: Broker) -> tuple[Batch, Batch]:
    """End the batch: what it says of this broker's own, and of the cluster's."""
    sealed = broker.journal.seal(0)
    nothing = Batch([], [])
    return (
        decode_batch(sealed.own) if sealed.own else nothing,
        decode_batch(sealed.shared) if sealed.shared else nothing,
    )


def of(work: Batch, name: str) -> QueueBatch:
    found = [each for each in work.queues if each.name == name.encode()]
    assert len(found) == 1, f"{name} in {work.queues}"
    return found[0]


def bodies(work: Batch) -> list[bytes]:
    return [body for _, _, body in work.messages]


# -- what is kept


def test_a_durable_queue_is_the_clusters_with_all_its_messages(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True)
    alice.publish("q", b"transient")
    alice.publish("q", b"persistent", delivery_mode=2)
    own, shared = seal(broker)
    assert own.queues == [] and bodies(shared) == [b"transient", b"persistent"]
    assert of(shared, "q").runs == [1, 0, 2]


def test_of_a_queue_with_its_configuration_only_persistent_messages_are_kept_here(
    broker: Broker, alice: Client
) -> None:
    alice.queue("q", durable=True, x_replicate="configuration")
    alice.publish("q", b"transient")
    alice.publish("q", b"persistent", delivery_mode=2)
    own, shared = seal(broker)
    assert shared.queues == [] and bodies(own) == [b"persistent"]


def test_a_private_queue_is_nobodys_business(broker: Broker, alice: Client) -> None:
    alice.queue("q", exclusive=True)
    alice.publish("q", b"one", delivery_mode=2)
    assert broker.journal.is_empty


def test_without_a_disk_a_broker_of_one_keeps_nothing(new_broker: NewBroker) -> None:
    alice = Client(new_broker())
    alice.queue("q", durable=True)
    alice.publish("q", b"one", delivery_mode=2)
    assert alice.broker.journal.is_empty


def test_a_message_in_many_queues_is_kept_once(broker: Broker, alice: Client) -> None:
    for name in ("a", "b", "c"):
        alice.queue(name, durable=True)
        alice.bind(name, "amq.fanout")
    alice.publish("", b"one", exchange="amq.fanout")
    shared = seal(broker)[1]
    assert bodies(shared) == [b"one"] and [each.runs for each in shared.queues] == [[1, 0, 1]] * 3


def test_a_policy_makes_what_is_there_the_clusters(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True, x_replicate="configuration")
    alice.publish("q", b"one")
    alice.publish("q", b"two", delivery_mode=2)
    seal(broker)
    queue = broker.vhosts["/"].queues["q"]
    queue.follow(queue.args.__class__(replicate="messages"))
    own, shared = seal(broker)
    assert of(own, "q").left == [2, 2], "it is here no more"
    assert bodies(shared) == [b"one", b"two"]


# -- what comes and goes


def test_what_leaves_before_its_batch_is_sealed_was_never_there(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True)
    alice.consume("q")
    alice.publish("q", b"one")
    alice.ack(1)
    assert not broker.journal.is_empty, "who was served is to be told"
    shared = seal(broker)[1]
    assert shared.messages == [] and (of(shared, "q").runs, of(shared, "q").left) == ([], [])


def test_what_leaves_later_is_told(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True)
    for body in (b"one", b"two", b"three", b"four"):
        alice.publish("q", body)
    seal(broker)
    alice.consume("q")
    alice.ack(1)
    alice.ack(2)
    alice.nack(4, requeue=False)
    assert of(seal(broker)[1], "q").left == [1, 2, 4, 4]


def test_what_comes_back_is_told_with_how_often_it_was_out(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True)
    alice.publish("q", b"one")
    seal(broker)
    alice.get("q", no_ack=False)
    alice.nack(1)
    told = of(seal(broker)[1], "q")
    assert told.returned == [(1, 1)] and told.reached == 1


def test_how_far_a_queue_was_delivered_is_told_once(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True)
    alice.publish("q", b"one")
    alice.publish("q", b"two")
    seal(broker)
    alice.consume("q")
    assert of(seal(broker)[1], "q").reached == 2
    assert broker.journal.is_empty


def test_a_purge_an_expiry_and_a_full_queue_are_told(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True, x_max_length=2)
    for body in (b"one", b"two", b"three"):
        alice.publish("q", body, expiration="100")
        seal(broker)
    alice.publish("q", b"four")
    assert of(seal(broker)[1], "q").left == [2, 2]
    later(broker, 200)
    assert of(seal(broker)[1], "q").left == [3, 3]
    broker.vhosts["/"].queues["q"].purge()
    assert of(seal(broker)[1], "q").left == [4, 4]


def test_a_dead_letter_leaves_one_queue_and_enters_another_in_one_batch(broker: Broker, alice: Client) -> None:
    alice.queue("dead", durable=True)
    alice.queue("q", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    alice.publish("q", b"one")
    seal(broker)
    alice.get("q", no_ack=False)
    seal(broker)
    alice.nack(1, requeue=False)
    shared = seal(broker)[1]
    assert of(shared, "q").left == [1, 1] and of(shared, "dead").runs == [1, 0, 1]


def test_of_a_queue_that_is_deleted_nothing_is_told(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True)
    alice.publish("q", b"one")
    seal(broker)
    alice.publish("q", b"two")
    alice.call(QueueDelete(queue="q"), QueueDeleteOk)
    assert seal(broker)[1].queues == []


def test_a_delivery_that_a_newer_value_has_replaced_has_left(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True, x_last_value_key="key")
    alice.consume("q")
    alice.publish("q", b"old", headers={"key": 1})
    seal(broker)
    alice.publish("q", b"new", headers={"key": 1})
    assert of(seal(broker)[1], "q").left == [1, 1]
    alice.ack(1)
    assert broker.journal.is_empty, "it has left once"


def test_the_key_of_a_message_that_came_and_went_is_kept_for_the_window(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True, x_message_deduplication=True)
    alice.consume("q")
    alice.publish("q", b"one", message_id="first")
    alice.ack(1)
    told = of(seal(broker)[1], "q")
    assert told.seen == [b"first"] and told.runs == []


def test_a_transaction_is_one_batch(broker: Broker, alice: Client) -> None:
    alice.queue("a", durable=True)
    alice.queue("b", durable=True)
    alice.publish("a", b"one")
    seal(broker)
    alice.get("a", no_ack=False)
    seal(broker)
    alice.call(TxSelect(), TxSelectOk)
    alice.ack(1)
    alice.publish("a", b"two")
    alice.publish("b", b"three")
    assert broker.journal.is_empty
    alice.send(TxCommit())
    shared = seal(broker)[1]
    assert of(shared, "a").left == [1, 1] and bodies(shared) == [b"two", b"three"]
    assert not alice.replies.get(1), "nobody is told before it is kept"
    broker.journal.advance(IN_MEMORIES, broker.journal.number - 1)
    turn(broker)
    alice.reply(1, TxCommitOk)


# -- confirms


def confirming(broker: Broker) -> Client:
    client = Client(broker)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.queue("q", durable=True)
    client.queue("here", durable=True, x_replicate="configuration")
    return client


@pytest.mark.parametrize(
    ("queue", "mode", "place"),
    [
        pytest.param("q", 1, IN_MEMORIES, id="reliable transient"),
        pytest.param("q", 2, ON_DISKS, id="reliable persistent"),
        pytest.param("here", 2, ON_OWN_DISK, id="persistent"),
    ],
)
def test_a_confirm_waits_for_its_level(broker: Broker, queue: str, mode: int, place: int) -> None:
    client = confirming(broker)
    client.publish(queue, b"one", delivery_mode=mode)
    batch = broker.journal.number
    seal(broker)
    for other in (ON_OWN_DISK, IN_MEMORIES, ON_DISKS):
        if other != place:
            broker.journal.advance(other, batch)
    broker.journal.advance(place, batch - 1)
    turn(broker)
    assert client.confirms == []
    broker.journal.advance(place, batch)
    turn(broker)
    assert client.confirms == [BasicAck(delivery_tag=1, multiple=False)]


@pytest.mark.parametrize(("replicate", "place"), [("messages", ON_DISKS), ("configuration", ON_OWN_DISK)])
def test_a_repeated_message_is_confirmed_when_the_first_one_is_kept(broker: Broker, replicate: str, place: int) -> None:
    first, again = confirming(broker), confirming(broker)
    first.queue("dedup", durable=True, x_message_deduplication=True, x_replicate=replicate)
    first.publish("dedup", b"one", delivery_mode=2, message_id="one")
    batch = broker.journal.number
    seal(broker)
    again.publish("dedup", b"one", delivery_mode=2, message_id="one")
    assert again.confirms == [] and not broker.journal.is_empty
    assert seal(broker) == (Batch([], []), Batch([], []))
    assert broker.journal.is_empty
    broker.journal.advance(place, batch - 1)
    turn(broker)
    assert again.confirms == []
    broker.journal.advance(place, batch + 1)
    turn(broker)
    assert first.confirms == again.confirms == [BasicAck(delivery_tag=1, multiple=False)]


def test_a_transient_message_for_a_queue_that_is_not_replicated_is_confirmed_at_once(broker: Broker) -> None:
    client = confirming(broker)
    client.publish("here", b"one")
    assert client.confirms == [BasicAck(delivery_tag=1, multiple=False)]


def test_what_comes_behind_a_gate_is_told_after_it(broker: Broker) -> None:
    client = confirming(broker)
    client.publish("here", b"one")
    client.publish("q", b"two", delivery_mode=2)
    client.publish("here", b"three")
    assert client.confirms == [BasicAck(delivery_tag=1, multiple=False)]
    broker.journal.advance(ON_DISKS, broker.journal.number)
    turn(broker)
    assert client.confirms[1:] == [BasicAck(delivery_tag=3, multiple=True)]


def test_many_batches_are_told_one_after_another(broker: Broker) -> None:
    client = confirming(broker)
    first = broker.journal.number
    for _ in range(3):
        client.publish("q", b"one", delivery_mode=2)
        client.publish("q", b"two", delivery_mode=2)
        seal(broker)
    broker.journal.advance(ON_DISKS, first)
    turn(broker)
    assert client.confirms == [BasicAck(delivery_tag=2, multiple=True)]
    broker.journal.advance(ON_DISKS, first + 2)
    turn(broker)
    assert client.confirms[1:] == [BasicAck(delivery_tag=6, multiple=True)]


def test_who_is_in_charge_no_more_refuses_what_it_did_not_confirm(broker: Broker) -> None:
    client = confirming(broker)
    client.publish("here", b"one")
    client.publish("q", b"two", delivery_mode=2)
    seal(broker)
    client.publish("q", b"three")
    broker.journal.abandon()
    turn(broker)
    assert client.confirms[1:] == [BasicNack(delivery_tag=3, multiple=True, requeue=False)]
    broker.take_charge()


def test_later_batches_do_not_tell_of_what_was_lost(broker: Broker) -> None:
    client, journal = confirming(broker), broker.journal
    client.publish("q", b"kept", delivery_mode=2)
    seal(broker)
    journal.advance(ON_DISKS, journal.number - 1)
    client.publish("here", b"own", delivery_mode=2)
    seal(broker)
    client.publish("q", b"sealed", delivery_mode=2)
    seal(broker)
    client.publish("q", b"open", delivery_mode=2)
    for _ in range(3):
        journal.abandon()
        turn(broker)
        broker.take_charge()
        seal(broker)
        journal.advance(ON_DISKS, journal.number - 1)
        turn(broker)
    assert client.confirms == [BasicAck(delivery_tag=1, multiple=False)]
    journal.advance(ON_OWN_DISK, journal.number - 1)
    turn(broker)
    assert client.confirms[1:] == [
        BasicAck(delivery_tag=2, multiple=False),
        BasicNack(delivery_tag=4, multiple=True, requeue=False),
    ]


def test_who_is_in_charge_no_more_keeps_its_own(broker: Broker) -> None:
    client = confirming(broker)
    client.publish("here", b"one", delivery_mode=2)
    broker.journal.abandon()
    assert bodies(seal(broker)[0]) == [b"one"]
    broker.take_charge()


def test_what_came_and_went_in_a_batch_that_is_lost_is_no_repetition(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True, x_message_deduplication=True)
    alice.publish("q", b"kept", message_id="a")
    assert alice.get("q") is not None
    seal(broker)
    alice.publish("q", b"lost", message_id="b")
    assert alice.get("q") is not None
    broker.journal.abandon()
    broker.take_charge()
    alice.publish("q", b"kept", message_id="a")
    alice.publish("q", b"again", message_id="b")
    assert [entry.message.body for entry in broker.vhosts["/"].queues["q"].backlog] == [b"again"]


def test_nothing_expires_where_another_is_in_charge(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True, x_message_ttl=100)
    alice.publish("q", b"one")
    broker.journal.abandon()
    later(broker, 1_000)
    queue = broker.vhosts["/"].queues["q"]
    assert len(queue) == 1
    broker.take_charge()
    assert len(queue) == 0


# -- what was delivered before


def test_what_may_have_been_delivered_by_another_is_told_as_redelivered(broker: Broker, alice: Client) -> None:
    alice.queue("q", durable=True)
    queue = broker.vhosts["/"].queues["q"]
    for seq in (1, 2):
        restore(queue, seq)
    queue.reached = 1
    alice.consume("q")
    assert [each.redelivered for each in alice.deliveries()] == [True, False]


def restore(queue: Queue, seq: int) -> None:
    header = encode_header(Properties(), 3)
    queue.restore(Entry(Message("", queue.name, header, b"one", b"\0\0\0\xce"), seq, recorded=KEPT))


# -- persistent or not


@pytest.mark.parametrize("mode", [None, 0, 1, 2])
@pytest.mark.parametrize(
    "before", [{}, {"content_type": "text/plain"}, {"content_encoding": "gzip", "headers": {"a": 1}}]
)
def test_persistence_is_read_from_a_header_as_it_came(mode: int | None, before: dict[str, object]) -> None:
    properties = Properties(delivery_mode=mode, priority=7, message_id="x", **before)  # type: ignore[arg-type]
    message = Message("", "", encode_header(properties, 0), b"", b"")
    assert message.is_persistent is (mode == 2)
