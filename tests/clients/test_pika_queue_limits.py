"""What ends a message's or a queue's life: TTL, expiry, length limits, dead-lettering, priorities, delivery limit."""

from __future__ import annotations

import time
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.compat import long
from pika.exceptions import NackError

from tests.clients.test_pika_queues import exists
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
    temporary_exchange,
    temporary_queue,
    unique,
    wait_for_depth,
)

pytestmark = pytest.mark.sockets


def with_dead_letters(channel: BlockingChannel, **arguments: Any) -> tuple[str, str]:
    """A queue with these arguments and the queue where its dead letters go."""
    graveyard = temporary_queue(channel)
    queue = temporary_queue(channel, x_dead_letter_exchange="", x_dead_letter_routing_key=graveyard, **arguments)
    return queue, graveyard


# TTL


def test_messages_past_the_queues_ttl_are_gone(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_ttl=100)
    publish(channel, queue, b"x")
    wait_for_depth(channel, queue, 1)
    wait_for_depth(channel, queue, 0)


def test_a_message_past_its_own_expiration_is_not_delivered(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel)
    publish(channel, queue, b"late", expiration="50")
    publish(channel, queue, b"stays")
    time.sleep(0.15)
    assert drain(channel, queue) == [b"stays"]


def test_the_smaller_of_the_two_ttls_counts(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_ttl=60000)
    publish(channel, queue, b"x", expiration="80")
    wait_for_depth(channel, queue, 0)


def test_a_ttl_of_zero_delivers_to_a_waiting_consumer_or_never(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_ttl=0)
    publish(channel, queue, b"nobody waits")
    assert channel.basic_get(queue)[0] is None
    received = consume(channel, queue, auto_ack=True)
    publish(channel, queue, b"somebody waits")
    pump(channel, lambda: received)
    assert received[0].body == b"somebody waits"


def test_a_delivered_message_does_not_expire_until_it_is_requeued(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_message_ttl=100)
    publish(channel, queue, b"x")
    held = get(channel, queue, auto_ack=False)
    time.sleep(0.15)
    channel.basic_nack(held.method.delivery_tag, requeue=True)
    wait_for_depth(channel, queue, 0)


@pytest.mark.parametrize("expiration", ["-1", "soon", "1.5", ""])
def test_an_expiration_that_is_no_number_is_refused(channel: BlockingChannel, expiration: str) -> None:
    queue = temporary_queue(channel)
    with channel_closed(406, "expiration"):
        publish(channel, queue, b"x", expiration=expiration)
        depth(channel, queue)


def test_a_ttl_of_two_to_the_53_is_accepted(channel: BlockingChannel, openclust_only: None) -> None:
    # RabbitMQ stops at 2^32 - 1 (an Erlang timer); openclust's milliseconds are whole up to 2^53.
    queue = temporary_queue(channel, x_message_ttl=2**53, x_expires=2**53)
    publish(channel, queue, b"x", expiration=str(2**53))
    assert get(channel, queue).body == b"x"


# x-expires


def test_an_unused_queue_expires(client: Client, channel: BlockingChannel) -> None:
    queue = unique("expires")
    channel.queue_declare(queue, arguments={"x-expires": 150})
    time.sleep(0.3)  # asking earlier, even passively, would count as use
    eventually(lambda: not exists(client, queue))


def test_a_consumer_keeps_an_expiring_queue_alive(channel: BlockingChannel) -> None:
    queue = unique("expires")
    channel.queue_declare(queue, arguments={"x-expires": 150})
    channel.basic_consume(queue, lambda *_: None, consumer_tag="only")
    channel.connection.sleep(0.4)
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 1
    channel.basic_cancel("only")
    channel.connection.sleep(0.4)
    with channel_closed(404):
        channel.queue_declare(queue, passive=True)


