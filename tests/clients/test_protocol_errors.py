"""Wrong bytes, frames and methods, sent by hand: the right close code in the right scope, and nobody else is hurt."""

from __future__ import annotations

import random
import socket
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from pamqp import body, commands, header, heartbeat

from tests.support.clients.broker_process import Broker, running_broker
from tests.support.clients.pika_client import Client, get, publish, temporary_queue, unique
from tests.support.clients.raw_client import AMQP_0_9_1, RawClient, frame_of, method_payload

pytestmark = pytest.mark.sockets


def expect_close(raw: RawClient, code: int, *words: str) -> commands.Connection.Close:
    """The broker closes the connection; answering makes it close the socket too."""
    close: commands.Connection.Close = raw.expect(commands.Connection.Close)
    assert close.reply_code == code, close.reply_text
    assert all(word in close.reply_text for word in words), close.reply_text
    raw.send(commands.Connection.CloseOk())
    raw.read_until_closed()
    return close


def expect_channel_close(raw: RawClient, code: int) -> commands.Channel.Close:
    close: commands.Channel.Close = raw.expect(commands.Channel.Close)
    assert close.reply_code == code, close.reply_text
    raw.send(commands.Channel.CloseOk(), 1)
    return close


def expect_refusal(raw: RawClient, *codes: int) -> None:
    """As `expect_close`, where RabbitMQ only drops the socket and openclust is to tell the reason."""
    try:
        close = raw.expect(commands.Connection.Close)
    except EOFError:
        if raw.broker.is_openclust:
            raise
    else:
        assert close.reply_code in codes, close.reply_text


# Before the login


