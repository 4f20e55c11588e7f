"""Queue kinds that RabbitMQ does not have: last value and deduplication, with pika."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.support.clients.pika_client import (
    Client,
    arrive,
    bodies,
    channel_closed,
    consume,
    depth,
    drain,
    get,
    publish,
    temporary_queue,
    unique,
)

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("openclust_only")]


# Last value


def test_a_last_value_queue_keeps_the_newest_message_of_each_key(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_last_value_key="symbol")
    for symbol, price in (("A", "1"), ("B", "1"), ("A", "2"), ("C", "1"), ("A", "3")):
        publish(channel, queue, symbol + price, headers={"symbol": symbol})
    assert depth(channel, queue) == 3
    assert sorted(drain(channel, queue)) == [b"A3", b"B1", b"C1"]


def test_messages_without_the_key_do_not_replace_one_another(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_last_value_key="symbol")
    publish(channel, queue, b"1")
    publish(channel, queue, b"2", headers={"other": "x"})
    assert drain(channel, queue) == [b"1", b"2"]


def test_a_value_that_is_with_a_consumer_is_not_replaced(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_last_value_key="symbol")
    publish(channel, queue, b"old", headers={"symbol": "A"})
    held = get(channel, queue, auto_ack=False)
    publish(channel, queue, b"new", headers={"symbol": "A"})
    channel.basic_ack(held.method.delivery_tag)
    assert drain(channel, queue) == [b"new"]


def test_an_old_value_that_comes_back_gives_way_to_the_newer_one(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_last_value_key="symbol")
    publish(channel, queue, b"old", headers={"symbol": "A"})
    held = get(channel, queue, auto_ack=False)
    publish(channel, queue, b"new", headers={"symbol": "A"})
    assert depth(channel, queue) == 1
    channel.basic_nack(held.method.delivery_tag, requeue=True)
    assert drain(channel, queue) == [b"new"]


def test_a_waiting_consumer_of_a_last_value_queue_sees_every_value(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_last_value_key="symbol")
    inbox = consume(channel, queue, auto_ack=True)
    for number in (1, 2, 3):
        publish(channel, queue, str(number), headers={"symbol": "A"})
        arrive(channel, inbox, number)
    assert bodies(inbox) == [b"1", b"2", b"3"]


def test_a_last_value_key_must_be_a_name(channel: BlockingChannel) -> None:
    with channel_closed(406, "x-last-value-key"):
        channel.queue_declare(unique("bad"), exclusive=True, arguments={"x-last-value-key": 5})


def test_a_last_value_key_is_part_of_the_equivalence_check(channel: BlockingChannel) -> None:
    queue = unique("last-value")
    channel.queue_declare(queue, exclusive=True, arguments={"x-last-value-key": "symbol"})
    with channel_closed(406, "inequivalent arg 'x-last-value-key'"):
        channel.queue_declare(queue, exclusive=True, arguments={"x-last-value-key": "other"})


# Ring


def test_a_ring_forgets_the_oldest(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_max_length=3, x_overflow="drop-head")
    channel.confirm_delivery()
    for number in range(10):
        publish(channel, queue, str(number))
    assert drain(channel, queue) == [b"7", b"8", b"9"]


# Deduplication


def test_a_repeated_message_id_is_taken_once_and_confirmed_twice(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_deduplication=True)
    channel.confirm_delivery()
    for message_id in ("a", "b", "a", "a"):
        publish(channel, queue, message_id, message_id=message_id)
    assert drain(channel, queue) == [b"a", b"b"]


def test_a_consumed_message_is_still_remembered(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_deduplication=True)
    publish(channel, queue, b"x", message_id="a")
    get(channel, queue)
    publish(channel, queue, b"x", message_id="a")
    assert depth(channel, queue) == 0


def test_messages_without_an_id_are_never_duplicates(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_deduplication=True)
    publish(channel, queue, b"x")
    publish(channel, queue, b"x")
    assert len(drain(channel, queue)) == 2


def test_a_header_can_be_the_id(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_deduplication=True, x_deduplication_header="order")
    for order in (7, 8, 7):
        publish(channel, queue, str(order), headers={"order": order}, message_id="the same")
    assert drain(channel, queue) == [b"7", b"8"]


def test_the_window_forgets_the_oldest_id_when_it_is_full(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_deduplication=True, x_deduplication_size=2)
    for message_id in ("a", "b", "c", "a", "c"):
        publish(channel, queue, message_id, message_id=message_id)
    assert drain(channel, queue) == [b"a", b"b", b"c", b"a"]


def test_the_window_forgets_an_id_after_its_time(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_deduplication=True, x_deduplication_ttl=150)
    for _ in range(2):
        publish(channel, queue, b"x", message_id="a")
    assert len(drain(channel, queue)) == 1
    channel.connection.sleep(0.25)
    publish(channel, queue, b"x", message_id="a")
    assert len(drain(channel, queue)) == 1


def test_a_refused_message_may_be_tried_again(channel: BlockingChannel) -> None:
    arguments = {"x_max_length": 1, "x_overflow": "reject-publish"}
    queue = temporary_queue(channel, x_message_deduplication=True, **arguments)
    channel.confirm_delivery()
    publish(channel, queue, b"1", message_id="a")
    with pytest.raises(NackError):
        publish(channel, queue, b"2", message_id="b")
    get(channel, queue)
    publish(channel, queue, b"2", message_id="b")
    assert drain(channel, queue) == [b"2"]


def test_a_queue_that_does_not_ask_for_it_takes_repetitions(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    for _ in range(2):
        publish(channel, queue, b"x", message_id="a")
    assert len(drain(channel, queue)) == 2
