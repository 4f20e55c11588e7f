"""Private queues stay with their consumer, and get what is published at any broker: all places of each of the three."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.clients.pika_client import Received, consume, publish, unique
from tests.support.cluster.whole_cluster import (
    EVERY_PLACE,
    Place,
    WholeCluster,
    letters,
    pump,
    settle,
    wait_for_letters,
    wait_until_wanted,
)

pytestmark = pytest.mark.sockets

every_place = pytest.mark.parametrize("roles", EVERY_PLACE, ids="-".join)


def subscribe(channel: BlockingChannel, exchange: str, key: str = "", **arguments: Any) -> list[Received]:
    """A private queue with one binding, and its consumer's inbox."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, exchange, key, arguments)
    return consume(channel, queue, auto_ack=True)


@every_place
@pytest.mark.parametrize(
    ("kind", "binding", "matching", "other"),
    [("direct", "a", "a", "b"), ("topic", "a.*.c.#", "a.b.c", "a.b"), ("fanout", "", "any", None)],
    ids=["direct", "topic", "fanout"],
)
def test_a_private_queue_gets_what_matches(
    at: Place, kind: str, binding: str, matching: str, other: str | None
) -> None:
    exchange = unique(kind)
    at.declarer.exchange_declare(exchange, kind)
    inbox = subscribe(at.consumer, exchange, binding)
    wait_until_wanted(at.publisher, exchange, matching, {at.consumer: inbox})
    publish(at.publisher, matching, "first", exchange)
    if other is not None:
        publish(at.publisher, other, "not for it", exchange)
    publish(at.publisher, matching, "last", exchange, content_type="text/plain", headers={"n": 1})
    wait_for_letters(at.consumer, inbox, b"first", b"last")
    last = inbox[-1]
    assert (last.method.exchange, last.method.routing_key, last.method.redelivered) == (exchange, matching, False)
    assert (last.properties.content_type, last.headers) == ("text/plain", {"n": 1})
    at.declarer.exchange_delete(exchange)


@every_place
def test_a_private_queue_gets_what_has_its_headers(at: Place) -> None:
    exchange = unique("headers")
    at.declarer.exchange_declare(exchange, "headers")
    inbox = subscribe(at.consumer, exchange, **{"x-match": "all", "color": "red", "size": 7})
    red = {"color": "red", "size": 7, "more": True}
    wait_until_wanted(at.publisher, exchange, "", {at.consumer: inbox}, headers=red)
    publish(at.publisher, "", "no headers", exchange)
    publish(at.publisher, "", "red", exchange, headers=red)
    publish(at.publisher, "", "blue", exchange, headers={"color": "blue", "size": 7})
    publish(at.publisher, "", "last", exchange, headers=red)
    wait_for_letters(at.consumer, inbox, b"red", b"last")
    at.declarer.exchange_delete(exchange)


@every_place
def test_a_private_queue_is_reached_by_its_name(at: Place) -> None:
    queue = at.consumer.queue_declare(unique("private"), exclusive=True).method.queue
    inbox = consume(at.consumer, queue, auto_ack=True)
    wait_until_wanted(at.publisher, "", queue, {at.consumer: inbox})
    publish(at.publisher, queue, "by name")
    wait_for_letters(at.consumer, inbox, b"by name")


@every_place
def test_a_private_queue_that_is_unbound_gets_nothing_more(at: Place) -> None:
    exchange = unique("direct")
    at.declarer.exchange_declare(exchange, "direct")
    queue = at.consumer.queue_declare("", exclusive=True).method.queue
    at.consumer.queue_bind(queue, exchange, "key")
    inbox = consume(at.consumer, queue, auto_ack=True)
    wait_until_wanted(at.publisher, exchange, "key", {at.consumer: inbox})
    at.consumer.queue_unbind(queue, exchange, "key")
    returned: list[bytes] = []
    at.publisher.add_on_return_callback(lambda _, method, properties, body: returned.append(body))

    def is_withdrawn() -> bool:
        # Nobody wants it any more: not even another broker does.
        at.publisher.basic_publish(exchange, "key", b"mandatory", mandatory=True)
        return bool(returned)

    pump([at.publisher], is_withdrawn)
    at.declarer.exchange_delete(exchange)


@every_place
def test_a_private_queue_is_gone_with_its_connection(at: Place, whole: WholeCluster) -> None:
    leaving = whole.connect_like(at.consumer)
    channel = leaving.channel()
    exchange = unique("fanout")
    at.declarer.exchange_declare(exchange, "fanout")
    inbox = subscribe(channel, exchange)
    wait_until_wanted(at.publisher, exchange, "", {channel: inbox})
    leaving.close()
    returned: list[bytes] = []
    at.publisher.add_on_return_callback(lambda _, method, properties, body: returned.append(body))

    def is_withdrawn() -> bool:
        at.publisher.basic_publish(exchange, "", b"mandatory", mandatory=True)
        return bool(returned)

    pump([at.publisher], is_withdrawn)
    at.declarer.exchange_delete(exchange)


@every_place
def test_every_subscriber_of_every_broker_gets_each_message_once_and_in_order(at: Place, whole: WholeCluster) -> None:
    exchange, other = unique("topic"), unique("fanout")
    at.declarer.exchange_declare(exchange, "topic")
    at.declarer.exchange_declare(other, "fanout")
    at.declarer.exchange_bind(other, exchange, "#")
    inboxes: dict[BlockingChannel, list[Received]] = {}
    for broker in whole.brokers.values():
        # Two queues at each, and four ways to each queue.
        for _ in range(2):
            channel = whole.channel(broker)
            queue = channel.queue_declare("", exclusive=True).method.queue
            for key in ("a.*", "#", "a.b"):
                channel.queue_bind(queue, exchange, key)
            channel.queue_bind(queue, other)
            inboxes[channel] = consume(channel, queue, auto_ack=True)
    wait_until_wanted(at.publisher, exchange, "a.b", inboxes)
    expected = [b"%d" % number for number in range(20)]
    for body in expected:
        publish(at.publisher, "a.b", body, exchange)
    pump(list(inboxes), lambda: all(len(letters(inbox)) >= len(expected) for inbox in inboxes.values()))
    settle(list(inboxes))
    assert [letters(inbox) for inbox in inboxes.values()] == [expected] * 10
    at.declarer.exchange_delete(exchange)
    at.declarer.exchange_delete(other)
