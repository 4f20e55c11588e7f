"""Publishing: routes, returns, validation and confirms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openclust.broker.amqp import publishing
from openclust.broker.model.access import Permission, User
from openclust.broker.server.broker import Broker
from openclust.wire.codec import method_frame
from openclust.wire.frames import FRAME_BODY, FRAME_HEADER, frame
from openclust.wire.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    TxSelect,
    TxSelectOk,
)
from openclust.wire.properties import PREAMBLE
from tests.support.client import EVERYTHING, Client

NewBroker = Callable[..., Broker]
PUBLISH = (60, 40)


def _confirms(client: Client) -> list[tuple[str, int, bool]]:
    told = [
        ("ack" if isinstance(each, BasicAck) else "nack", each.delivery_tag, each.multiple)
        for each in client.confirms
        if isinstance(each, BasicAck | BasicNack)
    ]
    client.confirms.clear()
    return told


# -- where it goes


def test_the_default_exchange_sends_to_the_queue_of_that_name(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q", b"x")
    assert alice.count("q") == 1


def test_a_missing_exchange_closes_the_channel(alice: Client) -> None:
    alice.publish("key", exchange="nowhere")
    closed = alice.channel_error()
    assert (closed.code, closed.by) == (404, PUBLISH)
    assert closed.text == "NOT_FOUND - no exchange 'nowhere' in vhost '/'"


def test_an_internal_exchange_takes_no_publishes(alice: Client) -> None:
    alice.call(ExchangeDeclare(exchange="inner", internal=True), ExchangeDeclareOk)
    alice.publish("key", exchange="inner")
    closed = alice.channel_error()
    assert (closed.code, closed.by) == (403, PUBLISH)


def test_an_unroutable_message_is_dropped(alice: Client) -> None:
    alice.publish("nowhere")
    assert alice.returns == []
    assert alice.broker.memory_accounts.held_bytes == 0


def test_an_unroutable_mandatory_message_comes_back_whole(alice: Client) -> None:
    alice.publish("nowhere", b"body", mandatory=True, message_id="m")
    (returned,) = alice.returns
    assert isinstance(returned.method, BasicReturn)
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("", "nowhere")
    assert (returned.body, returned.properties.message_id) == (b"body", "m")


def test_a_routable_mandatory_message_does_not_come_back(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q", mandatory=True)
    assert alice.returns == []


def test_immediate_is_not_implemented(alice: Client) -> None:
    method = method_frame(1, BasicPublish(routing_key="q", immediate=True))
    alice.feed(method + frame(FRAME_HEADER, 1, PREAMBLE.pack(60, 0, 0, 0)))
    assert alice.closed is not None
    assert (alice.closed.code, alice.closed.by) == (540, PUBLISH)


def test_immediate_is_not_implemented_in_pieces_either(alice: Client) -> None:
    alice.feed(method_frame(1, BasicPublish(routing_key="q", immediate=True)))
    alice.feed(frame(FRAME_HEADER, 1, PREAMBLE.pack(60, 0, 0, 0)))
    assert alice.closed is not None
    assert (alice.closed.code, alice.closed.by) == (540, PUBLISH)


def test_a_route_follows_the_topology(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q")
    alice.call(QueueDelete(queue="q"), QueueDeleteOk)
    alice.publish("q", mandatory=True)
    assert len(alice.returns) == 1
    alice.queue("q")
    alice.publish("q")
    assert alice.count("q") == 1


def test_a_route_follows_the_permissions(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    alice.publish("q")
    broker.put_permission("guest", "/", Permission(configure=".*", write="^q$", read=".*"))
    alice.publish("q")
    closed = alice.channel_error()
    assert closed.code == 403
    assert "write access to 'amq.default' in vhost '/' refused for user 'guest'" in closed.text


def test_carbon_copies_go_to_their_keys_too_each_queue_once(alice: Client) -> None:
    for name in ("one", "two", "three"):
        alice.queue(name)
    alice.publish("one", headers={"CC": ["two", "one"], "BCC": ["three", "two"]})
    assert [alice.count(name) for name in ("one", "two", "three")] == [1, 1, 1]


def test_blind_copies_are_not_shown(alice: Client) -> None:
    alice.queue("q")
    alice.publish("nowhere", headers={"CC": ["q"], "BCC": ["q"], "other": 1})
    got = alice.get("q")
    assert got is not None
    assert got.headers == {"CC": ["q"], "other": 1}


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["q", 1, [1], {"q": 1}, None])
def test_copies_must_be_a_list_of_texts(alice: Client, name: str, value: object) -> None:
    alice.publish("nowhere", headers={name: value})
    if value is None:
        alice.queue("still-open")
        return
    closed = alice.channel_error()
    assert (closed.code, closed.by) == (406, PUBLISH)
    assert name in closed.text


def test_many_distinct_keys_to_many_queues_keep_few_routes(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A route lists its queues: the cache is bounded by what it lists, not only by its entries."""
    monkeypatch.setattr(publishing, "_CACHED_DESTINATIONS_MAX", 1_000)
    for number in range(100):
        alice.bind(alice.queue(f"q{number}"), "amq.fanout")
    for number in range(50):
        alice.publish(f"key-{number}", exchange="amq.fanout")
    cached = alice.connection.routes.values()
    assert sum(len(route.destinations) for route in cached) <= 1_100
    assert alice.count("q7") == 50


