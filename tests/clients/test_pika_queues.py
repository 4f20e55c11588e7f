"""Declaring, naming, inspecting, emptying and deleting queues, with pika."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import (
    Client,
    channel_closed,
    consume,
    depth,
    drain,
    get,
    publish,
    pump,
    temporary_queue,
    unique,
    wait_for_depth,
)

pytestmark = pytest.mark.sockets


def exists(client: Client, queue: str) -> bool:
    try:
        client.channel().queue_declare(queue, passive=True)
    except Exception as error:
        assert getattr(error, "reply_code", None) == 404, error
        return False
    return True


def test_a_server_named_queue_gets_a_name_of_its_own(channel: BlockingChannel) -> None:
    first, second = temporary_queue(channel), temporary_queue(channel)
    assert first.startswith("amq.gen-")
    assert first != second


def test_an_empty_queue_name_means_the_queue_declared_last_on_the_channel(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.queue_bind("", "amq.direct", routing_key=queue)
    publish(channel, queue, b"by the short name", exchange="amq.direct")
    method, _, body = channel.basic_get("", auto_ack=True)
    assert method is not None and body == b"by the short name"


def test_an_empty_queue_name_on_a_channel_that_declared_none_is_not_found(channel: BlockingChannel) -> None:
    with channel_closed(404):
        channel.basic_get("")


def test_declare_tells_messages_and_consumers(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    for _ in range(3):
        publish(channel, queue, b"x")
    wait_for_depth(channel, queue, 3)
    consume(channel, queue)
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 1


def test_a_passive_declare_of_a_missing_queue_is_not_found(channel: BlockingChannel) -> None:
    with channel_closed(404, "no queue 'missing.queue' in vhost"):
        channel.queue_declare("missing.queue", passive=True)


def test_a_passive_declare_ignores_arguments_that_differ(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    assert channel.queue_declare(queue, passive=True, durable=True, arguments={"x-max-length": 3}).method.queue == queue


def test_purge_counts_what_it_removed_and_leaves_what_is_unacked(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    for body in (b"1", b"2", b"3"):
        publish(channel, queue, body)
    held = get(channel, queue, auto_ack=False)
    wait_for_depth(channel, queue, 2)
    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_nack(held.method.delivery_tag, requeue=True)
    assert get(channel, queue).body == b"1"


def test_delete_counts_what_was_in_the_queue(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(channel, queue, b"x")
    wait_for_depth(channel, queue, 1)
    assert channel.queue_delete(queue).method.message_count == 1


def test_deleting_a_missing_queue_is_no_error(channel: BlockingChannel) -> None:
    assert channel.queue_delete(unique("missing")).method.message_count == 0


def test_delete_if_empty_is_refused_while_there_are_messages(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(channel, queue, b"x")
    wait_for_depth(channel, queue, 1)
    with channel_closed(406, "not empty"):
        channel.queue_delete(queue, if_empty=True)


def test_delete_if_unused_is_refused_while_there_are_consumers(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    consume(channel, queue)
    with channel_closed(406, "in use"):
        channel.queue_delete(queue, if_unused=True)


def test_delete_if_unused_and_if_empty_succeed_on_an_idle_queue(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.queue_delete(queue, if_unused=True, if_empty=True)
    with channel_closed(404):
        channel.queue_declare(queue, passive=True)


@pytest.mark.parametrize("differs", [{}, {"durable": True}, {"arguments": {"x-max-length": 1}}])
def test_a_plain_queue_cannot_be_declared_exclusive_whatever_else_differs(
    channel: BlockingChannel, differs: dict[str, Any]
) -> None:
    queue = unique("plain")
    channel.queue_declare(queue, auto_delete=True)
    try:
        with channel_closed(405, f"'{queue}'"):
            channel.connection.channel().queue_declare(queue, exclusive=True, **differs)
    finally:
        channel.queue_delete(queue)


@pytest.mark.parametrize("attempt", ["declare", "passive", "consume", "get", "bind", "purge", "delete"])
def test_an_exclusive_queue_is_locked_to_other_connections(
    client: Client, channel: BlockingChannel, attempt: str
) -> None:
    queue = unique("exclusive")
    channel.queue_declare(queue, exclusive=True)
    other = client.channel()
    with channel_closed(405, f"'{queue}'"):
        match attempt:
            case "declare":
                other.queue_declare(queue, exclusive=True)
            case "passive":
                other.queue_declare(queue, passive=True)
            case "consume":
                consume(other, queue)
            case "get":
                other.basic_get(queue)
            case "bind":
                other.queue_bind(queue, "amq.direct", "key")
            case "purge":
                other.queue_purge(queue)
            case "delete":
                other.queue_delete(queue)


def test_anybody_may_publish_to_an_exclusive_queue(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(client.channel(), queue, b"from outside")
    assert get(channel, queue).body == b"from outside"


def test_an_exclusive_queue_goes_with_its_connection(client: Client) -> None:
    owner = client.channel()
    queue = temporary_queue(owner)
    owner.connection.close()
    eventually(lambda: not exists(client, queue))


def test_an_exclusive_queue_stays_when_only_the_channel_closes(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    connection = channel.connection
    channel.close()
    assert connection.channel().queue_declare(queue, passive=True).method.queue == queue


def test_an_auto_delete_queue_goes_with_its_last_consumer(client: Client, channel: BlockingChannel) -> None:
    queue = unique("auto-delete")
    channel.queue_declare(queue, auto_delete=True)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="one")
    channel.basic_consume(queue, lambda *_: None, consumer_tag="two")
    channel.basic_cancel("one")
    assert depth(channel, queue) == 0
    channel.basic_cancel("two")
    eventually(lambda: not exists(client, queue))


def test_an_auto_delete_queue_that_never_had_a_consumer_stays(client: Client) -> None:
    queue, first = unique("auto-delete"), client.channel()
    first.queue_declare(queue, auto_delete=True)
    first.connection.close()
    channel = client.channel()
    assert depth(channel, queue) == 0
    channel.queue_delete(queue)


def test_a_name_beginning_with_amq_is_reserved(channel: BlockingChannel) -> None:
    with channel_closed(403, "amq.mine"):
        channel.queue_declare("amq.mine")


def test_a_declare_with_equal_arguments_is_accepted_again(channel: BlockingChannel) -> None:
    queue, arguments = (
        unique("equal"),
        {"x-max-length": 5, "x-message-ttl": 60000, "x-dead-letter-exchange": "amq.fanout"},
    )
    for _ in range(2):
        assert channel.queue_declare(queue, auto_delete=True, arguments=arguments).method.queue == queue
    channel.queue_delete(queue)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-message-ttl", 1000),
        ("x-expires", 60000),
        ("x-max-length", 10),
        ("x-max-length-bytes", 10),
        ("x-overflow", "reject-publish"),
        ("x-max-priority", 5),
        ("x-dead-letter-exchange", "amq.fanout"),
        ("x-single-active-consumer", True),
        ("x-queue-mode", "lazy"),
    ],
)
def test_a_declare_that_differs_names_the_argument(channel: BlockingChannel, argument: str, value: Any) -> None:
    queue = unique("differs")
    channel.queue_declare(queue, exclusive=True)
    with channel_closed(406, f"inequivalent arg '{argument}' for queue '{queue}' in vhost '/'"):
        channel.queue_declare(queue, exclusive=True, arguments={argument: value})


@pytest.mark.parametrize("argument", ["durable", "auto_delete"])
def test_a_declare_that_differs_in_a_flag_names_it(channel: BlockingChannel, argument: str) -> None:
    queue = unique("flags")
    channel.queue_declare(queue)
    connection = channel.connection
    with channel_closed(406, f"inequivalent arg '{argument}' for queue '{queue}'"):
        channel.queue_declare(queue, **{argument: True})
    connection.channel().queue_delete(queue)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-message-ttl", -1),
        ("x-message-ttl", "soon"),
        ("x-expires", 0),
        ("x-max-length", -1),
        ("x-max-length", "many"),
        ("x-overflow", "drop-tail"),
        ("x-max-priority", 256),
        ("x-max-priority", -1),
        ("x-dead-letter-exchange", 7),
        ("x-dead-letter-routing-key", "key-without-exchange"),
        ("x-single-active-consumer", "yes"),
        ("x-queue-type", "unheard-of"),
    ],
)
def test_an_argument_with_a_bad_value_is_refused_by_name(channel: BlockingChannel, argument: str, value: Any) -> None:
    with channel_closed(406, argument):
        channel.queue_declare(unique("bad"), auto_delete=True, arguments={argument: value})


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_both_queue_types_carry_messages(channel: BlockingChannel, kind: str) -> None:
    queue = unique(kind)
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    try:
        publish(channel, queue, b"durable", delivery_mode=2)
        received = get(channel, queue, auto_ack=False)
        assert (received.body, received.properties.delivery_mode) == (b"durable", 2)
        channel.basic_ack(received.method.delivery_tag)
    finally:
        channel.queue_delete(queue)


def test_the_queue_type_is_part_of_the_equivalence_check(channel: BlockingChannel) -> None:
    queue, connection = unique("type"), channel.connection
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "classic"})
    with channel_closed(406, "inequivalent arg 'x-queue-type'"):
        channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    connection.channel().queue_delete(queue)


def test_get_on_an_empty_queue_says_empty(channel: BlockingChannel) -> None:
    assert channel.basic_get(temporary_queue(channel)) == (None, None, None)


def test_get_tells_how_many_messages_are_left(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    for _ in range(3):
        publish(channel, queue)
    wait_for_depth(channel, queue, 3)
    assert get(channel, queue).method.message_count == 2


def test_messages_stay_in_order_and_requeued_ones_return_to_their_place(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    for number in range(5):
        publish(channel, queue, str(number))
    first, second = (get(channel, queue, auto_ack=False) for _ in range(2))
    channel.basic_nack(second.method.delivery_tag, requeue=True)
    channel.basic_nack(first.method.delivery_tag, requeue=True)
    again = get(channel, queue, auto_ack=False)
    assert again.body == b"0" and again.method.redelivered
    channel.basic_nack(again.method.delivery_tag, requeue=True)
    assert drain(channel, queue) == [b"0", b"1", b"2", b"3", b"4"]


def test_every_property_survives_the_way_through_a_queue(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    properties: dict[str, Any] = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": {
            "text": "grüß dich",
            "int": -5,
            "long": 2**40,
            "true": True,
            "nothing": None,
            "list": [1, "two", [3]],
            "table": {"inner": {"deep": 1}},
            "bytes": b"\x00\xff",
        },
        "delivery_mode": 1,
        "priority": 9,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "k",
    }
    publish(channel, queue, b"\x00\xce\xff", **properties)
    received = get(channel, queue)
    assert received.body == b"\x00\xce\xff"
    assert {name: getattr(received.properties, name) for name in properties} == properties


def test_a_connection_that_dies_gives_its_unacked_messages_back(client: Client) -> None:
    queue, channel = unique("dies"), client.channel()
    channel.queue_declare(queue)
    publish(channel, queue, b"kept")
    holder = client.channel()
    get(holder, queue, auto_ack=False)
    holder.connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)  # no goodbye: the client just vanishes
    received = get(channel, queue)
    assert received.body == b"kept" and received.method.redelivered
    channel.queue_delete(queue)


def test_a_channel_that_closes_gives_its_unacked_messages_back(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(channel, queue, b"kept")
    held = channel.connection.channel()
    get(held, queue, auto_ack=False)
    held.close()
    assert get(channel, queue).method.redelivered


def test_deleting_a_queue_under_unacked_messages_leaves_their_acks_harmless(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(channel, queue, b"x")
    received = get(channel, queue, auto_ack=False)
    channel.queue_delete(queue)
    channel.basic_ack(received.method.delivery_tag)
    assert temporary_queue(channel)


def test_unacked_messages_do_not_count_as_ready(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    received = consume(channel, queue)
    publish(channel, queue, b"x")
    pump(channel, lambda: received)
    assert depth(channel, queue) == 0
