"""A message arrives at another broker as it was sent: every property, every kind of header, every size."""

from __future__ import annotations

import datetime
import decimal
import itertools
from typing import Any

import pika
import pytest
from pika.exceptions import UnroutableError

from tests.support.clients.pika_client import Received, channel_closed, consume, depth, publish, unique
from tests.support.cluster.whole_cluster import ROLES, Place, WholeCluster, letters, place, pump, wait_until_wanted

pytestmark = pytest.mark.sockets

every_pair = pytest.mark.parametrize("pair", list(itertools.product(ROLES, repeat=2)), ids="-".join)

FRAME_MAX = 131_072
SIZES = (0, 1, 4_096, FRAME_MAX - 8, FRAME_MAX - 7, FRAME_MAX, 2 * (FRAME_MAX - 8), 400_000)

HEADERS: dict[str, Any] = {
    "text": "größe",
    "bytes": b"\x00\xff",
    "yes": True,
    "small": -7,
    "large": 2**40,
    "decimal": decimal.Decimal("3.14"),
    "time": datetime.datetime(2020, 2, 29, 12, 0, tzinfo=datetime.UTC),
    "list": [1, "two", [3], {"four": 4}],
    "table": {"nested": {"deeper": None}},
    "none": None,
}


def all_properties() -> pika.BasicProperties:
    return pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers=HEADERS,
        delivery_mode=2,
        priority=4,
        correlation_id="correlated",
        reply_to="somewhere",
        expiration="60000",
        message_id="the message",
        timestamp=1_582_977_600,
        type="a type",
        user_id="guest",
        app_id="an app",
        cluster_id="a cluster",
    )


@pytest.fixture
def at(whole: WholeCluster, pair: tuple[str, str]) -> Place:
    return place(whole, ("secondary", *pair))


def private(at: Place, exchange: str) -> list[Received]:
    at.declarer.exchange_declare(exchange, "fanout")
    queue = at.consumer.queue_declare("", exclusive=True).method.queue
    at.consumer.queue_bind(queue, exchange)
    inbox = consume(at.consumer, queue, auto_ack=True)
    wait_until_wanted(at.publisher, exchange, "", {at.consumer: inbox})
    return inbox


def shared(at: Place, exchange: str) -> tuple[str, list[Received]]:
    at.declarer.exchange_declare(exchange, "fanout")
    queue = at.declarer.queue_declare(unique("shared")).method.queue
    at.declarer.queue_bind(queue, exchange)
    return queue, consume(at.consumer, queue, auto_ack=True)


@every_pair
@pytest.mark.parametrize("kind", ["private", "shared"])
def test_all_properties_arrive_as_they_were_sent(at: Place, kind: str) -> None:
    exchange = unique("fanout")
    queue = ""
    if kind == "private":
        inbox = private(at, exchange)
    else:
        queue, inbox = shared(at, exchange)
    sent = all_properties()
    at.publisher.basic_publish(exchange, "key", b"body", sent)
    pump([at.consumer], lambda: letters(inbox))
    received = next(each for each in inbox if each.body == b"body")
    assert {**vars(received.properties)} == vars(sent)
    if queue:
        at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


@every_pair
def test_every_size_arrives_whole_at_private_and_shared_queues(at: Place) -> None:
    exchange = unique("fanout")
    here = private(at, exchange)
    queue, there = shared(at, exchange)
    for inbox in (here, there):
        inbox.clear()
    sent = [bytes([number + 1]) * size for number, size in enumerate(SIZES)]
    for body in sent:
        at.publisher.basic_publish(exchange, "", body)
    # Probes may still be on their way: they were sent before the shared queue was there, or not.
    pump([at.consumer], lambda: len(letters(here)) >= len(sent) and len(letters(there)) >= len(sent))
    assert letters(here) == letters(there) == sent
    at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


