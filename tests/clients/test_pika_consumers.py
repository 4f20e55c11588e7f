"""Delivery, acknowledgement, prefetch, and who of several consumers gets what, with pika."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import (
    Client,
    arrive,
    bodies,
    channel_closed,
    connection_closed,
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

QUIET_S = 0.15  # long enough that a delivery that must not come would have come


def fill(channel: BlockingChannel, queue: str, count: int) -> None:
    for number in range(count):
        publish(channel, queue, str(number))
    wait_for_depth(channel, queue, count)


def shared_queue(channel: BlockingChannel, **arguments: Any) -> str:
    """A queue that several connections may consume from; goes with its last consumer."""
    name = unique("shared")
    channel.queue_declare(
        name, auto_delete=True, arguments={key.replace("_", "-"): value for key, value in arguments.items()}
    )
    return name


def settle(*channels: BlockingChannel, seconds: float = QUIET_S) -> None:
    for channel in channels:
        channel.connection.sleep(seconds / len(channels))


# Tags and cancelling


def test_the_broker_names_a_consumer_that_has_no_name(client: Client) -> None:
    # BlockingChannel makes names up itself, so ask below it.
    channel = client.channel()
    queue, tags = temporary_queue(channel), []
    channel._impl._rpc(
        pika.spec.Basic.Consume(queue=queue, consumer_tag=""),
        lambda frame: tags.append(frame.method.consumer_tag),
        [pika.spec.Basic.ConsumeOk],
    )
    pump(channel, lambda: tags)
    assert tags[0].startswith("amq.ctag-")


def test_a_consumer_tag_in_use_is_not_allowed(client: Client) -> None:
    channel = client.channel()
    queue = temporary_queue(channel)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="mine")
    with connection_closed(530, "'mine'"):
        channel._impl._send_method(pika.spec.Basic.Consume(queue=queue, consumer_tag="mine"))
        pump(channel, lambda: False)


def test_a_cancelled_consumer_gets_nothing_more_and_may_still_ack(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    channel.basic_qos(prefetch_count=1)
    received: list[Any] = []
    channel.basic_consume(queue, lambda _, method, properties, body: received.append(method), consumer_tag="mine")
    publish(channel, queue, b"1")
    pump(channel, lambda: received)
    channel.basic_cancel("mine")
    channel.basic_ack(received[0].delivery_tag)
    publish(channel, queue, b"2")
    wait_for_depth(channel, queue, 1)
    assert len(received) == 1


def test_cancelling_an_unknown_consumer_is_no_error(client: Client) -> None:
    channel = client.channel()
    done: list[Any] = []
    channel._impl._rpc(pika.spec.Basic.Cancel(consumer_tag="unknown"), done.append, [pika.spec.Basic.CancelOk])
    pump(channel, lambda: done)


def test_a_consumer_is_told_when_its_queue_is_deleted(client: Client, channel: BlockingChannel) -> None:
    queue = shared_queue(channel)
    cancelled: list[Any] = []
    listener = client.channel()
    listener.add_on_cancel_callback(cancelled.append)
    tag = listener.basic_consume(queue, lambda *_: None)
    channel.queue_delete(queue)
    pump(listener, lambda: cancelled)
    assert cancelled[0].method.consumer_tag == tag
    assert temporary_queue(listener)  # the channel lives on


# Acknowledgement


def test_ack_multiple_acks_everything_up_to_the_tag(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 4)
    tags = [get(channel, queue, auto_ack=False).method.delivery_tag for _ in range(4)]
    channel.basic_ack(tags[2], multiple=True)
    channel.basic_recover(requeue=True)
    assert drain(channel, queue) == [b"3"]


def test_ack_of_tag_zero_acks_everything(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 3)
    for _ in range(3):
        get(channel, queue, auto_ack=False)
    channel.basic_ack(0, multiple=True)
    channel.basic_recover(requeue=True)
    assert drain(channel, queue) == []


def test_nack_multiple_requeues_everything_up_to_the_tag(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 4)
    tags = [get(channel, queue, auto_ack=False).method.delivery_tag for _ in range(3)]
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    assert drain(channel, queue) == [b"0", b"1", b"3"]


def test_reject_without_requeue_drops_the_message(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 1)
    channel.basic_reject(get(channel, queue, auto_ack=False).method.delivery_tag, requeue=False)
    assert drain(channel, queue) == []


@pytest.mark.parametrize("act", ["ack", "ack twice", "nack", "reject", "ack after auto ack"])
def test_an_unknown_delivery_tag_is_a_precondition_failed(channel: BlockingChannel, act: str) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 1)
    tag = get(channel, queue, auto_ack=act == "ack after auto ack").method.delivery_tag
    with channel_closed(406, "unknown delivery tag"):
        match act:
            case "ack":
                channel.basic_ack(tag + 1)
            case "ack twice":
                channel.basic_ack(tag)
                channel.basic_ack(tag)
            case "nack":
                channel.basic_nack(tag + 1)
            case "reject":
                channel.basic_reject(tag + 1)
            case "ack after auto ack":
                channel.basic_ack(tag)
        depth(channel, queue)


def test_delivery_tags_belong_to_their_channel(client: Client, channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 1)
    tag = get(channel, queue, auto_ack=False).method.delivery_tag
    other = channel.connection.channel()
    with channel_closed(406, "unknown delivery tag"):
        other.basic_ack(tag)
        depth(other, queue)


def test_redelivered_is_set_on_the_second_delivery_only(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    inbox = consume(channel, queue)
    publish(channel, queue, b"x")
    pump(channel, lambda: inbox)
    channel.basic_nack(inbox[0].method.delivery_tag, requeue=True)
    pump(channel, lambda: len(inbox) == 2)
    assert [delivery.method.redelivered for delivery in inbox] == [False, True]


def test_recover_brings_unacked_messages_again(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    inbox = consume(channel, queue)
    publish(channel, queue, b"1")
    publish(channel, queue, b"2")
    pump(channel, lambda: len(inbox) == 2)
    channel.basic_ack(inbox[0].method.delivery_tag)
    channel.basic_recover(requeue=True)
    pump(channel, lambda: len(inbox) == 3)
    assert (inbox[2].body, inbox[2].method.redelivered) == (b"2", True)


def test_recover_to_the_same_consumer_is_not_implemented(client: Client) -> None:
    # As in RabbitMQ: it would have to keep the messages out of the queue.
    channel = client.channel()
    with connection_closed(540):
        channel.basic_recover(requeue=False)


def test_an_auto_ack_consumer_owes_no_acks(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    inbox = consume(channel, queue, auto_ack=True)
    fill_without_waiting(channel, queue, 10)
    pump(channel, lambda: len(inbox) == 10)
    channel.basic_recover(requeue=True)
    settle(channel)
    assert len(inbox) == 10


def fill_without_waiting(channel: BlockingChannel, queue: str, count: int) -> None:
    for number in range(count):
        publish(channel, queue, str(number))


# Prefetch


def test_prefetch_bounds_what_a_consumer_holds(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=3)
    inbox = consume(channel, queue)
    pump(channel, lambda: len(inbox) == 3)
    settle(channel)
    assert len(inbox) == 3
    channel.basic_ack(inbox[1].method.delivery_tag, multiple=True)
    pump(channel, lambda: len(inbox) == 5)
    settle(channel)
    assert bodies(inbox) == [b"0", b"1", b"2", b"3", b"4"]


def test_prefetch_without_global_is_for_each_new_consumer(channel: BlockingChannel) -> None:
    queues = [temporary_queue(channel) for _ in range(3)]
    for queue in queues:
        fill(channel, queue, 5)
    channel.basic_qos(prefetch_count=2)
    first, second = consume(channel, queues[0]), consume(channel, queues[1])
    channel.basic_qos(prefetch_count=1)  # the two above keep theirs
    third = consume(channel, queues[2])
    pump(channel, lambda: (len(first), len(second), len(third)) == (2, 2, 1))
    settle(channel)
    assert (len(first), len(second), len(third)) == (2, 2, 1)


def test_prefetch_with_global_is_shared_by_the_channel(channel: BlockingChannel) -> None:
    queues = [temporary_queue(channel) for _ in range(2)]
    for queue in queues:
        fill(channel, queue, 5)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = consume(channel, queues[0]), consume(channel, queues[1])
    pump(channel, lambda: len(first) + len(second) == 3)
    settle(channel)
    assert len(first) + len(second) == 3


def test_both_prefetches_hold_at_once(channel: BlockingChannel) -> None:
    queues = [temporary_queue(channel) for _ in range(2)]
    for queue in queues:
        fill(channel, queue, 5)
    channel.basic_qos(prefetch_count=2)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = consume(channel, queues[0]), consume(channel, queues[1])
    pump(channel, lambda: len(first) + len(second) == 3)
    settle(channel)
    assert sorted((len(first), len(second))) == [1, 2]


def test_raising_the_channels_prefetch_brings_more(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 5)
    channel.basic_qos(prefetch_count=1, global_qos=True)
    inbox = consume(channel, queue)
    pump(channel, lambda: len(inbox) == 1)
    channel.basic_qos(prefetch_count=4, global_qos=True)
    pump(channel, lambda: len(inbox) == 4)
    channel.basic_qos(prefetch_count=0, global_qos=True)
    pump(channel, lambda: len(inbox) == 5)


def test_prefetch_does_not_bound_get_or_auto_ack(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    fill(channel, queue, 6)
    channel.basic_qos(prefetch_count=1)
    assert [get(channel, queue, auto_ack=False).body for _ in range(3)] == [b"0", b"1", b"2"]
    inbox = consume(channel, queue, auto_ack=True)
    pump(channel, lambda: len(inbox) == 3)


def test_a_prefetch_of_the_channel_that_is_used_up_holds_back_its_consumers_with_auto_ack(
    channel: BlockingChannel,
) -> None:
    acked, free = temporary_queue(channel), temporary_queue(channel)
    channel.basic_qos(prefetch_count=1, global_qos=True)
    held, inbox = consume(channel, acked), consume(channel, free, auto_ack=True)
    publish(channel, acked, b"held")
    pump(channel, lambda: len(held) == 1)
    fill(channel, free, 2)
    settle(channel)
    assert bodies(inbox) == []
    channel.basic_ack(held[0].method.delivery_tag)
    pump(channel, lambda: bodies(inbox) == [b"0", b"1"])


def test_a_prefetch_in_bytes_is_not_implemented(client: Client) -> None:
    with connection_closed(540, "prefetch_size"):
        client.channel().basic_qos(prefetch_size=1000)


# Several consumers


def test_consumers_take_turns(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    inboxes = [consume(channel, queue) for _ in range(3)]
    fill_without_waiting(channel, queue, 9)
    pump(channel, lambda: sum(map(len, inboxes)) == 9)
    assert [len(inbox) for inbox in inboxes] == [3, 3, 3]


def test_a_busy_consumer_is_passed_over(client: Client, channel: BlockingChannel) -> None:
    queue, idle = shared_queue(channel), client.channel()
    channel.basic_qos(prefetch_count=1)
    busy_inbox, idle_inbox = consume(channel, queue), consume(idle, queue)
    fill_without_waiting(channel, queue, 10)
    pump(idle, lambda: len(idle_inbox) == 9)
    pump(channel, lambda: len(busy_inbox) == 1)


def test_an_exclusive_consumer_stays_alone(client: Client, channel: BlockingChannel) -> None:
    queue, other = shared_queue(channel), client.channel()
    channel.basic_consume(queue, lambda *_: None, exclusive=True, consumer_tag="alone")
    with channel_closed(403, f"'{queue}'", "exclusive use"):
        consume(other, queue)
    third = channel.connection.channel()
    with channel_closed(403, "exclusive use"):
        consume(third, queue, exclusive=True)


def test_exclusive_use_is_refused_while_others_consume(client: Client, channel: BlockingChannel) -> None:
    queue, other = shared_queue(channel), client.channel()
    consume(channel, queue)
    with channel_closed(403, "exclusive use"):
        consume(other, queue, exclusive=True)


def test_a_higher_consumer_priority_is_served_first(client: Client, channel: BlockingChannel) -> None:
    queue, high, low = shared_queue(channel), client.channel(), client.channel()
    high.basic_qos(prefetch_count=2)
    low_inbox = consume(low, queue, arguments={"x-priority": -1})
    high_inbox = consume(high, queue, arguments={"x-priority": 10})
    fill_without_waiting(channel, queue, 5)
    pump(high, lambda: len(high_inbox) == 2)
    pump(low, lambda: len(low_inbox) == 3)  # only when the other is full
    assert bodies(high_inbox) == [b"0", b"1"]


def test_a_single_active_consumer_gets_everything_until_it_goes(client: Client, channel: BlockingChannel) -> None:
    queue = unique("sac")
    channel.queue_declare(queue, arguments={"x-single-active-consumer": True})
    active, standby = client.channel(), client.channel()
    active_inbox = consume(active, queue, auto_ack=True, consumer_tag="active")
    standby_inbox = consume(standby, queue, auto_ack=True)
    fill_without_waiting(channel, queue, 4)
    pump(active, lambda: len(active_inbox) == 4)
    settle(standby)
    assert standby_inbox == []
    active.basic_cancel("active")
    fill_without_waiting(channel, queue, 2)
    pump(standby, lambda: len(standby_inbox) == 2)
    channel.queue_delete(queue)


def test_a_single_active_consumer_refuses_exclusive_ones(channel: BlockingChannel) -> None:
    queue = shared_queue(channel, x_single_active_consumer=True)
    with channel_closed(403, f"'{queue}'"):
        consume(channel, queue, exclusive=True)


def test_the_standby_gets_what_the_dead_consumer_held(client: Client, channel: BlockingChannel) -> None:
    queue = unique("sac")
    channel.queue_declare(queue, arguments={"x-single-active-consumer": True})
    active, standby = client.channel(), client.channel()
    held, taken_over = consume(active, queue), consume(standby, queue)
    fill_without_waiting(channel, queue, 2)
    pump(active, lambda: len(held) == 2)
    active.connection.close()
    pump(standby, lambda: len(taken_over) == 2)
    assert [(delivery.body, delivery.method.redelivered) for delivery in taken_over] == [(b"0", True), (b"1", True)]
    channel.queue_delete(queue)


def test_a_consumer_that_sits_on_a_message_too_long_loses_its_channel(
    channel: BlockingChannel, openclust_only: None
) -> None:
    # RabbitMQ 3.10 knows a timeout for the whole broker only.
    queue = unique("timeout")
    channel.queue_declare(queue, arguments={"x-consumer-timeout": 300})
    publish(channel, queue, b"x")
    inbox = consume(channel, queue)
    pump(channel, lambda: inbox)
    connection = channel.connection
    with channel_closed(406, "delivery acknowledgement", "timed out"):
        eventually(lambda: depth(channel, queue))  # stays 0: ends with the channel
    other = connection.channel()
    assert get(other, queue).method.redelivered
    other.queue_delete(queue)


def test_a_consumer_that_acks_in_time_keeps_its_channel(channel: BlockingChannel, openclust_only: None) -> None:
    queue = temporary_queue(channel, x_consumer_timeout=400)
    inbox = consume(channel, queue)
    for number in range(6):
        publish(channel, queue, str(number))
        arrive(channel, inbox, number + 1)
        channel.connection.sleep(0.1)
        channel.basic_ack(inbox[-1].method.delivery_tag)
    assert depth(channel, queue) == 0


# Flow


def test_a_stopped_flow_pauses_deliveries(channel: BlockingChannel, openclust_only: None) -> None:
    # RabbitMQ answers active=false with 540; 0-9-1 says that the server must honour it.
    queue = temporary_queue(channel)
    inbox = consume(channel, queue, auto_ack=True)
    assert channel.flow(False) is False
    publish(channel, queue, b"x")
    settle(channel)
    assert inbox == []
    assert channel.flow(True) is True
    arrive(channel, inbox, 1)


def test_a_flow_that_is_on_may_be_switched_on(channel: BlockingChannel) -> None:
    assert channel.flow(True) is True
