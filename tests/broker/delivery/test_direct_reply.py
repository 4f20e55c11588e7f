"""Direct reply-to: answers without a queue."""

from __future__ import annotations

import pytest

from openclust.broker.delivery.direct_reply import REPLY_PREFIX, REPLY_TO
from openclust.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicQos,
    BasicQosOk,
    ChannelFlow,
    ChannelFlowOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.client import Client


def _ask(asker: Client, server: Client) -> str:
    """Ask once; the address that the server is given."""
    server.queue("rpc")
    asker.publish("rpc", b"?", reply_to=REPLY_TO, correlation_id="1")
    got = server.get("rpc")
    assert got is not None and got.properties.reply_to is not None
    return got.properties.reply_to


def test_an_answer_comes_back_to_the_asker(alice: Client, bob: Client) -> None:
    tag = alice.consume(REPLY_TO, no_ack=True)
    address = _ask(alice, bob)
    assert address.startswith(REPLY_PREFIX)
    bob.publish(address, b"!", correlation_id="1", mandatory=True)
    (answer,) = alice.deliveries()
    assert (answer.body, answer.properties.correlation_id) == (b"!", "1")
    assert answer.method.consumer_tag == tag  # type: ignore[union-attr]
    assert answer.method.routing_key == address
    assert bob.returns == []


def test_answers_come_though_the_prefetch_of_the_channel_is_used_up(alice: Client, bob: Client) -> None:
    """They do not wait, so they would be lost."""
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=1, global_=True), BasicQosOk)
    alice.consume("q")
    alice.publish("q", b"held")
    alice.consume(REPLY_TO, no_ack=True)
    address = _ask(alice, bob)
    bob.publish(address, b"!")
    assert alice.bodies() == [b"held", b"!"]


def test_every_answer_comes_though_it_is_large(alice: Client, bob: Client) -> None:
    alice.consume(REPLY_TO, no_ack=True)
    address = _ask(alice, bob)
    bodies = [b"%d" % number * 50_000 for number in range(5)]
    for body in bodies:
        bob.publish(address, body)
    assert alice.bodies() == bodies


def test_asking_wants_a_consumer_first(alice: Client) -> None:
    alice.queue("rpc")
    alice.publish("rpc", reply_to=REPLY_TO)
    closed = alice.channel_error()
    assert (closed.code, closed.by) == (406, (60, 40))
    assert "fast reply consumer does not exist" in closed.text


def test_answers_are_never_acknowledged(alice: Client) -> None:
    closed = alice.error(BasicConsume(queue=REPLY_TO))
    assert (closed.code, closed.by) == (406, (60, 20))
    assert "reply consumer cannot acknowledge" in closed.text


def test_a_channel_has_one_reply_consumer(alice: Client) -> None:
    alice.consume(REPLY_TO, no_ack=True)
    closed = alice.error(BasicConsume(queue=REPLY_TO, no_ack=True))
    assert closed.code == 406 and "reply consumer already set" in closed.text
    alice.consume(REPLY_TO, no_ack=True)


@pytest.mark.parametrize("how", ["cancel", "channel", "connection"])
def test_an_asker_that_is_gone_gets_no_answer(alice: Client, bob: Client, how: str) -> None:
    tag = alice.consume(REPLY_TO, no_ack=True)
    address = _ask(alice, bob)
    assert bob.call(QueueDeclare(queue=address, passive=True), QueueDeclareOk).consumer_count == 1
    if how == "cancel":
        alice.call(BasicCancel(consumer_tag=tag), BasicCancelOk)
    elif how == "channel":
        alice.error(BasicConsume(queue="nowhere"))
    else:
        alice.lose()
    bob.call(ConfirmSelect(), ConfirmSelectOk)
    bob.publish(address, b"!", mandatory=True)
    assert alice.deliveries() == []
    assert len(bob.returns) == 1 and len(bob.confirms) == 1
    assert bob.error(QueueDeclare(queue=address, passive=True)).code == 404
    if how == "cancel":
        alice.consume(REPLY_TO, no_ack=True)


def test_an_asker_that_does_not_listen_misses_its_answer(alice: Client, bob: Client) -> None:
    alice.consume(REPLY_TO, no_ack=True)
    address = _ask(alice, bob)
    alice.call(ChannelFlow(active=False), ChannelFlowOk)
    bob.publish(address, b"lost")
    alice.call(ChannelFlow(active=True), ChannelFlowOk)
    bob.publish(address, b"heard")
    assert alice.bodies() == [b"heard"]


def test_addresses_cannot_be_guessed_from_one_another(alice: Client, bob: Client) -> None:
    alice.publish(REPLY_PREFIX + "guess", mandatory=True)
    assert len(alice.returns) == 1
    assert alice.error(QueueDeclare(queue=REPLY_PREFIX + "guess", passive=True)).code == 404