def test_messages_of_an_expired_queue_are_not_dead_lettered(channel: BlockingChannel) -> None:
    graveyard = temporary_queue(channel)
    arguments = {"x-expires": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard}
    queue = unique("expires")
    channel.queue_declare(queue, arguments=arguments)
    publish(channel, queue, b"x")
    channel.connection.sleep(0.4)
    assert depth(channel, graveyard) == 0


# Length


def test_drop_head_keeps_the_newest_messages(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_max_length=3)
    for number in range(5):
        publish(channel, queue, str(number))
    assert drain(channel, queue) == [b"2", b"3", b"4"]


def test_a_limit_in_bytes_counts_bodies(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_max_length_bytes=100)
    for number in range(5):
        publish(channel, queue, str(number) * 40)
    assert drain(channel, queue) == [b"3" * 40, b"4" * 40]


def test_a_limit_counts_ready_messages_only(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_max_length=1)
    publish(channel, queue, b"held")
    get(channel, queue, auto_ack=False)
    publish(channel, queue, b"ready")
    assert drain(channel, queue) == [b"ready"]


def test_a_limit_of_zero_passes_only_to_waiting_consumers(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_max_length=0)
    publish(channel, queue, b"nobody waits")
    received = consume(channel, queue, auto_ack=True)
    publish(channel, queue, b"somebody waits")
    pump(channel, lambda: received)
    assert [delivery.body for delivery in received] == [b"somebody waits"]


def test_dropped_heads_are_dead_lettered_as_maxlen(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel, x_max_length=1)
    publish(channel, queue, b"first")
    publish(channel, queue, b"second")
    dead = get(channel, graveyard)
    assert (dead.body, dead.headers["x-death"][0]["reason"]) == (b"first", "maxlen")


def test_reject_publish_nacks_what_does_not_fit(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel, x_max_length=1, x_overflow="reject-publish")
    channel.confirm_delivery()
    publish(channel, queue, b"fits")
    with pytest.raises(NackError):
        publish(channel, queue, b"does not")
    assert drain(channel, queue) == [b"fits"]
    assert depth(channel, graveyard) == 0


def test_reject_publish_dlx_nacks_and_dead_letters(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel, x_max_length=1, x_overflow="reject-publish-dlx")
    channel.confirm_delivery()
    publish(channel, queue, b"fits")
    with pytest.raises(NackError):
        publish(channel, queue, b"does not")
    dead = get(channel, graveyard)
    assert (dead.body, dead.headers["x-death"][0]["reason"]) == (b"does not", "maxlen")
    assert drain(channel, queue) == [b"fits"]


def test_one_full_queue_among_several_nacks_the_publish(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "fanout")
    full = temporary_queue(channel, x_max_length=0, x_overflow="reject-publish")
    free = temporary_queue(channel)
    for queue in (full, free):
        channel.queue_bind(queue, exchange)
    channel.confirm_delivery()
    with pytest.raises(NackError):
        publish(channel, "", b"x", exchange=exchange)
    assert get(channel, free).body == b"x"


# Dead letters


def test_a_rejected_message_tells_its_death(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel)
    channel.queue_bind(queue, "amq.topic", "a.#")
    before = int(time.time())
    publish(channel, "a.b", b"dead", exchange="amq.topic", headers={"mine": 1})
    channel.basic_reject(get(channel, queue, auto_ack=False).method.delivery_tag, requeue=False)
    dead = get(channel, graveyard)
    assert dead.method.exchange == "" and dead.method.routing_key == graveyard
    assert dead.headers["mine"] == 1
    assert dead.headers["x-first-death-queue"] == queue
    assert dead.headers["x-first-death-reason"] == "rejected"
    assert dead.headers["x-first-death-exchange"] == "amq.topic"
    (death,) = dead.headers["x-death"]
    assert before - 1 <= death.pop("time").timestamp() <= time.time() + 1
    assert death == {"count": 1, "reason": "rejected", "queue": queue, "exchange": "amq.topic", "routing-keys": ["a.b"]}


