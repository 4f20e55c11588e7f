"""Connections: methods in and out of place, waiting, slow sockets, and the end."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from openclust.broker.amqp.channel import Channel
from openclust.broker.amqp.connection import Connection
from openclust.broker.delivery.consumer import Consumer
from openclust.broker.model.message import Message, delivery_suffix
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.wire.codec import method_frame
from openclust.wire.frames import FRAME_METHOD, PROTOCOL_HEADER, frame
from openclust.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    TxSelect,
    TxSelectOk,
)
from openclust.wire.properties import Properties, encode_header
from openclust.wire.reader import FrameReader
from tests.support.client import Client, publish_frames
from tests.support.driver import later, turn

NewBroker = Callable[..., Broker]


# -- methods in and out of place


@pytest.mark.parametrize(
    ("data", "code", "by"),
    [
        (method_frame(9, QueueDeclare()), 504, (50, 10)),
        (method_frame(9, BasicPublish()), 504, (60, 40)),
        (method_frame(9, BasicAck()), 504, (60, 80)),
        (method_frame(1, ChannelOpen()), 504, (20, 10)),
        (method_frame(1, BasicDeliver()), 503, (60, 60)),
        (method_frame(1, QueueDeclareOk()), 503, (50, 11)),
        (method_frame(0, QueueDeclare()), 503, (50, 10)),
        (method_frame(0, ConnectionOpenOk()), 503, (10, 41)),
        (frame(FRAME_METHOD, 1, b"\0\x63\0\x63"), 503, (99, 99)),
        (frame(FRAME_METHOD, 1, b"\0\x32"), 501, (0, 0)),
        (frame(FRAME_METHOD, 1, b"\0\x32\0\x0a\0\0\xff"), 502, (50, 10)),
        (frame(FRAME_METHOD, 1, method_frame(1, QueueDeclare())[7:-1] + b"more"), 502, (50, 10)),
        (frame(5, 1, b""), 501, (0, 0)),
        (b"\x01\0\x01\0\0\0\x04\0\x14\0\x0a\0", 501, (0, 0)),
    ],
)
def test_a_fault_closes_the_connection_and_names_its_method(
    alice: Client, data: bytes, code: int, by: tuple[int, int]
) -> None:
    alice.feed(data)
    assert alice.closed is not None
    assert (alice.closed.code, alice.closed.by) == (code, by)


def test_after_its_own_close_the_broker_waits_for_the_answer(alice: Client) -> None:
    alice.queue("q")
    alice.hard_error(ChannelOpen())
    alice.publish("q")
    alice.send(QueueDelete(queue="q"))
    alice.feed(frame(2, 1, b"junk") + frame(3, 7, b"junk"))
    assert not alice.is_finished
    alice.send(ConnectionCloseOk(), channel=0)
    assert alice.is_finished
    assert Client(alice.broker).count("q") == 0


def test_two_closes_that_cross_end_both(alice: Client) -> None:
    alice.hard_error(ChannelOpen())
    alice.send(ConnectionClose(), channel=0)
    assert alice.is_finished


def test_what_follows_a_fault_in_one_read_is_dropped(alice: Client) -> None:
    alice.feed(method_frame(1, ChannelOpen()) + method_frame(1, QueueDeclare(queue="q")))
    assert alice.closed is not None
    assert "q" not in alice.connection.vhost.queues


def test_the_clients_close_is_answered_and_all_is_given_back(alice: Client, bob: Client) -> None:
    alice.queue("q")
    alice.queue("mine", exclusive=True)
    alice.consume("q")
    bob.publish("q")
    alice.call(ConnectionClose(), ConnectionCloseOk, channel=0)
    assert alice.is_finished
    assert (bob.count("q"), bob.consumers("q")) == (1, 0)
    assert "mine" not in bob.connection.vhost.queues


def test_what_a_dying_connection_returns_does_not_go_to_its_other_channels(alice: Client, bob: Client) -> None:
    alice.queue("q")
    alice.open_channel(2)
    alice.consume("q", channel=1)
    alice.publish("q")
    alice.consume("q", channel=2)
    alice.send(ConnectionClose(), channel=0)
    assert alice.deliveries(2) == []
    assert bob.count("q") == 1


def test_update_secret_is_answered(alice: Client) -> None:
    alice.call(ConnectionUpdateSecret(new_secret=b"s"), ConnectionUpdateSecretOk, channel=0)


# -- channels


def test_a_channel_closed_for_an_error_is_silent_until_the_answer(alice: Client) -> None:
    alice.queue("q")
    alice.publish("", exchange="nowhere")
    alice.publish("q")
    alice.send(QueueDelete(queue="q"), BasicAck(delivery_tag=5))
    alice.publish("q", b"pieces", pieces=2)
    assert alice.channel_error().code == 404
    assert alice.count("q") == 0


def test_two_channel_closes_that_cross_are_both_answered(alice: Client) -> None:
    alice.publish("", exchange="nowhere")
    alice.send(ChannelClose())
    alice.reply(1, ChannelClose)
    alice.reply(1, ChannelCloseOk)
    alice.send(ChannelCloseOk())
    alice.open_channel(1)


def test_the_other_channels_live_on(alice: Client) -> None:
    alice.open_channel(2)
    alice.publish("", exchange="nowhere", channel=2)
    alice.queue("q")
    assert alice.channel_error(2).code == 404


def test_a_channel_begins_anew_after_its_close(alice: Client) -> None:
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    alice.publish("q")
    alice.call(ChannelClose(), ChannelCloseOk)
    alice.open_channel(1)
    alice.call(TxSelect(), TxSelectOk)


# -- slow sockets


def test_a_slow_socket_stops_its_deliveries_and_loses_none(new_broker: NewBroker) -> None:
    broker = new_broker(outbox_bytes_max=10_000)
    sender, slow, quick = Client(broker), Client(broker), Client(broker)
    for client in (slow, quick):
        name = client.queue(exclusive=True)
        client.bind(name, "amq.fanout")
        client.consume(name, no_ack=True)
    slow.stop_reading()
    bodies = [b"%04d" % number * 250 for number in range(100)]
    for body in bodies:
        sender.publish("", body, exchange="amq.fanout")
    assert quick.bodies() == bodies
    assert 10_000 < len(slow.unread) < 15_000
    seen = []
    while slow.unread:
        slow.read_once()
        assert len(slow.unread) < 15_000
        seen += slow.bodies()
    assert seen == bodies
    slow.read_on()


def test_deliveries_go_on_when_half_of_the_bound_is_taken(new_broker: NewBroker) -> None:
    broker = new_broker(outbox_bytes_max=10_000)
    sender, slow = Client(broker), Client(broker)
    sender.queue("q")
    slow.consume("q")
    slow.stop_reading()
    for _ in range(30):
        sender.publish("q", b"x" * 1_000)
    waiting = len(slow.unread)
    slow.connection.flushed(5_001)
    turn(broker)
    assert len(slow.unread) == waiting
    slow.connection.flushed(5_000)
    turn(broker)
    assert len(slow.unread) > waiting
    slow.read_on()
    assert len(slow.deliveries()) == 30


def test_a_slow_socket_is_charged_for_what_it_has_not_taken(alice: Client, bob: Client) -> None:
    alice.queue("q")
    bob.consume("q", no_ack=True)
    bob.stop_reading()
    alice.publish("q", b"x" * 1_000)
    assert alice.broker.memory_accounts.outbox_bytes == len(bob.unread) > 1_000
    bob.lose()
    assert alice.broker.memory_accounts.outbox_bytes == 0


def test_a_slow_socket_takes_turns_with_its_queues_and_channels(new_broker: NewBroker) -> None:
    """Of several full queues none waits for the others to be empty."""
    broker = new_broker(outbox_bytes_max=4_000)
    client, sender = Client(broker), Client(broker)
    client.open_channel(2)
    names = ("a", "b", "c", "d")
    for number, name in enumerate(names):
        sender.queue(name)
        client.consume(name, name, channel=1 + number % 2)
    client.stop_reading()
    for name in names:
        for _ in range(40):
            sender.publish(name, name.encode() * 1_000)
    seen: list[bytes] = []
    for _ in range(10):
        client.read_once()
        seen += [body[:1] for number in (1, 2) for body in client.bodies(number)]
    assert set(seen) == {b"a", b"b", b"c", b"d"}
    client.read_on()


def test_a_turn_takes_a_bounded_number_of_bytes(new_broker: NewBroker) -> None:
    broker = new_broker(turn_bytes_max=5_000)
    client = Client(broker)
    client.queue("q")
    client.connection.receive(publish_frames("q", b"x" * 1_000) * 20)
    assert client.connection.hold == "turn"
    assert len(broker.vhosts["/"].queues["q"]) < 10
    turn(broker)
    assert client.count("q") == 20


# -- memory


def _fill(broker: Broker, client: Client) -> None:
    client.publish("q", b"x" * (broker.memory_accounts.high_bytes + 1))


def test_without_memory_publishers_wait_and_are_told(new_broker: NewBroker) -> None:
    broker = new_broker(memory_high_bytes=10_000)
    sender, receiver, late = Client(broker), Client(broker), Client(broker)
    sender.queue("q")
    _fill(broker, sender)
    assert [type(each) for each in sender.blocked] == [ConnectionBlocked]
    assert receiver.blocked == [] and late.blocked == []
    late.publish("q", b"waits")
    assert [type(each) for each in late.blocked] == [ConnectionBlocked]
    assert receiver.count("q") == 1
    got = receiver.get("q", no_ack=False)
    assert got is not None
    assert receiver.count("q") == 0
    receiver.ack(got.tag)
    assert [type(each) for each in late.blocked] == [ConnectionBlocked, ConnectionUnblocked]
    assert [type(each) for each in sender.blocked] == [ConnectionBlocked, ConnectionUnblocked]
    assert receiver.count("q") == 1


def test_who_publishes_and_consumes_acknowledges_up_to_its_first_waiting_publish(new_broker: NewBroker) -> None:
    broker = new_broker(memory_high_bytes=10_000)
    both, other = Client(broker), Client(broker)
    both.queue("q")
    both.call(BasicQos(prefetch_count=1), BasicQosOk)
    both.consume("q")
    other.queue("held")
    other.publish("held", b"x" * 11_000)
    for _ in range(3):
        broker.vhosts["/"].queues["q"].publish(_message())
    turn(broker)
    assert len(both.deliveries()) == 1
    both.ack(1)
    assert len(both.deliveries()) == 1
    both.send(BasicAck(delivery_tag=2))
    both.feed(publish_frames("q", b"waits") + method_frame(1, BasicAck(delivery_tag=3)))
    assert len(both.deliveries()) == 1
    assert not both.is_heard
    other.get("held")
    assert both.is_heard
    assert both.bodies() == [b"waits"]


def _message() -> Message:
    return Message("", "q", encode_header(Properties(), 1), b"x", delivery_suffix("", "q"))


def test_the_alarm_does_not_flutter(new_broker: NewBroker) -> None:
    broker = new_broker(memory_high_bytes=10_000)
    client = Client(broker)
    client.queue("q")
    for _ in range(8):
        client.publish("q", b"x" * 1_000)
    assert broker.memory_accounts.alarm
    other = Client(broker)
    other.get("q")
    assert not broker.memory_accounts.alarm or broker.memory_accounts.held_bytes > 9_000


def test_a_blocked_client_that_is_closed_hears_it(new_broker: NewBroker) -> None:
    """Its socket is read again: its answer to the close is worth hearing."""
    broker = new_broker(memory_high_bytes=10_000)
    client = Client(broker)
    client.queue("q")
    _fill(broker, client)
    client.publish("q")
    assert not client.is_heard
    broker.close_all(320, "CONNECTION_FORCED - shutdown")
    turn(broker)
    assert client.closed is not None and client.closed.code == 320
    assert client.is_heard
    client.send(ConnectionCloseOk(), channel=0)
    assert client.is_finished


def test_only_who_understands_it_is_told_of_the_alarm(new_broker: NewBroker) -> None:
    broker = new_broker(memory_high_bytes=10_000)
    deaf = Client(broker, capabilities=())
    deaf.queue("q")
    _fill(broker, deaf)
    deaf.publish("q")
    assert deaf.blocked == [] and not deaf.is_heard


def test_messages_held_back_come_in_their_order(new_broker: NewBroker) -> None:
    broker = new_broker(memory_high_bytes=10_000)
    sender, receiver = Client(broker), Client(broker)
    sender.queue("q")
    _fill(broker, sender)
    sender.feed(b"".join(publish_frames("q", b"%d" % number) for number in range(5)))
    sender.publish("q", b"5", pieces=1)
    receiver.get("q")
    assert [each.body for each in (receiver.get("q") for _ in range(6)) if each] == [b"%d" % n for n in range(6)]


# -- the end


def test_the_broker_says_goodbye_to_all(broker: Broker) -> None:
    client, stranger = Client(broker), Client(broker, log_in=False)
    stranger.feed(PROTOCOL_HEADER)
    broker.close_all(320, "CONNECTION_FORCED - shutdown")
    turn(broker)
    assert client.closed is not None and client.closed.code == 320
    assert stranger.is_finished


@pytest.mark.parametrize("how", ["close", "lose", "fail"])
def test_nothing_of_a_connection_is_left_when_it_is_gone(broker: Broker, how: str) -> None:
    """Not even until the garbage collector comes, which is seldom."""
    keeper = Client(broker)
    keeper.queue("shared")
    kinds = (Connection, Channel, Consumer, FrameReader)
    gc.collect()
    gc.disable()
    try:
        before = _count(kinds), _count((Queue,))
        client = Client(broker)
        client.open_channel(2)
        name = client.queue(exclusive=True, x_message_ttl=10_000)
        client.queue("expiring", x_expires=60_000)
        client.bind(name, "amq.topic", "a.#")
        client.consume(name, no_ack=True)
        client.consume("shared", channel=2)
        client.consume("amq.rabbitmq.reply-to", no_ack=True)
        keeper.publish("shared")
        keeper.publish("a.b", exchange="amq.topic")
        keeper.call(QueueDelete(queue="expiring"))
        client.call(TxSelect(), TxSelectOk)
        client.publish("shared")
        if how == "close":
            client.close()
        elif how == "fail":
            client.hard_error(ChannelOpen())
            client.lose()
        else:
            client.lose()
        later(broker, 1)
        del client
        assert (_count(kinds), _count((Queue,))) == before
    finally:
        gc.enable()


def _count(kinds: tuple[type, ...]) -> int:
    return sum(isinstance(each, kinds) for each in gc.get_objects())


def test_deadlines_of_what_is_gone_do_not_pile_up(broker: Broker) -> None:
    """Each channel had a delivery that could have timed out in half an hour."""
    client = Client(broker)
    client.queue("q")
    client.publish("q")
    for _ in range(1_000):
        client.open_channel(2)
        client.get("q", no_ack=False, channel=2)
        client.call(ChannelClose(), ChannelCloseOk, channel=2)
    assert len(broker.deadlines) < 500


def test_methods_of_the_server_are_not_for_clients(alice: Client) -> None:
    answer: Method = ConnectionBlocked(reason="no")
    assert alice.hard_error(answer, channel=0).code == 503