@every_pair
def test_a_small_frame_max_of_either_client_cuts_differently_and_changes_nothing(
    whole: WholeCluster, at: Place
) -> None:
    queue = at.declarer.queue_declare(unique("shared")).method.queue
    publisher = whole.connect_like(at.publisher, frame_max=4_096)
    consumer = whole.connect_like(at.consumer, frame_max=5_000)
    body = bytes(range(256)) * 300
    sending, taking = publisher.channel(), consumer.channel()
    inbox = consume(taking, queue, auto_ack=True)
    sending.confirm_delivery()
    sending.basic_publish("", queue, body)
    pump([taking], lambda: inbox)
    assert inbox[0].body == body
    publisher.close()
    consumer.close()
    at.declarer.queue_delete(queue)


@every_pair
def test_a_message_expires_in_a_shared_queue_and_in_a_private_one(at: Place) -> None:
    exchange = unique("fanout")
    at.declarer.exchange_declare(exchange, "fanout")
    queue = at.declarer.queue_declare(unique("shared")).method.queue
    at.publisher.confirm_delivery()
    publish(at.publisher, queue, "short", expiration="30")
    publish(at.publisher, queue, "long", expiration="60000")
    pump([at.consumer], lambda: depth(at.consumer, queue) == 1)
    assert at.consumer.basic_get(queue, auto_ack=True)[2] == b"long"
    held = at.consumer.queue_declare("", exclusive=True).method.queue
    at.consumer.queue_bind(held, exchange)

    def one_has_come() -> bool:
        publish(at.publisher, "", "short", exchange, expiration="30")
        return depth(at.consumer, held) > 0

    pump([at.consumer], one_has_come)
    pump([at.consumer], lambda: depth(at.consumer, held) == 0)
    at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


@every_pair
@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"headers": {"CC": "no list"}}, "CC"),
        ({"expiration": "soon"}, "expiration"),
        ({"user_id": "somebody else"}, "user_id"),
        ({"reply_to": "amq.rabbitmq.reply-to"}, "reply"),
    ],
    ids=["cc", "expiration", "user", "reply"],
)
def test_what_is_wrong_with_a_message_is_told_where_it_is_sent(
    at: Place, properties: dict[str, Any], words: str
) -> None:
    queue = at.declarer.queue_declare(unique("shared")).method.queue
    with channel_closed(406, words):
        publish(at.publisher, queue, "wrong", **properties)
        at.publisher.queue_declare(queue, passive=True)
    # The link that it would have gone by is as it was.
    assert depth(at.consumer, queue) == 0
    at.declarer.queue_delete(queue)


@every_pair
def test_a_queue_that_refuses_what_is_too_much_is_told_by_a_nack(at: Place) -> None:
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = at.declarer.queue_declare(unique("full"), arguments=arguments).method.queue
    at.publisher.confirm_delivery()
    publish(at.publisher, queue, "fits")
    with pytest.raises(pika.exceptions.NackError):
        publish(at.publisher, queue, "does not")
    assert at.consumer.basic_get(queue, auto_ack=True)[2] == b"fits"
    publish(at.publisher, queue, "fits again")
    at.declarer.queue_delete(queue)


@every_pair
def test_names_may_be_of_any_letters_and_as_long_as_they_may(at: Place) -> None:
    exchange, key = unique("größe ☃ "), "ключ." * 25
    exchange += "x" * (255 - len(exchange.encode()))
    queue = unique("очередь")
    at.declarer.exchange_declare(exchange, "topic")
    at.declarer.queue_declare(queue)
    at.consumer.queue_bind(queue, exchange, "#." + key)
    at.publisher.confirm_delivery()
    publish(at.publisher, key, "named", exchange)
    method, _, body = at.consumer.basic_get(queue, auto_ack=True)
    assert (method.exchange, method.routing_key, body) == (exchange, key, b"named")
    with pytest.raises(UnroutableError):
        at.publisher.basic_publish(exchange, "другой", b"", mandatory=True)
    at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)
