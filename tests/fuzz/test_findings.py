"""What fuzzing found, each as its smallest case."""

from __future__ import annotations

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.wire.codec import method_frame
from openclust.wire.frames import FRAME_HEADER, content_frames, frame
from openclust.wire.methods import (
    BasicConsume,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    QueueDeclare,
    QueueDelete,
)
from openclust.wire.properties import CONTENT_TYPE, PREAMBLE, Properties, encode_header
from tests.fuzz.accounts import check_accounts
from tests.fuzz.said import Said
from tests.support.house import House


def publish(queue: str, body: bytes = b"x", properties: Properties | None = None) -> bytes:
    header = encode_header(properties or Properties(), len(body))
    return method_frame(1, BasicPublish(routing_key=queue)) + content_frames(1, header, body, 4_096)


def said_to(house: House, connection: Connection) -> Said:
    said = Said()
    said.hear(house.line(connection).take())
    return said


def test_what_a_closing_channel_gives_back_stays_in_the_queue() -> None:
    house = House()
    client = house.log_in()
    house.send(client, QueueDeclare(queue="q"), BasicConsume(queue="q"))
    house.feed(client, publish("q"))
    house.send(client, ChannelClose())
    queue = house.broker.vhosts["/"].queues["q"]
    assert (len(queue), queue.unacked) == (1, 0)
    check_accounts(house.broker)


def test_nothing_is_delivered_to_the_sibling_of_a_channel_that_ends_with_its_connection() -> None:
    house = House()
    client = house.log_in()
    house.send(client, ChannelOpen(), channel=2)
    house.send(client, QueueDeclare(queue="q"), BasicConsume(queue="q"))
    house.feed(client, publish("q"))
    house.turn()
    house.send(client, BasicConsume(queue="q"), channel=2)
    house.line(client).take()
    house.send(client, ConnectionClose(), channel=0)
    assert BasicDeliver not in [type(method) for _, method in said_to(house, client).methods]
    check_accounts(house.broker)


def test_deliveries_of_a_deleted_queue_cost_nothing_when_their_channel_is_gone() -> None:
    house = House()
    client = house.log_in()
    house.send(client, QueueDeclare(queue="q"), BasicConsume(queue="q"))
    house.feed(client, publish("q"))
    house.send(client, QueueDelete(queue="q"))
    house.send(client, ChannelClose())
    assert house.broker.memory_accounts.held_bytes == 0


def test_a_header_that_nobody_could_decode_reaches_nobody() -> None:
    house = House()
    publisher, consumer = house.log_in(), house.log_in()
    house.send(consumer, QueueDeclare(queue="q"), BasicConsume(queue="q", no_ack=True))
    house.line(consumer).take()
    header = PREAMBLE.pack(60, 0, 0, CONTENT_TYPE) + b"\x09short"
    house.feed(publisher, method_frame(1, BasicPublish(routing_key="q")) + frame(FRAME_HEADER, 1, header))
    house.turn()
    assert house.line(consumer).take() == b""
    _, close = said_to(house, publisher).methods[-1]
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.failing_class_id, close.failing_method_id) == (502, 60, 40)


@pytest.mark.parametrize("count", [2**63 - 1, -(2**63), "many", None])
def test_a_forged_count_of_deaths_ends_no_turn(count: int | str | None) -> None:
    house = House()
    client = house.log_in()
    house.send(client, QueueDeclare(queue="q", arguments={"x-max-length": 0, "x-dead-letter-exchange": ""}))
    deaths = Properties(headers={"x-death": [{"queue": "q", "reason": "maxlen", "count": count}]})
    house.feed(client, publish("q", properties=deaths))
    house.turn()
    check_accounts(house.broker)


def test_nothing_is_said_after_connection_close() -> None:
    house = House(memory_high_bytes=1_000)
    closing, other = house.log_in(), house.log_in()
    house.send(closing, QueueDeclare(queue="q"))
    house.feed(closing, publish("q"))
    house.feed(closing, method_frame(0, ChannelCloseOk()))
    house.turn()
    house.feed(other, publish("q", b"x" * 2_000))
    house.turn()
    last = [type(method) for _, method in said_to(house, closing).methods][-1]
    assert last is ConnectionClose


def test_an_auto_delete_queue_that_is_gone_waits_for_no_deadline() -> None:
    house = House()
    client = house.log_in()
    house.send(client, QueueDeclare(queue="q", auto_delete=True, arguments={"x-expires": 60_000}))
    house.send(client, BasicConsume(queue="q", consumer_tag="one"), BasicConsume(queue="q", consumer_tag="two"))
    house.send(client, ChannelClose())
    assert house.broker.deadlines.next_ms() == 0


def test_deadlines_of_deleted_queues_do_not_pile_up() -> None:
    house = House()
    client = house.log_in()
    # Its deadline stands before all others: what is behind the head of the heap is not looked at.
    house.send(client, QueueDeclare(queue="lasting", arguments={"x-expires": 60_000}))
    for _ in range(1_000):
        house.send(client, QueueDeclare(queue="q", arguments={"x-expires": 2**53}), QueueDelete(queue="q"))
    assert house.broker.deadlines.next_ms() and house.broker.queue_count == 1
    assert len(house.broker.deadlines._heap) < 500