def test_an_expired_message_keeps_its_expiration_in_its_death(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel)
    publish(channel, queue, b"dead", expiration="50")
    dead = get(channel, graveyard)
    assert dead.headers["x-death"][0]["reason"] == "expired"
    assert dead.headers["x-death"][0]["original-expiration"] == "50"
    assert dead.properties.expiration is None  # or it would die again where it arrives


def test_a_message_past_the_queues_ttl_is_dead_lettered_in_order(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel, x_message_ttl=50)
    for number in range(4):
        publish(channel, queue, str(number))
    wait_for_depth(channel, graveyard, 4)
    assert drain(channel, graveyard) == [b"0", b"1", b"2", b"3"]


def test_deaths_are_counted_per_queue_and_reason(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel)
    publish(channel, queue, b"dead")
    for times in (1, 2, 3):
        channel.basic_reject(get(channel, queue, auto_ack=False).method.delivery_tag, requeue=False)
        dead = get(channel, graveyard)
        assert [(death["count"], death["reason"], death["queue"]) for death in dead.headers["x-death"]] == [
            (times, "rejected", queue)
        ]
        channel.basic_publish("", queue, dead.body, dead.properties)


def test_counts_in_headers_are_64_bits_wide_and_other_headers_keep_their_width(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel)
    publish(channel, queue, headers={"wide": long(1), "narrow": 1})
    channel.basic_reject(get(channel, queue, auto_ack=False).method.delivery_tag, requeue=False)
    dead = get(channel, graveyard)
    assert type(dead.headers["x-death"][0]["count"]) is long
    assert (type(dead.headers["wide"]), type(dead.headers["narrow"])) == (long, int)


def test_several_old_deaths_of_one_queue_and_reason_are_folded(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel)
    old = [{"queue": name, "reason": "rejected", "count": long(2)} for name in ("a", queue, "a", queue, "b")]
    publish(channel, queue, headers={"x-death": old})
    channel.basic_reject(get(channel, queue, auto_ack=False).method.delivery_tag, requeue=False)
    deaths = get(channel, graveyard).headers["x-death"]
    assert (deaths[0]["queue"], deaths[0]["count"]) == (queue, 3)
    assert {death["queue"]: death["count"] for death in deaths[1:]} == {"a": 2, "b": 2} and len(deaths) == 3


def test_the_latest_death_comes_first(channel: BlockingChannel) -> None:
    graveyard = temporary_queue(channel)
    second = temporary_queue(channel, x_message_ttl=30, x_dead_letter_exchange="", x_dead_letter_routing_key=graveyard)
    first = temporary_queue(channel, x_message_ttl=30, x_dead_letter_exchange="", x_dead_letter_routing_key=second)
    publish(channel, first, b"twice dead")
    dead = get(channel, graveyard)
    assert [death["queue"] for death in dead.headers["x-death"]] == [second, first]
    assert dead.headers["x-first-death-queue"] == first


def test_a_dead_letter_without_a_key_of_its_own_keeps_its_routing_keys(channel: BlockingChannel) -> None:
    exchange = temporary_exchange(channel, "topic")
    graveyard = temporary_queue(channel)
    queue = temporary_queue(channel, x_dead_letter_exchange=exchange)
    channel.queue_bind(graveyard, exchange, queue)
    publish(channel, queue, b"x")
    channel.basic_reject(get(channel, queue, auto_ack=False).method.delivery_tag, requeue=False)
    dead = get(channel, graveyard)
    assert (dead.method.exchange, dead.method.routing_key) == (exchange, queue)


def test_a_dead_letter_to_a_missing_exchange_is_dropped(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_dead_letter_exchange=unique("missing"))
    publish(channel, queue, b"x")
    channel.basic_reject(get(channel, queue, auto_ack=False).method.delivery_tag, requeue=False)
    assert depth(channel, queue) == 0


