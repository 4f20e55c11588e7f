"""Messages whose frames come one by one, and messages that leave in several."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openclust.broker.server.broker import Broker
from openclust.wire.codec import method_frame
from openclust.wire.frames import FRAME_BODY, FRAME_HEADER, HEARTBEAT, frame
from openclust.wire.methods import BasicPublish, ChannelClose, ConfirmSelect, QueueDeclare
from openclust.wire.properties import PREAMBLE
from tests.support.client import Client

NewBroker = Callable[..., Broker]
PUBLISH = method_frame(1, BasicPublish(routing_key="q"))


def header(size: int, *, class_id: int = 60, weight: int = 0, channel: int = 1) -> bytes:
    return frame(FRAME_HEADER, channel, PREAMBLE.pack(class_id, weight, size, 0))


def body(data: bytes, channel: int = 1) -> bytes:
    return frame(FRAME_BODY, channel, data)


@pytest.mark.parametrize("pieces", [1, 3, 100])
def test_a_body_in_any_pieces_is_one_message(alice: Client, pieces: int) -> None:
    alice.queue("q")
    alice.publish("q", b"a longer body", pieces=pieces)
    got = alice.get("q")
    assert got is not None and got.body == b"a longer body"


def test_bytes_may_come_one_by_one(alice: Client) -> None:
    alice.queue("q")
    for byte in PUBLISH + header(2) + body(b"hi"):
        alice.feed(bytes((byte,)))
    assert alice.count("q") == 1


def test_frames_of_other_channels_may_come_between(alice: Client) -> None:
    alice.queue("q")
    alice.open_channel(2)
    alice.feed(PUBLISH + header(4) + body(b"on"))
    alice.publish("q", b"between", channel=2)
    alice.feed(HEARTBEAT)
    alice.feed(body(b"e!"))
    got = [alice.get("q"), alice.get("q")]
    assert [each.body for each in got if each] == [b"between", b"one!"]


def test_a_body_is_split_to_the_receivers_frame_max(broker: Broker) -> None:
    sender, receiver = Client(broker, frame_max=100_000), Client(broker, frame_max=4_096)
    sender.queue("q")
    receiver.consume("q", no_ack=True)
    sender.publish("q", b"x" * 10_000)
    receiver.consume("q", no_ack=False)
    sender.publish("q", b"y" * 90_000)
    assert receiver.bodies() == [b"x" * 10_000, b"y" * 90_000]
    assert receiver.largest_frame == 4_096


def test_consumers_of_one_message_have_frames_of_their_own_size(broker: Broker) -> None:
    sender = Client(broker)
    receivers = [Client(broker, frame_max=size) for size in (4_096, 8_192, 4_096, 100_000)]
    for receiver in receivers:
        name = receiver.queue(exclusive=True)
        receiver.bind(name, "amq.fanout")
        receiver.consume(name, no_ack=True)
    sender.publish("", b"z" * 20_000, exchange="amq.fanout")
    for receiver, size in zip(receivers, (4_096, 8_192, 4_096, 20_008), strict=True):
        assert receiver.bodies() == [b"z" * 20_000]
        assert receiver.largest_frame == size


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (header(1), 505),
        (body(b"x"), 505),
        (PUBLISH + body(b"x"), 505),
        (PUBLISH + PUBLISH, 505),
        (PUBLISH + method_frame(1, QueueDeclare(queue="q")), 505),
        (PUBLISH + method_frame(1, ChannelClose()), 505),
        (PUBLISH + method_frame(1, ConfirmSelect()), 505),
        (PUBLISH + header(3) + header(3), 505),
        (PUBLISH + header(3) + body(b"toolong"), 505),
        (PUBLISH + header(3) + body(b"xx") + body(b"xx"), 505),
        (PUBLISH + header(3, class_id=50), 505),
        (PUBLISH + header(3, weight=1), 501),
        (PUBLISH + frame(FRAME_HEADER, 1, b"short"), 502),
        (PUBLISH + header(3, channel=9), 504),
        (PUBLISH + header(3) + body(b"xxx", channel=9), 504),
        (header(3, channel=0), 505),
        (PUBLISH + header(1) + PUBLISH + header(1) + body(b"x"), 505),
    ],
)
def test_content_out_of_its_order_closes_the_connection(alice: Client, frames: bytes, code: int) -> None:
    alice.queue("q")
    alice.feed(frames)
    assert alice.closed is not None
    assert alice.closed.code == code
    alice.lose()
    assert alice.broker.memory_accounts.held_bytes == 0


def test_what_is_too_large_is_refused_by_its_header_already(new_broker: NewBroker) -> None:
    client = Client(new_broker(message_size_max=10))
    client.queue("q")
    client.feed(PUBLISH + header(11))
    # The body is on its way all the same.
    client.feed(body(b"x" * 11))
    closed = client.channel_error()
    assert (closed.code, closed.by) == (311, (60, 40))
    client.publish("q", b"fits")
    assert client.count("q") == 1


def test_half_a_message_is_in_the_memory_accounts(alice: Client) -> None:
    alice.queue("q")
    alice.feed(PUBLISH + header(1_000) + body(b"x" * 600))
    assert alice.broker.memory_accounts.held_bytes == 600
    alice.feed(body(b"x" * 400))
    got = alice.get("q")
    assert got is not None
    assert alice.broker.memory_accounts.held_bytes == 0


def test_half_a_message_leaves_the_accounts_with_its_channel(alice: Client) -> None:
    alice.feed(PUBLISH + header(1_000) + body(b"x" * 600))
    alice.lose()
    assert alice.broker.memory_accounts.held_bytes == 0


def test_empty_body_frames_cost_nothing(alice: Client) -> None:
    alice.queue("q")
    alice.feed(PUBLISH + header(1))
    for _ in range(100):
        alice.feed(body(b"") * 100)
    incoming = alice.connection.channels[1].incoming
    assert incoming is not None and len(incoming.pieces) == 0
    alice.feed(body(b"x"))
    assert alice.count("q") == 1


def test_the_alarm_lets_a_message_in_progress_end(new_broker: NewBroker) -> None:
    broker = new_broker(memory_high_bytes=10_000)
    client, other = Client(broker), Client(broker)
    other.queue("q")
    client.feed(PUBLISH + header(1_000) + body(b"x" * 500))
    other.publish("q", b"x" * 10_000)
    assert broker.memory_accounts.alarm
    client.feed(body(b"x" * 500))
    assert other.count("q") == 2


def test_messages_in_progress_cannot_take_all_memory(new_broker: NewBroker) -> None:
    """All of them began before the alarm, and none of them ends."""
    broker = new_broker(memory_high_bytes=10_000)
    greedy, other = Client(broker), Client(broker)
    for number in range(1, 31):
        if number > 1:
            greedy.open_channel(number)
        greedy.feed(method_frame(number, BasicPublish(routing_key="q")) + header(2_000, channel=number))
    for number in range(1, 31):
        greedy.feed(body(b"x" * 1_000, channel=number))
    assert greedy.closed is not None and greedy.closed.code == 506
    assert broker.memory_accounts.held_bytes == 0
    other.queue("q")
    other.publish("q")
    assert other.count("q") == 1
