"""Consumers, deliveries and their acknowledgements."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openclust.broker.server.broker import Broker
from openclust.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    QueueDelete,
    QueueDeleteOk,
)
from tests.support.client import Client
from tests.support.driver import later

NewBroker = Callable[..., Broker]


def test_messages_come_in_the_order_they_were_published(alice: Client, bob: Client) -> None:
    alice.queue("q")
    bob.consume("q", no_ack=True)
    for number in range(20):
        alice.publish("q", b"%d" % number)
    assert bob.bodies() == [b"%d" % number for number in range(20)]


def test_a_delivery_names_consumer_exchange_and_key(alice: Client) -> None:
    alice.queue("q")
    tag = alice.consume("q", "mine")
    alice.publish("q", b"x", message_id="m")
    (delivery,) = alice.deliveries()
    assert tag == "mine"
    assert delivery.method.consumer_tag == "mine"  # type: ignore[union-attr]
    assert (delivery.method.exchange, delivery.method.routing_key) == ("", "q")
    assert (delivery.tag, delivery.redelivered, delivery.properties.message_id) == (1, False, "m")


def test_delivery_tags_count_per_channel(alice: Client) -> None:
    alice.queue("q")
    alice.open_channel(2)
    alice.consume("q", channel=1)
    alice.consume("q", channel=2)
    for _ in range(4):
        alice.publish("q")
    assert [each.tag for each in alice.deliveries(1)] == [1, 2]
    assert [each.tag for each in alice.deliveries(2)] == [1, 2]


def test_an_empty_consumer_tag_is_given_a_name(alice: Client) -> None:
    alice.queue("q")
    assert alice.consume("q").startswith("amq.ctag-")


def test_a_consumer_tag_used_twice_closes_the_connection(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", "same")
    closed = alice.hard_error(BasicConsume(queue="q", consumer_tag="same"))
    assert (closed.code, closed.by) == (530, (60, 20))
    assert "same" in closed.text


def test_a_consumer_tag_is_free_again_after_its_cancel(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", "same")
    alice.call(BasicCancel(consumer_tag="same"), BasicCancelOk)
    assert alice.consume("q", "same") == "same"


def test_consuming_from_a_missing_queue_is_not_found(alice: Client) -> None:
    closed = alice.error(BasicConsume(queue="nowhere"))
    assert (closed.code, closed.by) == (404, (60, 20))
    assert "no queue 'nowhere' in vhost '/'" in closed.text


def test_consumers_take_turns(alice: Client) -> None:
    alice.queue("q")
    for tag in "abc":
        alice.consume("q", tag)
    for _ in range(6):
        alice.publish("q")
    assert [each.method.consumer_tag for each in alice.deliveries()] == list("abcabc")  # type: ignore[union-attr]


# -- acknowledgements


def test_an_ack_removes_the_message(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q")
    got = alice.get("q", no_ack=False)
    assert got is not None
    alice.ack(got.tag)
    alice.close()


@pytest.mark.parametrize("tag", [0, 7])
def test_an_ack_of_an_unknown_tag_closes_the_channel(alice: Client, tag: int) -> None:
    alice.queue("q")
    alice.consume("q")
    alice.publish("q")
    alice.ack(tag)
    closed = alice.channel_error()
    assert (closed.code, closed.by) == (406, (60, 80))
    assert f"unknown delivery tag {tag}" in closed.text
    assert alice.count("q") == 1


def test_an_ack_twice_is_an_unknown_tag(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    alice.publish("q")
    alice.ack(1, 1)
    assert alice.channel_error().code == 406


def test_an_unknown_reject_and_nack_name_their_method(alice: Client) -> None:
    assert alice.error(BasicReject(delivery_tag=3)).by == (60, 90)
    assert alice.error(BasicNack(delivery_tag=3)).by == (60, 120)


def test_multiple_acks_all_up_to_its_tag(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    for _ in range(5):
        alice.publish("q")
    alice.ack(3, multiple=True)
    alice.nack(4)
    assert [each.tag for each in alice.deliveries()] == [1, 2, 3, 4, 5, 6]
    alice.ack(0, multiple=True)
    assert alice.count("q") == 0


def test_multiple_with_tag_zero_and_nothing_out_is_fine(alice: Client) -> None:
    alice.ack(0, multiple=True)
    alice.nack(0, multiple=True)
    alice.queue("q")


def test_multiple_up_to_a_tag_that_is_not_out_closes_the_channel(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    for _ in range(3):
        alice.publish("q")
    alice.ack(2)
    alice.ack(2, multiple=True)
    assert alice.channel_error().code == 406
    assert alice.count("q") == 2


def test_a_nacked_message_comes_again_marked_so(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    alice.publish("q", b"x")
    alice.nack(1)
    assert [(each.tag, each.redelivered, each.body) for each in alice.deliveries()] == [
        (1, False, b"x"),
        (2, True, b"x"),
    ]


def test_a_reject_without_requeue_drops_the_message(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    alice.publish("q")
    alice.send(BasicReject(delivery_tag=1, requeue=False))
    assert len(alice.deliveries()) == 1
    assert alice.count("q") == 0


def test_returned_messages_take_their_old_places(alice: Client) -> None:
    alice.queue("q")
    for number in range(5):
        alice.publish("q", b"%d" % number)
    for _ in range(3):
        alice.get("q", no_ack=False)
    alice.nack(2)
    alice.nack(1)
    alice.nack(3)
    got = [alice.get("q") for _ in range(5)]
    assert [(each.body, each.redelivered) for each in got if each] == [
        (b"0", True),
        (b"1", True),
        (b"2", True),
        (b"3", False),
        (b"4", False),
    ]


def test_a_nack_of_several_queues_returns_each_to_its_own(alice: Client) -> None:
    for name in ("one", "two"):
        alice.queue(name)
        alice.publish(name)
        alice.get(name, no_ack=False)
    alice.nack(0, multiple=True)
    assert (alice.count("one"), alice.count("two")) == (1, 1)


def test_a_closed_channel_returns_what_it_had(alice: Client) -> None:
    alice.queue("q")
    alice.open_channel(2)
    alice.consume("q", channel=2)
    alice.publish("q", b"x")
    alice.call(ChannelClose(), ChannelCloseOk, channel=2)
    again = alice.get("q")
    assert again is not None and again.redelivered


def test_a_closing_channel_gets_nothing_back_of_what_it_returns(alice: Client) -> None:
    """Its consumer has credit left, and must not be served any more."""
    alice.queue("q")
    alice.open_channel(2)
    alice.call(BasicQos(prefetch_count=10), BasicQosOk, channel=2)
    alice.consume("q", channel=2)
    for _ in range(3):
        alice.publish("q")
    alice.deliveries(2)
    alice.send(ChannelClose(), channel=2)
    assert alice.deliveries(2) == []
    assert alice.count("q") == 3


def test_a_lost_connection_returns_each_message_once(alice: Client, new_broker: NewBroker) -> None:
    """Though many of its channels consume from the queue: not one after another, each counting a delivery."""
    broker = alice.broker
    carol = Client(broker)
    alice.queue("q", x_delivery_limit=1)
    for number in range(1, 6):
        if number > 1:
            carol.open_channel(number)
        carol.consume("q", channel=number)
    for _ in range(5):
        alice.publish("q")
    carol.lose()
    assert alice.count("q") == 5
    bob = Client(broker)
    bob.consume("q")
    assert [each.redelivered for each in bob.deliveries()] == [True] * 5


def test_a_returned_message_goes_to_another_consumer(alice: Client, bob: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    alice.publish("q", b"x")
    bob.consume("q")
    alice.lose()
    (delivery,) = bob.deliveries()
    assert delivery.redelivered


# -- credit


def test_prefetch_holds_a_consumer_back(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=2), BasicQosOk)
    alice.consume("q")
    for number in range(4):
        alice.publish("q", b"%d" % number)
    assert alice.bodies() == [b"0", b"1"]
    alice.ack(1)
    assert alice.bodies() == [b"2"]
    alice.ack(3, multiple=True)
    assert alice.bodies() == [b"3"]


def test_prefetch_counts_for_consumers_that_come_later(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", "before")
    alice.call(BasicQos(prefetch_count=1), BasicQosOk)
    alice.consume("q", "after")
    for _ in range(6):
        alice.publish("q")
    tags = [each.method.consumer_tag for each in alice.deliveries()]  # type: ignore[union-attr]
    assert (tags.count("before"), tags.count("after")) == (5, 1)


def test_prefetch_does_not_hold_back_a_consumer_without_acks(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=1), BasicQosOk)
    alice.call(BasicQos(prefetch_count=1, global_=True), BasicQosOk)
    alice.consume("q", no_ack=True)
    for _ in range(4):
        alice.publish("q")
    assert len(alice.deliveries()) == 4


@pytest.mark.parametrize("comes_first", ["qos", "consumer"])
def test_a_global_prefetch_that_is_used_up_holds_back_a_consumer_without_acks(alice: Client, comes_first: str) -> None:
    """As in RabbitMQ; what it was sent before did not count."""
    alice.queue("acked")
    alice.queue("free")
    if comes_first == "consumer":
        alice.consume("free", no_ack=True)
        alice.call(BasicQos(prefetch_count=1, global_=True), BasicQosOk)
    else:
        alice.call(BasicQos(prefetch_count=1, global_=True), BasicQosOk)
        alice.consume("free", no_ack=True)
    alice.consume("acked")
    alice.publish("free", b"1")
    alice.publish("free", b"2")
    alice.publish("acked", b"3")
    assert alice.bodies() == [b"1", b"2", b"3"]
    alice.publish("free", b"4")
    alice.publish("free", b"5")
    assert alice.bodies() == []
    alice.ack(3)
    assert alice.bodies() == [b"4", b"5"]
    alice.publish("acked", b"6")
    alice.publish("free", b"7")
    assert alice.bodies() == [b"6"]
    alice.call(BasicQos(prefetch_count=0, global_=True), BasicQosOk)
    alice.publish("free", b"8")
    assert alice.bodies() == [b"7", b"8"]


def test_a_prefetch_that_is_kombus_for_the_channel_is_nothing_to_consumers_without_acks(broker: Broker) -> None:
    """To RabbitMQ it is one for each consumer; here it is the specification's, which leaves these out too."""
    worker = Client(broker, properties={"product": "py-amqp"})
    worker.queue("acked")
    worker.queue("free")
    worker.call(BasicQos(prefetch_count=1), BasicQosOk)
    worker.consume("acked")
    worker.consume("free", no_ack=True)
    worker.publish("acked", b"1")
    worker.publish("free", b"2")
    worker.publish("acked", b"3")
    assert worker.bodies() == [b"1", b"2"]