def test_a_cycle_of_expiries_ends(channel: BlockingChannel) -> None:
    one, other = unique("cycle"), unique("cycle")
    for queue, target in ((one, other), (other, one)):
        arguments = {"x-message-ttl": 30, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
        channel.queue_declare(queue, exclusive=True, arguments=arguments)
    publish(channel, one, b"round and round")
    channel.connection.sleep(0.5)
    assert depth(channel, one) == depth(channel, other) == 0


def test_a_cycle_with_a_rejection_in_it_goes_on(channel: BlockingChannel) -> None:
    work, pause = unique("cycle"), unique("cycle")
    to_pause = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": pause}
    to_work = {"x-message-ttl": 30, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": work}
    channel.queue_declare(work, exclusive=True, arguments=to_pause)
    channel.queue_declare(pause, exclusive=True, arguments=to_work)
    publish(channel, work, b"retry me")
    for times in range(4):
        received = get(channel, work, auto_ack=False)
        counts = {death["queue"]: death["count"] for death in received.headers.get("x-death", [])}
        assert counts == ({work: times, pause: times} if times else {})
        channel.basic_reject(received.method.delivery_tag, requeue=False)


def test_nack_multiple_dead_letters_all_of_them_in_order(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel)
    for number in range(3):
        publish(channel, queue, str(number))
    tags = [get(channel, queue, auto_ack=False).method.delivery_tag for _ in range(3)]
    channel.basic_nack(tags[-1], multiple=True, requeue=False)
    wait_for_depth(channel, graveyard, 3)
    assert drain(channel, graveyard) == [b"0", b"1", b"2"]


# Priorities


def test_higher_priorities_are_delivered_first(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_max_priority=10)
    for priority in (1, 5, 10, None, 3, 5):
        publish(channel, queue, str(priority), priority=priority)
    assert drain(channel, queue) == [b"10", b"5", b"5", b"3", b"1", b"None"]


def test_a_priority_above_the_maximum_counts_as_the_maximum(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_max_priority=5)
    publish(channel, queue, b"five", priority=5)
    publish(channel, queue, b"nine", priority=9)
    publish(channel, queue, b"one", priority=1)
    received = [get(channel, queue) for _ in range(3)]
    assert [delivery.body for delivery in received] == [b"five", b"nine", b"one"]
    assert received[1].properties.priority == 9


def test_all_255_priorities_are_told_apart(channel: BlockingChannel) -> None:
    queue = temporary_queue(channel, x_max_priority=255)
    order = list(range(0, 256, 5))
    for priority in order:
        publish(channel, queue, str(priority), priority=priority)
    assert [int(body) for body in drain(channel, queue)] == order[::-1]


# Delivery limit


def test_a_message_returned_too_often_is_dead_lettered(channel: BlockingChannel) -> None:
    graveyard, queue = temporary_queue(channel), unique("delivery-limit")
    arguments = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": graveyard,
    }
    channel.queue_declare(queue, durable=True, arguments=arguments)
    try:
        publish(channel, queue, b"poison")
        counts = []
        for _ in range(3):
            received = get(channel, queue, auto_ack=False)
            counts.append(received.headers.get("x-delivery-count", long(0)))
            channel.basic_nack(received.method.delivery_tag, requeue=True)
        dead = get(channel, graveyard)
        assert dead.headers["x-death"][0]["reason"] == "delivery_limit"
        assert counts == [0, 1, 2] and {type(count) for count in counts} == {long}
        assert depth(channel, queue) == 0
    finally:
        channel.queue_delete(queue)


def test_properties_of_a_dead_letter_are_those_of_the_message(channel: BlockingChannel) -> None:
    queue, graveyard = with_dead_letters(channel)
    properties = pika.BasicProperties(
        content_type="a/b", message_id="7", timestamp=5, headers={"h": "v"}, delivery_mode=2
    )
    channel.basic_publish("", queue, b"body", properties)
    channel.basic_reject(get(channel, queue, auto_ack=False).method.delivery_tag, requeue=False)
    dead = get(channel, graveyard)
    assert (dead.properties.content_type, dead.properties.message_id) == ("a/b", "7")
    assert (dead.properties.timestamp, dead.properties.delivery_mode) == (5, 2)
