"""The bench's own frames, held against pamqp, which is neither ours nor the broker's."""

from __future__ import annotations

from typing import Any

import pamqp.commands
import pamqp.frame
import pytest

from openclust.bench.client import frames
from openclust.bench.client.frames import FrameCutter


def decoded(data: bytes) -> list[Any]:
    found = []
    while data:
        consumed, _, value = pamqp.frame.unmarshal(data)
        found.append(value)
        data = data[consumed:]
    return found


def test_login_says_who_and_asks_for_reasons() -> None:
    (start_ok,) = decoded(frames.start_ok("anna", "secret"))
    assert start_ok.response == "\0anna\0secret"
    assert start_ok.client_properties["capabilities"]["authentication_failure_close"] is True


def test_tune_ok_turns_heartbeats_off() -> None:
    (tune_ok,) = decoded(frames.tune_ok(8, 4096))
    assert (tune_ok.channel_max, tune_ok.frame_max, tune_ok.heartbeat) == (8, 4096, 0)


def test_a_private_queue_is_exclusive_and_a_durable_one_is_not() -> None:
    private, durable = decoded(
        frames.queue_declare(1, "a", exclusive=True)
        + frames.queue_declare(1, "b", durable=True, arguments={"x-expires": 600_000})
    )
    assert (private.queue, private.exclusive, private.durable, private.passive) == ("a", True, False, False)
    assert (durable.exclusive, durable.durable, durable.arguments) == (False, True, {"x-expires": 600_000})


def test_the_exchange_goes_with_its_last_binding() -> None:
    (declare,) = decoded(frames.exchange_declare(1, "bench.x", "fanout"))
    assert (declare.exchange, declare.exchange_type, declare.auto_delete, declare.durable) == (
        "bench.x",
        "fanout",
        True,
        False,
    )


def test_bind_and_consume() -> None:
    bind, consume = decoded(frames.queue_bind(1, "q", "x", "k.#") + frames.basic_consume(1, "q", "tag", no_ack=True))
    assert (bind.queue, bind.exchange, bind.routing_key) == ("q", "x", "k.#")
    assert (consume.queue, consume.consumer_tag, consume.no_ack, consume.exclusive) == ("q", "tag", True, False)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_published_message_is_method_header_and_body(persistent: bool) -> None:
    method, header, body = decoded(frames.publish(1, "x", "k", b"hello", frame_max=4096, persistent=persistent))
    assert (method.exchange, method.routing_key) == ("x", "k")
    assert (header.body_size, header.properties.delivery_mode) == (5, 2 if persistent else None)
    assert body.value == b"hello"


def test_a_body_is_cut_to_the_frame_size() -> None:
    _, _, *bodies = decoded(frames.publish(1, "", "q", bytes(10_000), frame_max=4096, persistent=False))
    assert [len(body.value) for body in bodies] == [4088, 4088, 1824]


def test_an_empty_body_has_no_body_frame() -> None:
    assert len(decoded(frames.publish(1, "", "q", b"", frame_max=4096, persistent=False))) == 2


def test_the_reader_gives_whole_frames_however_they_are_cut() -> None:
    stream = frames.channel_open(1) + frames.connection_close() + frames.frame(frames.BODY, 1, b"abc")
    reader = FrameCutter()
    found = [frame for at in range(len(stream)) for frame in reader.feed(stream[at : at + 1])]
    assert [(frame.type, frame.channel, frame.ids) for frame in found] == [
        (frames.METHOD, 1, (20, 10)),
        (frames.METHOD, 0, (10, 50)),
        (frames.BODY, 1, (0, 0)),
    ]


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad", frames.channel_open(1)[:-1] + b"\0"])
def test_the_reader_refuses_what_is_no_frame(data: bytes) -> None:
    with pytest.raises(ValueError, match="frame"):
        list(FrameCutter().feed(data))


def test_a_close_shows_its_code_and_text() -> None:
    closing = pamqp.frame.marshal(pamqp.commands.Channel.Close(404, "NOT_FOUND - no queue 'q'", 60, 20), 1)
    (frame,) = FrameCutter().feed(closing)
    assert frames.close_reason(frame) == "404 NOT_FOUND - no queue 'q'"


def test_what_is_no_close_has_no_reason() -> None:
    (frame,) = FrameCutter().feed(frames.channel_open(1))
    assert frames.close_reason(frame) is None


def test_the_product_is_read_out_of_start() -> None:
    start = pamqp.commands.Connection.Start(0, 9, {"product": "Broker", "version": "1.2", "capabilities": {"x": True}})
    (frame,) = FrameCutter().feed(pamqp.frame.marshal(start, 0))
    assert frames.server_product(frame) == ("Broker", "1.2")


def test_a_broker_may_keep_its_name_to_itself() -> None:
    (frame,) = FrameCutter().feed(pamqp.frame.marshal(pamqp.commands.Connection.Start(0, 9, {}), 0))
    assert frames.server_product(frame) == ("", "")