def test_global_prefetch_is_shared_by_the_consumers_of_the_channel(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=3, global_=True), BasicQosOk)
    alice.consume("q", "a")
    alice.consume("q", "b")
    for _ in range(6):
        alice.publish("q")
    assert len(alice.deliveries()) == 3
    alice.ack(2)
    assert len(alice.deliveries()) == 1
    alice.call(BasicQos(prefetch_count=0, global_=True), BasicQosOk)
    assert len(alice.deliveries()) == 2


def test_global_prefetch_starves_no_queue(alice: Client) -> None:
    """One queue is full and the other too: credit goes to both in turn."""
    alice.call(BasicQos(prefetch_count=1, global_=True), BasicQosOk)
    for name in ("one", "two"):
        alice.queue(name)
        for _ in range(10):
            alice.publish(name)
        alice.consume(name, name)
    seen = []
    for _ in range(8):
        (delivery,) = alice.deliveries()
        seen.append(delivery.method.routing_key)
        alice.ack(delivery.tag)
    assert seen.count("one") >= 3 and seen.count("two") >= 3


def test_a_nack_gives_credit_back(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=1), BasicQosOk)
    alice.consume("q")
    alice.publish("q", b"x")
    alice.publish("q", b"y")
    alice.nack(1)
    alice.nack(2, requeue=False)
    assert alice.bodies() == [b"x", b"x", b"y"]