# -- what is wrong with it


def test_the_user_id_must_be_the_publisher(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q", user_id="guest")
    alice.publish("q", user_id="other")
    closed = alice.channel_error()
    assert (closed.code, closed.by) == (406, PUBLISH)
    assert "user_id property set to 'other' but authenticated user was 'guest'" in closed.text
    assert alice.count("q") == 1


def test_an_impersonator_may_be_anybody(broker: Broker) -> None:
    broker.put_user(User(name="actor", tags=("impersonator",), permissions={"/": EVERYTHING}))
    actor = Client(broker, "actor")
    actor.queue("q")
    actor.publish("q", user_id="guest")
    assert actor.count("q") == 1


@pytest.mark.parametrize("expiration", ["", "-1", " 1", "1.5", "1_0", "soon", str(2**53 + 1), "9" * 30, "\u0663"])
def test_an_expiration_is_a_number_of_milliseconds(alice: Client, expiration: str) -> None:
    alice.publish("q", expiration=expiration)
    closed = alice.channel_error()
    assert (closed.code, closed.by) == (406, PUBLISH)
    assert "expiration" in closed.text


def test_the_longest_expiration_is_fine(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q", expiration=str(2**53))
    assert alice.count("q") == 1


def test_unknown_property_flags_close_the_connection(alice: Client) -> None:
    alice.queue("q")
    alice.feed(method_frame(1, BasicPublish(routing_key="q")) + frame(FRAME_HEADER, 1, PREAMBLE.pack(60, 0, 0, 2)))
    assert alice.closed is not None and alice.closed.code == 502


@pytest.mark.parametrize(
    ("flags", "rest"),
    [
        (0x8000, b"\x32abc"),
        (0x8000, b""),
        (0x1000, b""),
        (0x0040, b"\0\0"),
        (0x8000, b"\x03abcd"),
        (0, b"left over"),
        (0x2000, b"\0\0\0\x09abc"),
    ],
)
def test_properties_that_do_not_add_up_reach_nobody(alice: Client, bob: Client, flags: int, rest: bytes) -> None:
    """Whoever consumes them could only fail on them: their publisher's connection is closed instead."""
    alice.queue("q")
    bob.consume("q", no_ack=True)
    header = PREAMBLE.pack(60, 0, 1, flags) + rest
    content = frame(FRAME_HEADER, 1, header) + frame(FRAME_BODY, 1, b"x")
    alice.feed(method_frame(1, BasicPublish(routing_key="q")) + content)
    assert alice.closed is not None
    assert (alice.closed.code, alice.closed.by) == (502, PUBLISH)
    assert bob.deliveries() == []


def test_a_message_past_the_limit_is_refused(new_broker: NewBroker) -> None:
    client = Client(new_broker(message_size_max=10))
    client.queue("q")
    client.publish("q", b"x" * 10)
    client.publish("q", b"x" * 11)
    closed = client.channel_error()
    assert (closed.code, closed.by) == (311, PUBLISH)
    assert client.count("q") == 1


# -- confirms


def test_confirms_are_told_together(alice: Client) -> None:
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    alice.queue("q")
    one = method_frame(1, BasicPublish(routing_key="q")) + frame(FRAME_HEADER, 1, PREAMBLE.pack(60, 0, 0, 0))
    alice.feed(one * 5)
    assert _confirms(alice) == [("ack", 5, True)]
    alice.feed(one)
    assert _confirms(alice) == [("ack", 6, False)]


def test_a_publish_before_confirm_mode_is_not_counted(alice: Client) -> None:
    alice.publish("nowhere")
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    alice.publish("nowhere")
    assert _confirms(alice) == [("ack", 1, False)]


def test_a_return_comes_before_its_confirm(alice: Client) -> None:
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    alice.stop_reading()
    alice.publish("nowhere", mandatory=True)
    unread = alice.unread
    assert unread.index(b"NO_ROUTE") < unread.rindex(b"\0\x3c\0\x50")
    alice.read_on()
    assert len(alice.returns) == 1 and _confirms(alice) == [("ack", 1, False)]


def test_a_message_that_a_full_queue_turns_away_is_nacked(alice: Client) -> None:
    alice.queue("q", x_max_length=1, x_overflow="reject-publish")
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    one = method_frame(1, BasicPublish(routing_key="q")) + frame(FRAME_HEADER, 1, PREAMBLE.pack(60, 0, 0, 0))
    alice.feed(one * 4)
    assert _confirms(alice) == [("ack", 1, False), ("nack", 4, True)]


def test_one_queue_that_turns_it_away_is_enough_for_a_nack(alice: Client) -> None:
    alice.bind(alice.queue("full", x_max_length=0, x_overflow="reject-publish"), "amq.fanout")
    alice.bind(alice.queue("free"), "amq.fanout")
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    alice.publish("", exchange="amq.fanout")
    assert _confirms(alice) == [("nack", 1, False)]
    assert alice.count("free") == 1


def test_confirms_are_told_before_the_channel_closes_for_a_later_publish(alice: Client) -> None:
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    header = frame(FRAME_HEADER, 1, PREAMBLE.pack(60, 0, 0, 0))
    good = method_frame(1, BasicPublish(routing_key="q")) + header
    bad = method_frame(1, BasicPublish(exchange="nowhere")) + header
    alice.feed(good * 2 + bad + good)
    assert alice.channel_error().code == 404
    assert _confirms(alice) == [("ack", 2, True)]


def test_confirm_select_twice_goes_on_counting(alice: Client) -> None:
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    alice.publish("q")
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    alice.publish("q")
    assert [tag for _, tag, _ in _confirms(alice)] == [1, 2]


def test_confirm_select_without_an_answer(alice: Client) -> None:
    alice.send(ConfirmSelect(no_wait=True))
    alice.publish("q")
    assert len(_confirms(alice)) == 1


def test_a_transactional_channel_cannot_confirm(alice: Client) -> None:
    alice.call(TxSelect(), TxSelectOk)
    closed = alice.error(ConfirmSelect())
    assert (closed.code, closed.by) == (406, (85, 10))
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    assert alice.error(TxSelect()).by == (90, 10)


def test_each_channel_confirms_its_own(alice: Client) -> None:
    alice.call(ChannelOpen(), ChannelOpenOk, channel=2)
    for number in (1, 2):
        alice.call(ConfirmSelect(), ConfirmSelectOk, channel=number)
    alice.publish("q", channel=1)
    alice.publish("q", channel=2)
    assert [tag for _, tag, _ in _confirms(alice)] == [1, 1]
