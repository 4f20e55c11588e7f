"""What publishers rely on: confirms, transactions, sizes, user-id, request and reply, with pika."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pamqp import body, commands
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from tests.support.clients.broker_process import running_broker
from tests.support.clients.pika_client import (
    Client,
    arrive,
    channel_closed,
    consume,
    depth,
    drain,
    get,
    publish,
    pump,
    temporary_exchange,
    temporary_queue,
    unique,
    wait_for_depth,
)
from tests.support.clients.raw_client import RawClient

pytestmark = pytest.mark.sockets

DIRECT_REPLY = "amq.rabbitmq.reply-to"


# Confirms


def test_a_confirmed_publish_is_in_the_queue(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.confirm_delivery()
    publish(channel, queue, b"x")
    assert depth(channel, queue) == 1


def test_confirms_count_every_publish_once(channel: BlockingChannel) -> None:
    # BlockingChannel waits for each confirm; the channel inside it, as async publishers use it, does not.
    queue, inner = temporary_queue(channel), channel._impl
    confirmed: set[int] = set()

    def on_confirm(frame: Any) -> None:
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        tag = frame.method.delivery_tag
        assert tag not in confirmed
        confirmed.update(range(1, tag + 1) if frame.method.multiple else (tag,))

    inner.confirm_delivery(on_confirm)
    for number in range(200):
        inner.basic_publish("", queue, str(number).encode())
    pump(channel, lambda: len(confirmed) >= 200)
    assert confirmed == set(range(1, 201))
    assert depth(channel, queue) == 200


def test_an_unroutable_mandatory_publish_is_returned_and_then_confirmed(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as error:
        channel.basic_publish("", unique("nowhere"), b"x", mandatory=True)
    assert error.value.messages[0].method.reply_code == 312


def test_an_unroutable_publish_is_confirmed(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    publish(channel, unique("nowhere"), b"x")  # raises when it is not


def test_confirms_and_transactions_exclude_one_another(client: Client) -> None:
    channel = client.channel()
    channel.confirm_delivery()
    with channel_closed(406):
        channel.tx_select()
    channel = client.channel()
    channel.tx_select()
    with channel_closed(406):
        channel.confirm_delivery()


# Transactions


def test_a_transaction_publishes_at_its_commit(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.tx_select()
    publish(channel, queue, b"one")
    publish(channel, queue, b"two")
    assert depth(channel, queue) == 0
    channel.tx_commit()
    assert depth(channel, queue) == 2


def test_a_rolled_back_transaction_publishes_nothing(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.tx_select()
    publish(channel, queue, b"never")
    channel.tx_rollback()
    channel.tx_commit()
    assert depth(channel, queue) == 0


def test_acks_belong_to_the_transaction(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(channel, queue, b"x")
    transacted = channel.connection.channel()
    transacted.tx_select()
    received = get(transacted, queue, auto_ack=False)
    transacted.basic_ack(received.method.delivery_tag)
    transacted.tx_rollback()
    transacted.basic_ack(received.method.delivery_tag)  # the rollback made it unacked again, not redelivered
    transacted.tx_commit()
    transacted.close()
    assert depth(channel, queue) == 0


def test_a_transaction_that_is_never_committed_leaves_nothing(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    transacted = channel.connection.channel()
    transacted.tx_select()
    publish(transacted, queue, b"never")
    transacted.close()
    assert depth(channel, queue) == 0


@pytest.mark.parametrize("act", ["tx_commit", "tx_rollback"])
def test_a_commit_without_a_transaction_is_refused(channel: BlockingChannel, act: str) -> None:
    with channel_closed(406, "not transactional"):
        getattr(channel, act)()


# User id


def test_a_user_id_that_is_the_users_own_passes(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(channel, queue, b"x", user_id=client.broker.user)
    assert get(channel, queue).properties.user_id == client.broker.user


def test_a_user_id_of_somebody_else_is_refused(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    with channel_closed(406, "user_id", "'somebody-else'", f"'{client.broker.user}'"):
        publish(channel, queue, b"x", user_id="somebody-else")
        depth(channel, queue)


# Sizes


@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 131063, 131064, 131065, 1_000_000])
def test_bodies_around_the_frame_size_arrive_whole(channel: BlockingChannel, size: int) -> None:
    queue, content = temporary_queue(channel), os.urandom(size)
    publish(channel, queue, content)
    assert get(channel, queue).body == content


def test_a_body_of_ten_megabytes_arrives_whole(channel: BlockingChannel) -> None:
    queue, content = temporary_queue(channel), os.urandom(10_000_000)
    inbox = consume(channel, queue, auto_ack=True)
    publish(channel, queue, content)
    pump(channel, lambda: inbox, within_s=20)
    assert hashlib.sha256(inbox[0].body).digest() == hashlib.sha256(content).digest()


@pytest.mark.parametrize(("publisher_max", "consumer_max"), [(4096, 131072), (131072, 4096), (4096, 4097)])
def test_bodies_are_cut_to_the_receivers_frame_size(client: Client, publisher_max: int, consumer_max: int) -> None:
    publisher, consumer = client.channel(frame_max=publisher_max), client.channel(frame_max=consumer_max)
    queue, content = temporary_queue(consumer), os.urandom(300_000)
    inbox = consume(consumer, queue, auto_ack=True)
    publish(publisher, queue, content)
    pump(consumer, lambda: inbox)
    assert inbox[0].body == content


def test_no_frame_is_larger_than_the_receiver_agreed_to(client: Client, channel: BlockingChannel) -> None:
    with RawClient(client.broker) as raw:
        raw.open(frame_max=4096)
        raw.send(commands.Queue.Declare(exclusive=True), 1)
        queue = str(raw.expect(commands.Queue.DeclareOk).queue)
        publish(channel, queue, bytes(10_000))
        wait_for_depth_raw(raw, queue)
        raw.send(commands.Basic.Get(queue=queue, no_ack=True), 1)
        raw.expect(commands.Basic.GetOk)
        raw.receive()
        sizes = [len(raw.expect(body.ContentBody).value) for _ in range(3)]
    assert sizes == [4088, 4088, 1824]


def wait_for_depth_raw(raw: RawClient, queue: str) -> None:
    for _ in range(100):
        raw.send(commands.Queue.Declare(queue=queue, passive=True), 1)
        if raw.expect(commands.Queue.DeclareOk).message_count:
            return
    raise AssertionError("the message does not arrive")


@pytest.fixture(scope="module")
def small_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    if os.environ.get("OPENCLUST_TEST_URL"):
        pytest.skip("this run talks to the broker that OPENCLUST_TEST_URL names")
    config = "[limits]\nmessage_size_max = 100000\n"
    with running_broker(tmp_path_factory.mktemp("small"), config) as broker:
        client = Client(broker)
        yield client
        client.close()


def test_a_message_larger_than_the_broker_takes_is_content_too_large(small_broker: Client) -> None:
    # 0-9-1 has 311 for this, a channel error. (RabbitMQ answers 406.)
    channel = small_broker.channel()
    queue, connection = temporary_queue(channel), channel.connection
    publish(channel, queue, bytes(100_000))
    wait_for_depth(channel, queue, 1)
    with channel_closed(311):
        publish(channel, queue, bytes(100_001))
        depth(channel, queue)
    assert depth(connection.channel(), queue) == 1


# Request and reply


def test_direct_reply_to_brings_the_answer_without_a_queue(client: Client, channel: BlockingChannel) -> None:
    server = client.channel()
    requests = temporary_queue(server)
    answers = consume(channel, DIRECT_REPLY, auto_ack=True)
    publish(channel, requests, b"question", reply_to=DIRECT_REPLY, correlation_id="7")
    request = get(server, requests)
    assert request.properties.reply_to is not None
    assert request.properties.reply_to.startswith(DIRECT_REPLY + ".")
    publish(server, request.properties.reply_to, b"answer", correlation_id="7")
    pump(channel, lambda: answers)
    assert (answers[0].body, answers[0].properties.correlation_id) == (b"answer", "7")


def test_direct_reply_to_answers_reach_the_asking_channel_only(client: Client) -> None:
    server = client.channel()
    requests = temporary_queue(server)
    askers = [client.channel() for _ in range(3)]
    inboxes = [consume(asker, DIRECT_REPLY, auto_ack=True) for asker in askers]
    for number, asker in enumerate(askers):
        publish(asker, requests, str(number), reply_to=DIRECT_REPLY)
    for _ in askers:
        request = get(server, requests)
        publish(server, request.properties.reply_to, b"to " + request.body)
    for number, (asker, inbox) in enumerate(zip(askers, inboxes, strict=True)):
        arrive(asker, inbox, 1)
        assert [answer.body for answer in inbox] == [b"to %d" % number]


def test_a_direct_reply_consumer_must_not_acknowledge(channel: BlockingChannel) -> None:
    with channel_closed(406):
        consume(channel, DIRECT_REPLY, auto_ack=False)


def test_a_request_without_a_direct_reply_consumer_is_refused(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    with channel_closed(406):
        publish(channel, queue, b"question", reply_to=DIRECT_REPLY)
        depth(channel, queue)


def test_an_answer_to_somebody_who_left_is_returned(client: Client, channel: BlockingChannel) -> None:
    asker = client.channel()
    requests = temporary_queue(channel)
    consume(asker, DIRECT_REPLY, auto_ack=True)
    publish(asker, requests, b"question", reply_to=DIRECT_REPLY)
    request = get(channel, requests)
    channel.queue_declare(request.properties.reply_to, passive=True)  # how a server sees that the asker waits
    asker.connection.close()
    channel.confirm_delivery()

    def answer_is_returned() -> bool:
        try:
            channel.basic_publish("", request.properties.reply_to, b"answer", mandatory=True)
        except UnroutableError:
            return True
        return False

    pump(channel, answer_is_returned)
    with channel_closed(404):
        channel.queue_declare(request.properties.reply_to, passive=True)


def test_rpc_by_an_exclusive_queue_works_too(client: Client, channel: BlockingChannel) -> None:
    server = client.channel()
    requests = temporary_queue(server)
    reply_to = temporary_queue(channel)
    publish(channel, requests, b"2", reply_to=reply_to)
    request = get(server, requests)
    publish(server, request.properties.reply_to, request.body * 2)
    assert get(channel, reply_to).body == b"22"


def test_publishes_on_one_channel_stay_in_order(client: Client, channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "topic")
    queue = temporary_queue(channel)
    channel.queue_bind(queue, exchange, "#")
    for number in range(500):
        publish(channel, f"key.{number % 7}", str(number), exchange=exchange)
    assert [int(body) for body in drain(channel, queue)] == list(range(500))