def test_a_prefetch_size_is_not_implemented(alice: Client) -> None:
    closed = alice.hard_error(BasicQos(prefetch_size=1))
    assert (closed.code, closed.by) == (540, (60, 10))


def test_flow_stops_and_starts_deliveries(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", no_ack=True)
    assert alice.call(ChannelFlow(active=False), ChannelFlowOk).active is False
    alice.publish("q", b"x")
    assert alice.bodies() == []
    assert alice.call(ChannelFlow(active=True), ChannelFlowOk).active is True
    assert alice.bodies() == [b"x"]


# -- bounds


def test_a_channel_holds_a_bounded_number_of_deliveries(new_broker: NewBroker) -> None:
    client = Client(new_broker(unacked_per_channel_max=3))
    client.queue("q")
    client.queue("other")
    client.consume("q", "a")
    client.consume("other", "b")
    for _ in range(5):
        client.publish("q")
    client.publish("other")
    assert len(client.deliveries()) == 3
    client.ack(3, multiple=True)
    assert len(client.deliveries()) == 3
    assert client.count("q") == client.count("other") == 0


def test_basic_get_counts_against_the_bound_too(new_broker: NewBroker) -> None:
    client = Client(new_broker(unacked_per_channel_max=2))
    client.queue("q")
    for _ in range(4):
        client.publish("q")
    client.get("q", no_ack=False)
    client.get("q", no_ack=False)
    closed = client.error(BasicGet(queue="q"))
    assert (closed.code, closed.by) == (506, (60, 70))
    assert client.count("q") == 4


def test_consumers_without_credit_go_on_when_gets_are_acknowledged(new_broker: NewBroker) -> None:
    client = Client(new_broker(unacked_per_channel_max=1))
    client.queue("q")
    client.queue("other")
    client.publish("q")
    got = client.get("q", no_ack=False)
    client.consume("other")
    client.publish("other")
    assert client.deliveries() == []
    assert got is not None
    client.ack(got.tag)
    assert len(client.deliveries()) == 1


def test_the_number_of_consumers_of_a_channel_is_bounded(new_broker: NewBroker) -> None:
    client = Client(new_broker(consumers_per_channel_max=2))
    client.queue("q")
    client.consume("q")
    client.consume("q")
    closed = client.error(BasicConsume(queue="q"))
    assert (closed.code, closed.by) == (506, (60, 20))
    assert client.consumers("q") == 0


# -- cancel


def test_a_cancelled_consumer_is_sent_nothing_more(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", "c")
    alice.publish("q")
    alice.call(BasicCancel(consumer_tag="c"), BasicCancelOk)
    alice.publish("q")
    assert len(alice.deliveries()) == 1
    assert alice.count("q") == 1


def test_acks_after_a_cancel_do_not_revive_the_consumer(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=1), BasicQosOk)
    alice.consume("q", "c")
    for _ in range(3):
        alice.publish("q")
    alice.call(BasicCancel(consumer_tag="c"), BasicCancelOk)
    alice.ack(1)
    assert len(alice.deliveries()) == 1
    assert (alice.count("q"), alice.consumers("q")) == (2, 0)


def test_a_nack_after_a_cancel_returns_the_message(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", "c")
    alice.publish("q")
    alice.call(BasicCancel(consumer_tag="c"), BasicCancelOk)
    alice.nack(1)
    assert len(alice.deliveries()) == 1
    assert alice.count("q") == 1


def test_cancelling_an_unknown_consumer_succeeds(alice: Client) -> None:
    assert alice.call(BasicCancel(consumer_tag="nobody"), BasicCancelOk).consumer_tag == "nobody"


def test_a_deleted_queue_cancels_its_consumers_with_notice(alice: Client, bob: Client) -> None:
    alice.queue("q")
    bob.consume("q", "theirs")
    assert alice.call(QueueDelete(queue="q"), QueueDeleteOk).message_count == 0
    assert bob.cancelled == ["theirs"]
    bob.queue("q")
    assert bob.consume("q", "theirs") == "theirs"


def test_notice_is_only_given_to_who_understands_it(broker: Broker, alice: Client) -> None:
    deaf = Client(broker, capabilities=())
    alice.queue("q")
    deaf.consume("q", "theirs")
    alice.call(QueueDelete(queue="q"), QueueDeleteOk)
    assert deaf.cancelled == []


def test_deliveries_of_a_deleted_queue_can_still_be_settled(alice: Client) -> None:
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    alice.consume("q")
    for _ in range(4):
        alice.publish("q")
    alice.call(QueueDelete(queue="q"), QueueDeleteOk)
    alice.ack(1)
    alice.nack(2)
    alice.nack(3, requeue=False)
    assert alice.count("dead") == 0
    alice.call(ChannelClose(), ChannelCloseOk)
    assert alice.broker.memory_accounts.held_bytes == 0


# -- recover


def test_recover_returns_everything(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    alice.publish("q", b"x")
    alice.publish("q", b"y")
    alice.call(BasicRecover(requeue=True), BasicRecoverOk)
    assert [(each.body, each.redelivered) for each in alice.deliveries()] == [
        (b"x", False),
        (b"y", False),
        (b"x", True),
        (b"y", True),
    ]


def test_recover_async_returns_everything_without_an_answer(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q")
    alice.get("q", no_ack=False)
    alice.send(BasicRecoverAsync(requeue=True))
    assert alice.count("q") == 1


def test_recover_gives_credit_back(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=1), BasicQosOk)
    alice.consume("q")
    alice.publish("q")
    alice.call(BasicRecover(requeue=True), BasicRecoverOk)
    assert len(alice.deliveries()) == 2


def test_recover_without_requeue_is_not_implemented(alice: Client) -> None:
    closed = alice.hard_error(BasicRecover(requeue=False))
    assert (closed.code, closed.by) == (540, (60, 110))


# -- get


def test_get_tells_how_many_are_left(alice: Client) -> None:
    alice.queue("q")
    for _ in range(3):
        alice.publish("q")
    got = alice.get("q")
    assert got is not None
    assert got.method.message_count == 2  # type: ignore[union-attr]
    assert not got.redelivered


def test_get_of_an_empty_queue_is_empty(alice: Client) -> None:
    alice.queue("q")
    assert alice.get("q") is None


def test_get_from_a_missing_queue_is_not_found(alice: Client) -> None:
    assert alice.error(BasicGet(queue="nowhere")).code == 404


def test_get_with_no_name_is_the_queue_last_declared(alice: Client) -> None:
    assert alice.error(BasicGet()).code == 404
    name = alice.queue()
    alice.publish(name, b"x")
    got = alice.get("")
    assert got is not None and got.body == b"x"


# -- who consumes


def test_an_exclusive_consumer_wants_to_be_the_only_one(alice: Client, bob: Client) -> None:
    alice.queue("q")
    alice.consume("q", exclusive=True)
    closed = bob.error(BasicConsume(queue="q"))
    assert (closed.code, closed.by) == (403, (60, 20))
    assert "in exclusive use" in closed.text


def test_nobody_becomes_exclusive_beside_others(alice: Client, bob: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    assert bob.error(BasicConsume(queue="q", exclusive=True)).code == 403


def test_exclusive_use_ends_with_its_consumer(alice: Client, bob: Client) -> None:
    alice.queue("q")
    alice.consume("q", exclusive=True)
    alice.lose()
    bob.consume("q", exclusive=True)


def test_a_single_active_consumer_gets_all_until_it_goes(alice: Client, bob: Client) -> None:
    alice.queue("q", x_single_active_consumer=True)
    alice.consume("q", "first")
    bob.consume("q", "second")
    for _ in range(3):
        alice.publish("q")
    assert (len(alice.deliveries()), len(bob.deliveries())) == (3, 0)
    alice.call(BasicCancel(consumer_tag="first"), BasicCancelOk)
    alice.publish("q", b"x")
    assert bob.bodies() == [b"x"]


def test_a_single_active_consumer_without_credit_is_waited_for(alice: Client, bob: Client) -> None:
    alice.queue("q", x_single_active_consumer=True)
    alice.call(BasicQos(prefetch_count=1), BasicQosOk)
    alice.consume("q")
    bob.consume("q")
    alice.publish("q")
    alice.publish("q")
    assert (len(alice.deliveries()), len(bob.deliveries())) == (1, 0)
    alice.lose()
    assert len(bob.deliveries()) == 2


def test_a_single_active_queue_has_no_exclusive_consumers(alice: Client) -> None:
    alice.queue("q", x_single_active_consumer=True)
    assert alice.error(BasicConsume(queue="q", exclusive=True)).code == 403


def test_the_highest_priority_with_credit_is_served(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=2), BasicQosOk)
    alice.consume("q", "low")
    alice.consume("q", "high", x_priority=5)
    for _ in range(4):
        alice.publish("q")
    tags = [each.method.consumer_tag for each in alice.deliveries()]  # type: ignore[union-attr]
    assert tags == ["high", "high", "low", "low"]


def test_consumers_of_equal_priority_take_turns(alice: Client) -> None:
    alice.queue("q")
    for tag, priority in (("a", 1), ("x", 0), ("b", 1), ("y", -1)):
        alice.consume("q", tag, x_priority=priority)
    for _ in range(4):
        alice.publish("q")
    assert [each.method.consumer_tag for each in alice.deliveries()] == list("abab")  # type: ignore[union-attr]


def test_a_priority_must_be_a_number(alice: Client) -> None:
    closed = alice.error(BasicConsume(queue=alice.queue("q"), arguments={"x-priority": "high"}))
    assert closed.code == 406
    assert "x-priority" in closed.text


# -- consumer timeout


def test_a_delivery_that_is_never_acknowledged_closes_its_channel(new_broker: NewBroker) -> None:
    broker = new_broker(consumer_timeout_ms=1_000)
    client = Client(broker)
    client.queue("q")
    client.consume("q")
    client.publish("q")
    later(broker, 999)
    client.queue("still-open")
    later(broker, 1)
    closed = client.channel_error()
    assert closed.code == 406
    assert "timed out" in closed.text
    assert client.count("q") == 1


@pytest.mark.parametrize("patient_first", [True, False])
def test_the_shortest_timeout_on_a_channel_counts(new_broker: NewBroker, patient_first: bool) -> None:
    broker = new_broker(consumer_timeout_ms=100_000)
    client = Client(broker)
    names = ["patient", "hasty"] if patient_first else ["hasty", "patient"]
    for name in names:
        client.queue(name)
        client.consume(name, x_consumer_timeout=500 if name == "hasty" else 100_000)
    for name in names:
        client.publish(name)
    later(broker, 600)
    assert client.channel_error().code == 406


def test_acknowledged_in_time_is_in_time(new_broker: NewBroker) -> None:
    broker = new_broker(consumer_timeout_ms=1_000)
    client = Client(broker)
    client.queue("q")
    client.consume("q")
    for tag in range(1, 20):
        client.publish("q")
        later(broker, 900)
        client.ack(tag)
    assert client.count("q") == 0


def test_a_queue_can_have_a_timeout_of_its_own(alice: Client) -> None:
    alice.queue("q", x_consumer_timeout=50)
    alice.consume("q")
    alice.publish("q")
    later(alice.broker, 50)
    assert alice.channel_error().code == 406


def test_what_was_fetched_takes_no_credit_from_consumers(alice: Client) -> None:
    alice.queue("q")
    for _ in range(4):
        alice.publish("q")
    alice.call(BasicQos(prefetch_count=1, global_=True), BasicQosOk)
    for _ in range(2):
        alice.get("q", no_ack=False)
    alice.consume("q")
    assert len(alice.deliveries()) == 1
    alice.ack(2, multiple=True)
    assert alice.deliveries() == []
    alice.ack(3)
    assert len(alice.deliveries()) == 1
