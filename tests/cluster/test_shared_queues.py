"""Shared queues are on the root, and everybody has them: declared, published to and asked at brokers of every role."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.exceptions import UnroutableError

from tests.support.clients.pika_client import channel_closed, depth, publish, unique
from tests.support.cluster.whole_cluster import EVERY_PLACE, ROLES, Place, WholeCluster, one_of, pump

pytestmark = pytest.mark.sockets

every_place = pytest.mark.parametrize("roles", EVERY_PLACE, ids="-".join)
every_role = pytest.mark.parametrize("role", ROLES)


@every_place
def test_a_confirmed_publish_is_in_the_queue(at: Place) -> None:
    queue = at.declarer.queue_declare(unique("shared")).method.queue
    at.publisher.confirm_delivery()
    for _ in range(3):
        publish(at.publisher, queue, "one")
    # A confirm says that the root has it: every broker must count it from now on.
    assert depth(at.consumer, queue) == 3
    assert depth(at.declarer, queue) == 3
    at.declarer.queue_delete(queue)


@every_place
def test_a_publish_through_an_exchange_is_in_each_bound_queue_once(at: Place) -> None:
    exchange = unique("topic")
    queues = [unique("shared"), unique("shared")]
    at.declarer.exchange_declare(exchange, "topic")
    for queue in queues:
        at.consumer.queue_declare(queue)
        at.consumer.queue_bind(queue, exchange, "a.#")
        at.consumer.queue_bind(queue, exchange, "#.b")
    at.publisher.confirm_delivery()
    publish(at.publisher, "a.b", "both", exchange)
    publish(at.publisher, "a.c", "both", exchange)
    publish(at.publisher, "c", "none", exchange)
    assert [depth(at.declarer, queue) for queue in queues] == [2, 2]
    for queue in queues:
        at.consumer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


@every_place
def test_a_mandatory_publish_comes_back_from_where_no_queue_wants_it(at: Place) -> None:
    exchange, queue = unique("direct"), unique("shared")
    at.declarer.exchange_declare(exchange, "direct")
    at.consumer.queue_declare(queue)
    at.consumer.queue_bind(queue, exchange, "key")
    at.publisher.confirm_delivery()
    at.publisher.basic_publish(exchange, "key", b"wanted", mandatory=True)
    with pytest.raises(UnroutableError) as returned:
        at.publisher.basic_publish(exchange, "other", b"unwanted", mandatory=True)
    assert [each.body for each in returned.value.messages] == [b"unwanted"]
    at.consumer.queue_delete(queue)
    with pytest.raises(UnroutableError):
        at.publisher.basic_publish(exchange, "key", b"unwanted now", mandatory=True)
    at.declarer.exchange_delete(exchange)


@every_place
def test_what_one_declares_another_sees_and_a_third_deletes(at: Place, whole: WholeCluster) -> None:
    exchange, queue = unique("fanout"), unique("shared")
    at.declarer.exchange_declare(exchange, "fanout", durable=True)
    at.publisher.exchange_declare(exchange, "fanout", passive=True)
    assert at.declarer.queue_declare(queue, durable=True, arguments={"x-max-length": 5}).method.message_count == 0
    at.publisher.queue_bind(queue, exchange)
    at.consumer.confirm_delivery()
    publish(at.consumer, "", "to be deleted", exchange)
    assert at.publisher.queue_delete(queue).method.message_count == 1
    at.consumer.exchange_delete(exchange)
    with channel_closed(404, queue):
        at.consumer.queue_declare(queue, passive=True)
    with channel_closed(404, exchange):
        at.declarer.exchange_declare(exchange, passive=True)
    with channel_closed(404, queue):
        at.publisher.queue_declare(queue, passive=True)


@every_place
def test_other_arguments_are_refused_by_every_broker(at: Place) -> None:
    exchange, queue = unique("direct"), unique("shared")
    at.declarer.exchange_declare(exchange, "direct")
    at.declarer.queue_declare(queue, arguments={"x-max-length": 5})
    assert at.consumer.queue_declare(queue, arguments={"x-max-length": 5}).method.queue == queue
    with channel_closed(406, queue):
        at.consumer.queue_declare(queue, arguments={"x-max-length": 6})
    with channel_closed(406, exchange):
        at.publisher.exchange_declare(exchange, "fanout")
    at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


@every_place
def test_a_purge_empties_the_queue_and_tells_how_many_they_were(at: Place) -> None:
    queue = at.declarer.queue_declare(unique("shared")).method.queue
    at.publisher.confirm_delivery()
    for _ in range(3):
        publish(at.publisher, queue, "purged")
    assert at.consumer.queue_purge(queue).method.message_count == 3
    assert depth(at.publisher, queue) == 0
    at.declarer.queue_delete(queue)


@every_place
def test_a_delete_if_empty_is_refused_for_a_queue_that_holds_something(at: Place) -> None:
    queue = at.declarer.queue_declare(unique("shared")).method.queue
    at.publisher.confirm_delivery()
    publish(at.publisher, queue, "held")
    with channel_closed(406, queue):
        at.consumer.queue_delete(queue, if_empty=True)
    assert depth(at.declarer, queue) == 1
    at.declarer.queue_purge(queue)
    at.declarer.queue_delete(queue, if_empty=True)


@every_place
def test_a_binding_is_gone_for_all_when_one_unbinds(at: Place) -> None:
    exchange, queue = unique("direct"), unique("shared")
    at.declarer.exchange_declare(exchange, "direct")
    at.declarer.queue_declare(queue)
    at.declarer.queue_bind(queue, exchange, "key")
    at.consumer.queue_unbind(queue, exchange, "key")
    at.publisher.confirm_delivery()
    with pytest.raises(UnroutableError):
        at.publisher.basic_publish(exchange, "key", b"", mandatory=True)
    at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


@every_role
def test_a_queue_that_the_broker_names_is_known_by_that_name_everywhere(whole: WholeCluster, role: str) -> None:
    queue = whole.channel(one_of(whole, role)).queue_declare("").method.queue
    for broker in whole.brokers.values():
        whole.channel(broker).queue_declare(queue, passive=True)
    whole.channel(one_of(whole, role)).queue_delete(queue)


@every_role
def test_an_unused_queue_expires_everywhere(whole: WholeCluster, role: str) -> None:
    queue = unique("expiring")
    whole.channel(one_of(whole, role)).queue_declare(queue, arguments={"x-expires": 150})

    def is_gone_everywhere() -> bool:
        # Not by a passive declare: that would be a use of it.
        return all(
            queue not in {each["name"] for each in whole.api(broker, "GET", "queues")}
            for broker in whole.brokers.values()
        )

    assert not is_gone_everywhere()
    pump([whole.channel(whole.root())], is_gone_everywhere)


@every_role
def test_a_hundred_confirms_in_flight_are_all_told(whole: WholeCluster, role: str) -> None:
    """pika's blocking channel waits for each: here with its asynchronous half."""
    queue = whole.channel(one_of(whole, role)).queue_declare(unique("shared")).method.queue
    channel = whole.channel(one_of(whole, role))
    confirmed: set[int] = set()
    highest = 0

    def told(frame: Any) -> None:
        nonlocal highest
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        tag = frame.method.delivery_tag
        confirmed.update(range(highest + 1, tag + 1) if frame.method.multiple else [tag])
        highest = tag if frame.method.multiple else highest

    channel._impl.confirm_delivery(told)
    channel.connection.process_data_events(0)
    for number in range(100):
        channel._impl.basic_publish("", queue, b"%d" % number)
    pump([channel], lambda: confirmed >= set(range(1, 101)))
    assert depth(channel, queue) == 100
    channel.queue_delete(queue)
