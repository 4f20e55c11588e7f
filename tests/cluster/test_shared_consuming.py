"""Consuming from shared queues at any broker as at the root: acks, prefetch, priorities, redelivery, cancellation."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.clients.pika_client import Received, bodies, channel_closed, consume, depth, publish, unique
from tests.support.cluster.whole_cluster import EVERY_PLACE, Place, WholeCluster, pump, settle

pytestmark = pytest.mark.sockets

every_place = pytest.mark.parametrize("roles", EVERY_PLACE, ids="-".join)


def shared(at: Place, **arguments: Any) -> str:
    """A shared queue; the publisher waits for confirms from now on."""
    at.publisher.confirm_delivery()
    spelled = {key.replace("_", "-"): value for key, value in arguments.items()}
    return str(at.declarer.queue_declare(unique("shared"), arguments=spelled).method.queue)


def send(at: Place, queue: str, *texts: str, **properties: Any) -> None:
    for text in texts:
        publish(at.publisher, queue, text, **properties)


def take(channel: BlockingChannel, queue: str, **options: Any) -> Received:
    """basic.get of a message that is there."""
    method, properties, body = channel.basic_get(queue, **options)
    assert method is not None, "the queue is empty"
    return Received(method, properties, body)


def counts(channel: BlockingChannel, queue: str) -> tuple[int, int]:
    ok = channel.queue_declare(queue, passive=True).method
    return ok.message_count, ok.consumer_count


def wait_for_counts(channel: BlockingChannel, queue: str, messages: int, consumers: int) -> None:
    pump([channel], lambda: counts(channel, queue) == (messages, consumers))


@every_place
def test_consumers_get_what_is_published_in_order_and_acks_remove_it(at: Place) -> None:
    queue = shared(at)
    send(at, queue, "before")
    inbox = consume(at.consumer, queue)
    send(at, queue, "after", "last", content_type="text/plain", headers={"n": 1})
    pump([at.consumer], lambda: len(inbox) == 3)
    assert bodies(inbox) == [b"before", b"after", b"last"]
    last = inbox[-1]
    assert (last.method.exchange, last.method.routing_key, last.method.redelivered) == ("", queue, False)
    assert (last.properties.content_type, last.headers) == ("text/plain", {"n": 1})
    at.consumer.basic_ack(inbox[-1].method.delivery_tag, multiple=True)
    at.consumer.close()
    # Nothing comes back: all was acked.
    wait_for_counts(at.declarer, queue, 0, 0)
    assert at.declarer.queue_delete(queue).method.message_count == 0


@every_place
def test_what_is_not_acked_comes_back_redelivered_when_its_channel_closes(at: Place) -> None:
    queue = shared(at)
    send(at, queue, "one", "two", "three")
    inbox = consume(at.consumer, queue)
    pump([at.consumer], lambda: len(inbox) == 3)
    at.consumer.basic_ack(inbox[1].method.delivery_tag)
    at.consumer.close()
    wait_for_counts(at.declarer, queue, 2, 0)
    again = [take(at.publisher, queue, auto_ack=True) for _ in range(2)]
    assert [(each.body, each.method.redelivered) for each in again] == [(b"one", True), (b"three", True)]
    at.declarer.queue_delete(queue)


@every_place
def test_what_is_not_acked_comes_back_when_its_connection_is_lost(at: Place, whole: WholeCluster) -> None:
    queue = shared(at)
    send(at, queue, "one", "two")
    leaving = whole.connect_like(at.consumer)
    channel = leaving.channel()
    inbox = consume(channel, queue)
    pump([channel], lambda: len(inbox) == 2)
    leaving.close()
    wait_for_counts(at.declarer, queue, 2, 0)
    at.declarer.queue_delete(queue)


@every_place
def test_without_acks_a_delivery_is_the_end_of_it(at: Place) -> None:
    queue = shared(at)
    send(at, queue, "before")
    inbox = consume(at.consumer, queue, auto_ack=True)
    send(at, queue, *map(str, range(50)))
    pump([at.consumer], lambda: len(inbox) == 51)
    assert bodies(inbox) == [b"before", *(b"%d" % number for number in range(50))]
    at.consumer.close()
    wait_for_counts(at.declarer, queue, 0, 0)
    at.declarer.queue_delete(queue)


@every_place
def test_get_fetches_one_message_and_tells_how_many_are_left(at: Place) -> None:
    queue = shared(at)
    assert at.consumer.basic_get(queue) == (None, None, None)
    send(at, queue, "one", "two", "three", headers={"n": 1})
    first = take(at.consumer, queue)
    assert (first.body, first.method.message_count, first.method.redelivered) == (b"one", 2, False)
    assert (first.method.exchange, first.method.routing_key, first.headers) == ("", queue, {"n": 1})
    second = take(at.consumer, queue, auto_ack=True)
    assert (second.body, second.method.message_count) == (b"two", 1)
    at.consumer.basic_ack(first.method.delivery_tag)
    third = take(at.consumer, queue)
    at.consumer.basic_nack(third.method.delivery_tag, requeue=True)
    wait_for_counts(at.declarer, queue, 1, 0)
    again = take(at.publisher, queue, auto_ack=True)
    assert (again.body, again.method.redelivered) == (b"three", True)
    at.declarer.queue_delete(queue)


@every_place
def test_a_fetched_message_comes_back_when_its_channel_closes(at: Place) -> None:
    queue = shared(at)
    send(at, queue, "one", "two")
    take(at.consumer, queue)
    at.consumer.close()
    wait_for_counts(at.declarer, queue, 2, 0)
    assert take(at.declarer, queue, auto_ack=True).body == b"one"
    at.declarer.queue_delete(queue)


@every_place
def test_a_nack_with_requeue_comes_again_and_one_without_is_a_dead_letter(at: Place) -> None:
    grave = at.declarer.queue_declare(unique("grave")).method.queue
    queue = shared(at, x_dead_letter_exchange="", x_dead_letter_routing_key=grave)
    send(at, queue, "one", "two", "three")
    inbox = consume(at.consumer, queue)
    pump([at.consumer], lambda: len(inbox) == 3)
    at.consumer.basic_nack(inbox[1].method.delivery_tag, requeue=True)
    pump([at.consumer], lambda: len(inbox) == 4)
    assert (inbox[3].body, inbox[3].method.redelivered) == (b"two", True)
    at.consumer.basic_reject(inbox[0].method.delivery_tag, requeue=False)
    at.consumer.basic_nack(inbox[3].method.delivery_tag, multiple=True, requeue=False)
    wait_for_counts(at.declarer, grave, 3, 0)
    at.consumer.close()
    wait_for_counts(at.declarer, queue, 0, 0)
    dead = [take(at.publisher, grave, auto_ack=True) for _ in range(3)]
    assert sorted(bodies(dead)) == [b"one", b"three", b"two"]
    assert all(each.headers["x-first-death-reason"] == "rejected" for each in dead)
    at.declarer.queue_delete(queue)
    at.declarer.queue_delete(grave)


@every_place
def test_a_rejected_message_goes_to_the_next_consumer(at: Place) -> None:
    queue = shared(at)
    inbox = consume(at.consumer, queue)
    send(at, queue, "one")
    pump([at.consumer], lambda: inbox)
    other = consume(at.declarer, queue)
    at.consumer.basic_cancel(at.consumer.consumer_tags[0])
    at.consumer.basic_reject(inbox[0].method.delivery_tag, requeue=True)
    pump([at.consumer, at.declarer], lambda: other)
    assert (other[0].body, other[0].method.redelivered) == (b"one", True)
    at.declarer.queue_delete(queue)


@every_place
def test_recover_gives_all_that_is_not_acked_again(at: Place) -> None:
    queue = shared(at)
    send(at, queue, "one", "two", "three")
    inbox = consume(at.consumer, queue)
    pump([at.consumer], lambda: len(inbox) == 3)
    at.consumer.basic_ack(inbox[0].method.delivery_tag)
    at.consumer.basic_recover(requeue=True)
    pump([at.consumer], lambda: len(inbox) == 5)
    assert [(each.body, each.method.redelivered) for each in inbox[3:]] == [(b"two", True), (b"three", True)]
    at.declarer.queue_delete(queue)


@every_place
def test_no_more_than_the_prefetch_is_on_its_way(at: Place) -> None:
    queue = shared(at)
    send(at, queue, *map(str, range(10)))
    at.consumer.basic_qos(prefetch_count=3)
    inbox = consume(at.consumer, queue)
    pump([at.consumer], lambda: len(inbox) == 3)
    settle([at.consumer])
    assert bodies(inbox) == [b"0", b"1", b"2"]
    # What a consumer may not have yet is at the root, for anybody else.
    assert depth(at.declarer, queue) == 7
    at.consumer.basic_ack(inbox[1].method.delivery_tag, multiple=True)
    pump([at.consumer], lambda: len(inbox) == 5)
    settle([at.consumer])
    assert len(inbox) == 5
    assert depth(at.declarer, queue) == 5
    while len(inbox) < 10:
        at.consumer.basic_ack(inbox[-1].method.delivery_tag, multiple=True)
        seen = len(inbox)
        pump([at.consumer], lambda seen=seen: len(inbox) > seen)
    assert bodies(inbox) == [b"%d" % number for number in range(10)]
    at.declarer.queue_delete(queue)


@every_place
def test_two_consumers_at_two_brokers_share_a_queue(at: Place) -> None:
    queue = shared(at)
    here, there = consume(at.consumer, queue), consume(at.declarer, queue)
    wait_for_counts(at.publisher, queue, 0, 2)
    send(at, queue, *map(str, range(20)))
    pump([at.consumer, at.declarer], lambda: len(here) + len(there) >= 20)
    settle([at.consumer, at.declarer])
    assert sorted(map(int, bodies(here) + bodies(there))) == list(range(20))
    assert len(here) == len(there) == 10
    at.declarer.queue_delete(queue)


@every_place
def test_the_consumer_of_the_highest_priority_is_first(at: Place) -> None:
    queue = shared(at)
    at.consumer.basic_qos(prefetch_count=2)
    high = consume(at.consumer, queue, arguments={"x-priority": 5})
    low = consume(at.declarer, queue)
    wait_for_counts(at.publisher, queue, 0, 2)
    send(at, queue, *map(str, range(5)))
    pump([at.consumer, at.declarer], lambda: len(high) == 2 and len(low) == 3)
    assert (bodies(high), bodies(low)) == ([b"0", b"1"], [b"2", b"3", b"4"])
    at.declarer.queue_delete(queue)


@every_place
def test_a_single_active_consumer_is_followed_by_the_next(at: Place) -> None:
    queue = shared(at, x_single_active_consumer=True)
    active = consume(at.consumer, queue, auto_ack=True)
    spare = consume(at.declarer, queue, auto_ack=True)
    wait_for_counts(at.publisher, queue, 0, 2)
    send(at, queue, "one", "two")
    pump([at.consumer, at.declarer], lambda: len(active) == 2)
    assert not spare
    at.consumer.basic_cancel(at.consumer.consumer_tags[0])
    wait_for_counts(at.publisher, queue, 0, 1)
    send(at, queue, "three")
    pump([at.consumer, at.declarer], lambda: spare)
    assert (bodies(active), bodies(spare)) == ([b"one", b"two"], [b"three"])
    at.declarer.queue_delete(queue)


@every_place
def test_a_consumer_is_told_when_its_queue_is_deleted(at: Place) -> None:
    queue = shared(at)
    cancelled: list[str] = []
    at.consumer.add_on_cancel_callback(lambda method: cancelled.append(method.method.consumer_tag))
    consume(at.consumer, queue, consumer_tag="mine")
    wait_for_counts(at.publisher, queue, 0, 1)
    at.publisher.queue_delete(queue)
    pump([at.consumer], lambda: cancelled)
    assert cancelled == ["mine"]
    with channel_closed(404, queue):
        consume(at.consumer, queue)


@every_place
def test_a_cancelled_consumer_gets_nothing_more_and_may_still_ack(at: Place) -> None:
    queue = shared(at)
    inbox = consume(at.consumer, queue, consumer_tag="mine")
    send(at, queue, "one")
    pump([at.consumer], lambda: inbox)
    # pika gives back what came in after the cancel: nothing did.
    at.consumer.basic_cancel("mine")
    wait_for_counts(at.declarer, queue, 0, 0)
    send(at, queue, "two")
    settle([at.consumer])
    assert bodies(inbox) == [b"one"]
    at.consumer.basic_ack(inbox[0].method.delivery_tag)
    at.consumer.close()
    wait_for_counts(at.declarer, queue, 1, 0)
    at.declarer.queue_delete(queue)


@every_place
def test_an_exclusive_consumer_is_the_only_one_of_all_brokers(at: Place) -> None:
    queue = shared(at)
    consume(at.consumer, queue, exclusive=True)
    with channel_closed(403, queue):
        consume(at.publisher, queue)
    at.consumer.close()
    wait_for_counts(at.declarer, queue, 0, 0)
    consume(at.declarer, queue)
    at.declarer.queue_delete(queue)


@every_place
def test_an_auto_delete_queue_goes_everywhere_with_its_last_consumer(at: Place) -> None:
    queue = at.declarer.queue_declare(unique("auto"), auto_delete=True).method.queue
    consume(at.consumer, queue, consumer_tag="mine")
    consume(at.publisher, queue, consumer_tag="other")
    at.consumer.basic_cancel("mine")
    at.publisher.queue_declare(queue, passive=True)
    at.publisher.basic_cancel("other")
    with channel_closed(404, queue):
        for _ in range(100):
            at.declarer.queue_declare(queue, passive=True)
            settle([at.declarer])


@every_place
def test_a_queue_in_use_is_not_deleted_if_unused(at: Place) -> None:
    queue = shared(at)
    consume(at.consumer, queue)
    with channel_closed(406, queue):
        at.publisher.queue_delete(queue, if_unused=True)
    at.declarer.queue_delete(queue)


@every_place
def test_acks_in_a_transaction_count_when_it_is_committed(at: Place) -> None:
    queue = shared(at)
    send(at, queue, "one", "two")
    inbox = consume(at.consumer, queue)
    pump([at.consumer], lambda: len(inbox) == 2)
    at.consumer.tx_select()
    at.consumer.basic_ack(inbox[0].method.delivery_tag)
    at.consumer.tx_commit()
    at.consumer.basic_ack(inbox[1].method.delivery_tag)
    at.consumer.tx_rollback()
    at.consumer.close()
    wait_for_counts(at.declarer, queue, 1, 0)
    assert take(at.publisher, queue, auto_ack=True).body == b"two"
    at.declarer.queue_delete(queue)


@every_place
def test_a_large_message_is_consumed_whole(at: Place) -> None:
    queue = shared(at)
    body = bytes(range(256)) * 4_000
    at.publisher.basic_publish("", queue, body)
    inbox = consume(at.consumer, queue)
    pump([at.consumer], lambda: inbox)
    assert inbox[0].body == body
    at.consumer.basic_nack(inbox[0].method.delivery_tag)
    pump([at.consumer], lambda: len(inbox) == 2)
    assert inbox[1].body == body
    at.declarer.queue_delete(queue)
