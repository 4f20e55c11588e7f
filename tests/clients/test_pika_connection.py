"""Logging in, negotiating, being blocked, and saying goodbye, with pika."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pamqp import body, commands, header
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ProbableAuthenticationError,
)

from tests.support.clients.broker_process import Broker, running_broker
from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import (
    Client,
    connection_closed,
    consume,
    depth,
    get,
    publish,
    pump,
    temporary_queue,
    unique,
)
from tests.support.clients.raw_client import RawClient

pytestmark = pytest.mark.sockets


def test_the_capabilities_are_announced(client: Client) -> None:
    properties = client.connect()._impl.server_properties
    assert {"product", "version", "platform", "copyright", "information"} <= set(properties)
    expected = {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }
    assert expected.items() <= properties["capabilities"].items()


def test_a_wrong_password_is_refused_with_a_reason(client: Client) -> None:
    # pika announces authentication_failure_close, so a close with 403 comes instead of a dropped socket.
    with pytest.raises(ProbableAuthenticationError) as error:
        client.connect(credentials=pika.PlainCredentials("guest", "wrong"))
    assert "403" in str(error.value) and "ACCESS_REFUSED" in str(error.value)


def test_an_unknown_virtual_host_is_not_allowed(client: Client) -> None:
    with pytest.raises(AMQPConnectionError) as error:
        client.connect(virtual_host="missing")
    assert "530" in str(error.value) and "missing" in str(error.value)


def test_many_channels_work_side_by_side(client: Client) -> None:
    connection = client.connect()
    channels = [connection.channel() for _ in range(200)]
    queue = temporary_queue(channels[0])
    for number, channel in enumerate(channels):
        publish(channel, queue, str(number))
    assert len({get(channels[-1], queue).body for _ in channels}) == 200


def test_a_channel_number_is_used_again_after_close(client: Client) -> None:
    connection = client.connect()
    for _ in range(5):
        channel = connection.channel(7)
        queue = temporary_queue(channel)
        publish(channel, queue, b"x")
        assert get(channel, queue).body == b"x"
        channel.close()


def test_a_channel_number_is_used_again_after_an_error(client: Client) -> None:
    connection = client.connect()
    for _ in range(5):
        channel = connection.channel(7)
        with pytest.raises(ChannelClosedByBroker):
            channel.queue_declare("missing", passive=True)
        assert channel.is_closed
    assert temporary_queue(connection.channel(7))


def test_other_channels_outlive_a_channels_error(client: Client) -> None:
    connection = client.connect()
    good, bad = connection.channel(), connection.channel()
    with pytest.raises(ChannelClosedByBroker):
        bad.queue_declare("missing", passive=True)
    assert temporary_queue(good)


def test_the_agreed_channel_max_is_the_smaller_one(client: Client) -> None:
    connection = client.connect(channel_max=5)
    assert connection._impl.params.channel_max == 5
    assert len([connection.channel() for _ in range(5)]) == 5


def test_a_secret_can_be_replaced(client: Client) -> None:
    connection = client.connect()
    connection.update_secret("another password", "it was time")
    assert temporary_queue(connection.channel())


def test_heartbeats_keep_an_idle_connection_alive(client: Client) -> None:
    connection = client.connect(heartbeat=1)
    end = time.monotonic() + 3.5
    while time.monotonic() < end:  # pika closes by itself when two beats of the broker are missing
        connection.process_data_events(0.1)
    assert temporary_queue(connection.channel())


# Being blocked


@pytest.fixture
def small_memory(own_process: None, tmp_path: Path) -> Iterator[Client]:
    """A client of a broker that may take 80 MB, of which an idle one needs about half."""
    with running_broker(tmp_path, "[limits]\nmemory_high_watermark = 80000000\n") as broker:
        client = Client(broker)
        yield client
        client.vanish()  # a blocked connection would wait with its close, and the broker for an answer to its own


def fill_until_blocked(publisher: BlockingChannel, consumer: BlockingChannel, queue: str) -> list[str]:
    """Publish until the broker says connection.blocked; the list takes what it says from here on.

    Each message is seen in the queue before the next is sent: pika waits until a publish is written, and more than the
    sockets hold would never be while the broker does not read.
    """
    events: list[str] = []
    publisher.connection.add_on_connection_blocked_callback(lambda _, frame: events.append(frame.method.reason))
    publisher.connection.add_on_connection_unblocked_callback(lambda *_: events.append("unblocked"))
    for count in range(1, 1_000):
        publish(publisher, queue, bytes(100_000))
        pump(publisher, lambda: events or depth(consumer, queue) == count)  # noqa: B023
        if events:
            return events
    raise AssertionError("100 MB are published, and the connection is not blocked")


def test_the_memory_mark_blocks_publishers_and_never_consumers(small_memory: Client) -> None:
    consumer, publisher = small_memory.channel(), small_memory.channel()
    queue = temporary_queue(consumer)
    events = fill_until_blocked(publisher, consumer, queue)
    assert "memory" in events[0]
    held = depth(consumer, queue)
    publish(publisher, queue, b"waits")
    publisher.connection.process_data_events(0.2)
    assert depth(consumer, queue) <= held + 1
    inbox = consume(consumer, queue)
    pump(consumer, lambda: len(inbox) >= held)
    assert temporary_queue(small_memory.channel())  # who does not publish is not stopped


def while_it_drains(consumer: BlockingChannel, publisher: BlockingChannel, events: list[str]) -> None:
    def unblocked() -> bool:
        consumer.connection.process_data_events(0)
        return events[1:] == ["unblocked"]

    pump(publisher, unblocked)


def test_publishers_go_on_when_the_memory_is_free_again(small_memory: Client) -> None:
    consumer, publisher = small_memory.channel(), small_memory.channel()
    queue = temporary_queue(consumer)
    events = fill_until_blocked(publisher, consumer, queue)
    publish(publisher, queue, b"waits")
    inbox = consume(consumer, queue, auto_ack=True)
    while_it_drains(consumer, publisher, events)
    pump(consumer, lambda: inbox and inbox[-1].body == b"waits")


def test_a_publisher_that_cannot_be_told_is_stopped_all_the_same(small_memory: Client) -> None:
    # 0-9-1 has no connection.blocked: the broker just stops to read.
    consumer = small_memory.channel()
    queue = temporary_queue(consumer)
    with RawClient(small_memory.broker) as raw:
        raw.open(frame_max=131072)
        raw.socket.settimeout(0.5)
        piece = (
            raw.bytes_of(commands.Basic.Publish(routing_key=queue), 1)
            + raw.bytes_of(header.ContentHeader(0, 100_000, commands.Basic.Properties()), 1)
            + raw.bytes_of(body.ContentBody(bytes(100_000)), 1)
        )
        with pytest.raises(TimeoutError):
            for _ in range(2_000):
                raw.send_bytes(piece)
        assert depth(consumer, queue) < 800
        inbox = consume(consumer, queue, auto_ack=True)
        pump(consumer, lambda: len(inbox) >= 100)


# Saying goodbye


def test_sigterm_closes_connections_with_320_and_ends_with_0(own_process: None, tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        client = Client(broker)
        idle, consumer = client.connect(), client.channel()
        consume(consumer, temporary_queue(consumer))
        assert broker.process is not None
        broker.process.send_signal(signal.SIGTERM)
        with connection_closed(320):
            pump(consumer, lambda: False)
        with connection_closed(320):
            idle.process_data_events(5)
        assert broker.process.wait(5) == 0
        assert "Traceback" not in broker.log_text()


def test_ctrl_c_ends_like_sigterm(own_process: None, tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        connection = Client(broker).connect()
        assert broker.process is not None
        broker.process.send_signal(signal.SIGINT)
        with connection_closed(320):
            connection.process_data_events(5)
        assert broker.process.wait(5) == 0
        assert "Traceback" not in broker.log_text()


def test_a_second_broker_on_the_port_says_so_in_one_line(own_process: None, broker: Broker, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "openclust", "start", "--cluster-key", "test", "--port", str(broker.port)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=20, env=os.environ)
    assert ended.returncode != 0
    assert str(broker.port) in ended.stderr and "Traceback" not in ended.stderr


def test_a_vanished_client_is_forgotten(client: Client) -> None:
    watcher = client.channel()
    queue = unique("vanished")
    watcher.queue_declare(queue, auto_delete=True)
    vanishing = client.channel()
    consume(vanishing, queue)
    vanishing.connection._impl._transport._sock.close()  # this one alone, and not even shut down

    def gone() -> bool:
        try:
            watcher.queue_declare(queue, passive=True)
        except ChannelClosedByBroker as error:
            return bool(error.reply_code == 404)
        return False

    eventually(gone)