@pytest.mark.parametrize(
    "greeting",
    [b"AMQP\x00\x00\x09\x00", b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00", b"GET / HT", b"\0" * 8],
)
def test_a_wrong_protocol_header_is_answered_with_the_right_one(broker: Broker, greeting: bytes) -> None:
    with RawClient(broker) as raw:
        raw.send_bytes(greeting)
        assert raw.read_until_closed() == AMQP_0_9_1


def test_a_header_in_single_bytes_is_understood(broker: Broker) -> None:
    with RawClient(broker) as raw:
        for byte in AMQP_0_9_1:
            raw.send_bytes(bytes([byte]))
            time.sleep(0.005)
        start = raw.expect(commands.Connection.Start)
        assert (start.version_major, start.version_minor) == (0, 9)
        assert "PLAIN" in start.mechanisms.split()


def publish_and_get(broker: Broker, greeting: bytes) -> None:
    with RawClient(broker) as raw:
        raw.open(greeting=greeting)
        raw.send(commands.Queue.Declare(exclusive=True), 1)
        queue = raw.expect(commands.Queue.DeclareOk).queue
        raw.send(commands.Basic.Publish(routing_key=queue), 1)
        raw.send(header.ContentHeader(0, 5, commands.Basic.Properties()), 1)
        raw.send(body.ContentBody(b"hello"), 1)
        raw.send(commands.Basic.Get(queue=queue, no_ack=True), 1)
        raw.expect(commands.Basic.GetOk)
        raw.expect(header.ContentHeader)
        assert raw.expect(body.ContentBody).value == b"hello"


def test_a_client_that_asks_for_0_9_is_served(broker: Broker) -> None:
    """So begin Perl's AnyEvent::RabbitMQ and Mojo::RabbitMQ::Client."""
    publish_and_get(broker, b"AMQP\x01\x01\x00\x09")


@pytest.mark.parametrize("greeting", [b"AMQP\x01\x01\x08\x00", b"AMQP\x01\x01\x09\x01"])
def test_a_client_that_asks_for_0_8_is_served_in_0_9_1(broker: Broker, openclust_only: None, greeting: bytes) -> None:
    publish_and_get(broker, greeting)


def test_a_mechanism_that_is_not_offered_is_refused(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.start()
        raw.send(commands.Connection.StartOk({}, "GSSAPI", "", "en_US"))
        expect_refusal(raw, 403, 504, 530, 540)


def test_a_wrong_password_closes_the_socket_of_a_client_that_expects_no_more(broker: Broker) -> None:
    # 0-9-1 4.8 has no reply for this; 403 goes only to who announces authentication_failure_close.
    with RawClient(broker) as raw:
        raw.start()
        raw.send(commands.Connection.StartOk({}, "PLAIN", "\0guest\0wrong", "en_US"))
        assert raw.read_until_closed() == b""


def test_a_wrong_password_tells_403_to_a_client_that_can_hear_it(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.start()
        properties: dict[str, Any] = {"capabilities": {"authentication_failure_close": True}}
        raw.send(commands.Connection.StartOk(properties, "PLAIN", "\0guest\0wrong", "en_US"))
        expect_close(raw, 403, "ACCESS_REFUSED")


def test_amqplain_logs_in(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open(mechanism="AMQPLAIN")


def test_a_frame_max_below_the_minimum_is_refused(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.log_in()
        raw.send(commands.Connection.TuneOk(0, 100, 0))
        expect_refusal(raw, 501, 502, 530)


def test_a_frame_max_above_the_offer_is_refused(broker: Broker) -> None:
    with RawClient(broker) as raw:
        offered = raw.log_in().frame_max
        raw.send(commands.Connection.TuneOk(0, offered + 1, 0))
        expect_refusal(raw, 501, 502, 530)


def test_frames_before_the_login_are_small(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.start()
        raw.send_bytes(struct.pack(">BHI", 1, 0, 5000) + bytes(5000) + b"\xce")
        expect_refusal(raw, 501)


def test_a_silent_client_is_closed_after_the_handshake_time(own_process: None, tmp_path: Path) -> None:
    with running_broker(tmp_path, "[limits]\nhandshake_timeout_ms = 300\n") as broker, RawClient(broker) as raw:
        raw.start()
        raw.socket.settimeout(5)
        started = time.monotonic()
        raw.read_until_closed()
        assert 0.1 < time.monotonic() - started < 3


# Frames


def test_a_wrong_frame_end_is_a_frame_error(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send_bytes(struct.pack(">BHI", 1, 1, 4) + b"\0\x14\0\x0a" + b"\xcd")
        expect_close(raw, 501)


def test_a_frame_larger_than_agreed_is_a_frame_error(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open(frame_max=4096)
        raw.send_bytes(frame_of(3, 1, bytes(5000)))
        expect_close(raw, 501)


def test_a_payload_of_exactly_frame_max_is_taken(broker: Broker, client: Client) -> None:
    # Some clients (AMQPStorm, for one) do not count the eight bytes around it; RabbitMQ lets them.
    channel = client.channel()
    queue = temporary_queue(channel)
    with RawClient(broker) as raw:
        raw.open(frame_max=4096)
        raw.send(commands.Basic.Publish(routing_key=queue), 1)
        raw.send(header.ContentHeader(0, 5000, commands.Basic.Properties()), 1)
        raw.send(body.ContentBody(bytes(4096)), 1)
        raw.send(body.ContentBody(bytes(904)), 1)
        assert get(channel, queue).body == bytes(5000)


def test_an_unknown_frame_type_is_a_frame_error(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send_bytes(frame_of(77, 1, b"what"))
        expect_close(raw, 501)


def test_a_method_cut_short_is_a_syntax_error(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send_bytes(frame_of(1, 1, method_payload(50, 10) + b"\0\0\x50too short"))
        close = raw.expect(commands.Connection.Close)
        assert close.reply_code in (501, 502), close.reply_text


def test_a_method_the_broker_never_heard_of_is_refused(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send_bytes(frame_of(1, 1, method_payload(50, 999)))
        expect_refusal(raw, 503, 540)  # the specification can be read both ways


def test_a_body_without_a_method_is_an_unexpected_frame(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(body.ContentBody(b"stray"), 1)
        expect_close(raw, 505)


def test_a_method_between_publish_and_its_header_is_an_unexpected_frame(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Basic.Publish(routing_key="x"), 1)
        raw.send(commands.Queue.Declare(exclusive=True), 1)
        expect_close(raw, 505)


def test_a_header_of_another_class_is_an_unexpected_frame(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Basic.Publish(routing_key="x"), 1)
        raw.send_bytes(frame_of(2, 1, struct.pack(">HHQH", 90, 0, 0, 0)))
        expect_close(raw, 505)


def test_a_body_longer_than_announced_is_refused(broker: Broker, openclust_only: None) -> None:
    # RabbitMQ 3.10 waits for ever here.
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Basic.Publish(routing_key="x"), 1)
        raw.send(header.ContentHeader(0, 3, commands.Basic.Properties()), 1)
        raw.send(body.ContentBody(b"four"), 1)
        assert raw.expect(commands.Connection.Close).reply_code in (501, 502, 505)


def test_a_heartbeat_on_a_channel_is_refused(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send_bytes(frame_of(8, 1, b""))
        expect_close(raw, 505)


def test_a_heartbeat_with_something_in_it_is_a_frame_error(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send_bytes(frame_of(8, 0, b"x"))
        expect_close(raw, 501)


def test_a_connection_method_on_a_channel_is_command_invalid(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Connection.Close(200, "", 0, 0), 1)
        expect_close(raw, 503)


def test_a_channel_method_on_channel_zero_is_command_invalid(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Queue.Declare(exclusive=True), 0)
        assert raw.expect(commands.Connection.Close).reply_code in (503, 504)


# Arguments


@pytest.mark.parametrize("other", [10.0, True])
def test_a_number_of_another_kind_is_another_argument(broker: Broker, other: float | bool) -> None:
    with RawClient(broker) as raw:
        raw.open()
        queue = unique("kinds")
        raw.send(commands.Queue.Declare(queue=queue, exclusive=True, arguments={"x-message-ttl": int(other)}), 1)
        raw.expect(commands.Queue.DeclareOk)
        raw.send(commands.Queue.Declare(queue=queue, exclusive=True, arguments={"x-message-ttl": other}), 1)
        assert "x-message-ttl" in expect_channel_close(raw, 406).reply_text


# Channels


def test_a_method_on_a_channel_that_is_not_open_is_a_channel_error(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Queue.Declare(exclusive=True), 7)
        close = expect_close(raw, 504)
        assert (close.class_id, close.method_id) in ((50, 10), (0, 0))


def test_a_channel_opened_twice_is_a_channel_error(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Channel.Open(), 1)
        assert raw.expect(commands.Connection.Close).reply_code in (503, 504)


def test_so_many_channels_as_agreed_may_be_open_whatever_their_numbers(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open(channel_max=3)
        for number in (65535, 2):
            raw.send(commands.Channel.Open(), number)
            raw.expect(commands.Channel.OpenOk)
        raw.send(commands.Channel.Close(200, "", 0, 0), 2)
        raw.expect(commands.Channel.CloseOk)
        raw.send(commands.Channel.Open(), 4000)
        raw.expect(commands.Channel.OpenOk)
        raw.send(commands.Channel.Open(), 3)
        expect_close(raw, 530, "channel_max")


def test_what_comes_after_a_channel_error_is_ignored_until_the_close_is_answered(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Queue.Declare(queue="missing", passive=True), 1)
        for _ in range(3):
            raw.send(commands.Queue.Declare(exclusive=True), 1)
            raw.send(commands.Basic.Publish(routing_key="x"), 1)
            raw.send(header.ContentHeader(0, 1, commands.Basic.Properties()), 1)
            raw.send(body.ContentBody(b"1"), 1)
        close = expect_channel_close(raw, 404)
        assert (close.class_id, close.method_id) == (50, 10)
        raw.send(commands.Channel.Open(), 1)
        raw.expect(commands.Channel.OpenOk)


def test_a_close_from_both_sides_at_once_ends_well(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Queue.Declare(queue="missing", passive=True), 1)
        raw.send(commands.Channel.Close(200, "", 0, 0), 1)
        kinds = {type(raw.receive()[1]) for _ in range(2)}
        assert kinds == {commands.Channel.Close, commands.Channel.CloseOk}
        raw.send(commands.Channel.CloseOk(), 1)
        raw.send(commands.Channel.Open(), 1)
        raw.expect(commands.Channel.OpenOk)


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (commands.Basic.Publish(exchange="missing", routing_key="x"), 404),
        (commands.Basic.Get(queue="missing"), 404),
        (commands.Basic.Consume(queue="missing"), 404),
        (commands.Queue.Bind(queue="missing", exchange="amq.direct"), 404),
        (commands.Queue.Purge(queue="missing"), 404),
        (commands.Exchange.Declare(exchange="amq.new"), 403),
        (commands.Basic.Ack(delivery_tag=99), 406),
        (commands.Tx.Commit(), 406),
    ],
)
def test_the_close_names_the_method_that_was_wrong(broker: Broker, method: Any, code: int) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(method, 1)
        if isinstance(method, commands.Basic.Publish):
            raw.send(header.ContentHeader(0, 0, commands.Basic.Properties()), 1)
        close = expect_channel_close(raw, code)
        assert (close.class_id, close.method_id) == divmod(method.index, 65536)


def test_immediate_is_not_implemented(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Basic.Publish(routing_key="x", immediate=True), 1)
        raw.send(header.ContentHeader(0, 0, commands.Basic.Properties()), 1)
        expect_close(raw, 540, "immediate")


def test_nowait_methods_are_not_answered(broker: Broker) -> None:
    queue, exchange = unique("nowait"), unique("nowait")
    with RawClient(broker) as raw:
        raw.open()
        for method in (
            commands.Queue.Declare(queue=queue, exclusive=True, nowait=True),
            commands.Exchange.Declare(exchange=exchange, exchange_type="fanout", auto_delete=True, nowait=True),
            commands.Queue.Bind(queue=queue, exchange=exchange, nowait=True),
            commands.Exchange.Bind(destination=exchange, source=exchange, nowait=True),
            commands.Exchange.Unbind(destination=exchange, source=exchange, nowait=True),
            commands.Basic.Consume(queue=queue, consumer_tag="c", no_ack=True, nowait=True),
            commands.Basic.Cancel(consumer_tag="c", nowait=True),
            commands.Queue.Purge(queue=queue, nowait=True),
            commands.Confirm.Select(nowait=True),
            commands.Queue.Delete(queue=queue, nowait=True),
            commands.Exchange.Delete(exchange=exchange, nowait=True),
        ):
            raw.send(method, 1)
        raw.send(commands.Basic.Qos(0, 1, False), 1)
        raw.expect(commands.Basic.QosOk)


def test_a_publish_in_pieces_arrives_whole(broker: Broker, client: Client) -> None:
    channel = client.channel()
    queue = temporary_queue(channel)
    with RawClient(broker) as raw:
        raw.open()
        properties = commands.Basic.Properties(content_type="x/y")
        data = (
            raw.bytes_of(commands.Basic.Publish(routing_key=queue), 1)
            + raw.bytes_of(header.ContentHeader(0, 6, properties), 1)
            + raw.bytes_of(body.ContentBody(b"abc"), 1)
            + frame_of(8, 0, b"")
            + raw.bytes_of(body.ContentBody(b"def"), 1)
        )
        raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            raw.send_bytes(bytes([byte]))
        received = get(channel, queue)
    assert (received.body, received.properties.content_type) == (b"abcdef", "x/y")


def test_publishes_of_two_channels_may_interleave(broker: Broker, client: Client) -> None:
    channel = client.channel()
    queue = temporary_queue(channel)
    with RawClient(broker) as raw:
        raw.open()
        raw.send(commands.Channel.Open(), 2)
        raw.expect(commands.Channel.OpenOk)
        for number in (1, 2):
            raw.send(commands.Basic.Publish(routing_key=queue), number)
        for number in (2, 1):
            raw.send(header.ContentHeader(0, 2, commands.Basic.Properties()), number)
        for part in (b"a", b"b"):
            for number in (1, 2):
                raw.send(body.ContentBody(part), number)
        assert [get(channel, queue).body for _ in range(2)] == [b"ab", b"ab"]


# Heartbeats


def test_the_broker_beats_by_itself(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open(heartbeat_s=1)
        started, beats = time.monotonic(), 0
        while beats < 2:
            channel, value = raw.receive()
            assert (channel, type(value)) == (0, heartbeat.Heartbeat)
            beats += 1
            raw.send(heartbeat.Heartbeat())
        assert time.monotonic() - started < 3


def test_a_client_without_heartbeats_is_dropped_after_two_intervals(broker: Broker) -> None:
    with RawClient(broker, timeout_s=10) as raw:
        raw.open(heartbeat_s=1)
        started = time.monotonic()
        raw.read_until_closed()
        assert 1.5 < time.monotonic() - started < 5
        host, port = raw.socket.getsockname()
    with RawClient(broker) as another:
        another.open()  # by now it has logged all that it has to say of the first one
    if broker.is_openclust:
        (line,) = [each for each in broker.log_text().splitlines() if f"peer={host}:{port} " in each]
        assert "missed heartbeats from client, timeout: 1s" in line, "and nobody says that the client closed its socket"
        assert "user=guest vhost=/" in line


def test_any_traffic_counts_as_a_heartbeat(broker: Broker) -> None:
    with RawClient(broker) as raw:
        raw.open(heartbeat_s=1)
        end = time.monotonic() + 3.2
        while time.monotonic() < end:
            raw.send(commands.Basic.Qos(0, 1, False), 1)
            raw.expect(commands.Basic.QosOk)
            time.sleep(0.1)


def test_a_heartbeat_of_zero_means_none(broker: Broker) -> None:
    with RawClient(broker, timeout_s=2.5) as raw:
        raw.open(heartbeat_s=0)
        with pytest.raises(TimeoutError):
            raw.receive()


# Nobody else is hurt


@pytest.mark.parametrize("seed", range(6))
def test_rubbish_hurts_only_who_sends_it(broker: Broker, client: Client, seed: int) -> None:
    channel = client.channel()
    queue = temporary_queue(channel)
    rubbish = random.Random(seed).randbytes(20_000)
    with RawClient(broker) as raw:
        if seed % 2:
            raw.open()
        try:
            raw.send_bytes(rubbish)
            raw.socket.shutdown(socket.SHUT_WR)  # a frame that promises more than it brings ends here
            raw.read_until_closed()
        except (BrokenPipeError, ConnectionResetError):
            pass
    publish(channel, queue, b"still here")
    assert get(channel, queue).body == b"still here"
