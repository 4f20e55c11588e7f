"""The reader: the same frames however the bytes come, nothing lost or doubled, and no more kept than is agreed."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.wire.codec import encode_method, method_frame
from openclust.wire.errors import FRAME_ERROR, UNEXPECTED_FRAME, ChannelError, ConnectionError
from openclust.wire.frames import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_MIN,
    FRAME_OVERHEAD,
    HEARTBEAT,
    content_frames,
    frame,
)
from openclust.wire.methods import BasicAck, BasicPublish, QueueDeclare
from openclust.wire.properties import Properties, content_header, encode_header
from openclust.wire.reader import FrameReader
from tests.support.wire import PROPERTY_TEST, any_frame

Call: TypeAlias = tuple[object, ...]


class Recorder:
    """Notes what it is given; `refuse` says which calls it does not take, `fail` which it raises for."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.runs: list[int] = []
        self.refused: list[Call] = []
        self.refuse: Callable[[Call], bool] = lambda call: False
        self.fail: Callable[[Call], bool] = lambda call: False

    def _take(self, *call: object) -> bool:
        if self.refuse(call):
            self.refused.append(call)
            return False
        self.calls.append(call)
        if self.fail(call):
            raise ChannelError(404, "on purpose")
        return True

    def on_publish(self, channel: int, arguments: bytes, header: bytes, body: bytes) -> bool:
        return self._take("publish", channel, arguments, header, body)

    def on_run(self, channel: int, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        self.runs.append(len(bodies))
        for taken, body in enumerate(bodies):
            if not self.on_publish(channel, arguments, content_header(properties, len(body)), body):
                return taken
        return len(bodies)

    def on_ack(self, channel: int, delivery_tag: int, multiple: bool) -> bool:
        return self._take("ack", channel, delivery_tag, multiple)

    def on_method(self, channel: int, payload: bytes) -> bool:
        return self._take("method", channel, payload)

    def on_header(self, channel: int, payload: bytes) -> bool:
        return self._take("header", channel, payload)

    def on_body(self, channel: int, payload: bytes) -> bool:
        return self._take("body", channel, payload)

    def as_frames(self) -> list[Call]:
        """The calls as they would be if all went frame by frame."""
        return [each for call in self.calls for each in frames_of(call)]


def frames_of(call: Call) -> list[Call]:
    if call[0] == "ack":
        _, channel, tag, multiple = call
        return [("method", channel, struct.pack(">HHQB", 60, 80, tag, multiple))]
    if call[0] != "publish":
        return [call]
    _, channel, arguments, header, body = call
    assert isinstance(arguments, bytes)
    pieces: list[Call] = [("method", channel, b"\0\x3c\0\x28" + arguments), ("header", channel, header)]
    return [*pieces, ("body", channel, body)] if body else pieces


def read(data: bytes, *, frame_max: int = FRAME_MIN, chunk: int = 0) -> Recorder:
    recorder = Recorder()
    reader = FrameReader(recorder, frame_max)
    for at in range(0, len(data), chunk or len(data) or 1):
        reader.read(data[at : at + (chunk or len(data))])
    return recorder


def publish(body: bytes = b"body", *, channel: int = 1, key: str = "key", frame_max: int = FRAME_MIN) -> bytes:
    method = method_frame(channel, BasicPublish(exchange="", routing_key=key))
    return method + content_frames(channel, encode_header(Properties(), len(body)), body, frame_max)


streams = st.lists(
    st.one_of(
        # Bodies of one size, of a few, and what looks like frames.
        st.lists(st.sampled_from((b"a", b"b", b"\xce", b"cc", publish(b"x"))), min_size=2, max_size=5).map(
            lambda bodies: b"".join(publish(body) for body in bodies)
        ),
        st.builds(publish, st.binary(max_size=40), channel=st.integers(0, 3), frame_max=st.sampled_from((12, 4_096))),
        st.builds(
            lambda tag: method_frame(1, BasicAck(delivery_tag=tag, multiple=tag % 2 == 1)), st.integers(0, 2**64 - 1)
        ),
        st.just(method_frame(2, QueueDeclare(queue="q"))),
        any_frame,
    ),
    max_size=8,
).map(b"".join)


# -- splits


def test_a_whole_publish_is_one_call() -> None:
    arguments = encode_method(BasicPublish(routing_key="key"))[4:]
    assert read(publish(b"body")).calls == [("publish", 1, arguments, encode_header(Properties(), 4), b"body")]
    assert read(publish(b"")).calls == [("publish", 1, arguments, encode_header(Properties(), 0), b"")]


def test_an_ack_is_one_call_without_a_decode() -> None:
    data = method_frame(3, BasicAck(delivery_tag=2**64 - 1, multiple=True))
    assert read(data).calls == [("ack", 3, 2**64 - 1, True)]


@PROPERTY_TEST
@given(streams, st.lists(st.integers(0, 400), max_size=6))
def test_any_split_gives_the_frames_of_the_whole(data: bytes, cuts: list[int]) -> None:
    recorder = Recorder()
    reader = FrameReader(recorder, FRAME_MIN)
    at = 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        reader.read(data[at:cut])
        at = cut
    assert reader.rest == b""
    assert recorder.as_frames() == read(data).as_frames()


@PROPERTY_TEST
@given(streams)
def test_single_bytes_give_the_frames_of_the_whole(data: bytes) -> None:
    single = read(data, chunk=1)
    assert single.as_frames() == read(data).as_frames()
    assert not [call for call in single.calls if call[0] == "publish"], "bytes one by one are never a whole publish"


@PROPERTY_TEST
@given(streams)
def test_what_goes_at_once_and_what_goes_by_frames_is_the_same(data: bytes) -> None:
    by_frames: list[Call] = []
    at = 0
    while at < len(data):
        kind, channel, size = struct.unpack_from(">BHI", data, at)
        name = {FRAME_METHOD: "method", FRAME_HEADER: "header", FRAME_BODY: "body"}.get(kind)
        if name:
            by_frames.append((name, channel, data[at + 7 : at + 7 + size]))
        at += size + 8
    assert read(data).as_frames() == by_frames


# -- runs


def runs_of(*publishes: bytes, frame_max: int = FRAME_MIN) -> list[int]:
    recorder = read(b"".join(publishes), frame_max=frame_max)
    assert recorder.as_frames() == read(b"".join(publishes), frame_max=frame_max, chunk=1).as_frames()
    return recorder.runs


def test_publishes_that_differ_in_nothing_but_their_bodies_are_a_run() -> None:
    assert runs_of(*[publish(b"%03d" % number) for number in range(50)]) == [50]
    assert runs_of(*[publish(b"x" * (1 + number % 7)) for number in range(50)]) == [50]


def test_a_run_ends_where_anything_else_is_different() -> None:
    one, other = publish(b"one"), publish(b"two")
    assert runs_of(one, other, publish(b"x", channel=2), publish(b"y", channel=2)) == [2, 2]
    assert runs_of(one, other, publish(b"x", key="another"), one, other, other) == [2, 3]
    assert runs_of(one, other, publish(b""), one, other) == [2, 2], "a message without a body has no body frame"
    assert runs_of(one, other, HEARTBEAT, one) == [2]
    assert runs_of(one, other, method_frame(1, BasicAck(delivery_tag=1)), one) == [2]


def test_other_properties_end_a_run_though_they_are_as_long() -> None:
    def typed(kind: str) -> bytes:
        header = encode_header(Properties(content_type=kind), 1)
        return method_frame(1, BasicPublish()) + content_frames(1, header, b"x", FRAME_MIN)

    assert runs_of(typed("a"), typed("a"), typed("b"), typed("b"), typed("b")) == [2, 3]


def test_a_lone_publish_is_no_run() -> None:
    assert runs_of(publish(), publish(key="another"), publish()) == []
    assert runs_of(publish(b"one"), publish(b"two")[:-1]) == []


def test_a_body_in_two_frames_ends_a_run() -> None:
    assert runs_of(publish(b"a"), publish(b"b"), publish(b"cd", frame_max=9), publish(b"e")) == [2]


def test_a_message_that_is_larger_than_a_frame_ends_a_run() -> None:
    large = publish(b"x" * FRAME_MIN, frame_max=0)
    assert runs_of(publish(b"a"), publish(b"b"), large, publish(b"c")) == [2]


@pytest.mark.parametrize("last", [publish(b"c")[:-1] + b"\xcd", publish(b"ccc")[:-1] + b"\xcd"])
def test_a_frame_that_ends_wrong_in_a_run_is_refused_after_those_before_it(last: bytes) -> None:
    recorder = Recorder()
    with pytest.raises(ConnectionError, match="ends with octet 205"):
        FrameReader(recorder, FRAME_MIN).read(publish(b"a") + publish(b"b") + last)
    assert [call[-1] for call in recorder.calls if call[0] == "publish"] == [b"a", b"b"]


@pytest.mark.parametrize("body", [b"bb", b"b" * 9])
def test_sizes_that_contradict_each_other_end_a_run(body: bytes) -> None:
    method, header = method_frame(1, BasicPublish(routing_key="key")), encode_header(Properties(), 3)
    odd = method + frame(FRAME_HEADER, 1, header) + frame(FRAME_BODY, 1, body)
    recorder = read(publish(b"a") + publish(b"c") + odd)
    assert recorder.runs == [2]
    assert recorder.calls[-1] == ("body", 1, body), "frame by frame, to whoever refuses it"


def test_what_is_not_taken_of_a_run_comes_again() -> None:
    recorder = Recorder()
    recorder.refuse = lambda call: call[-1] in (b"3", b"long")
    reader = FrameReader(recorder, FRAME_MIN)
    sent = [b"1", b"22", b"3", b"4", b"long", b"5"]
    reader.read(b"".join(publish(body) for body in sent))
    assert [call[-1] for call in recorder.calls] == sent[:2]
    recorder.refuse = lambda call: call[-1] == b"long"
    reader.read(b"")
    assert [call[-1] for call in recorder.calls] == sent[:4]
    recorder.refuse = lambda call: False
    reader.read(b"")
    assert [call[-1] for call in recorder.calls] == sent and reader.rest == b""


# -- what is not one whole publish, though it looks like one


def header_of(size: int, *, class_id: int = 60, weight: int = 0) -> bytes:
    return struct.pack(">HHQH", class_id, weight, size, 0)


@pytest.mark.parametrize(
    "content",
    [
        frame(FRAME_HEADER, 2, header_of(4)) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_HEADER, 1, header_of(4)) + frame(FRAME_BODY, 2, b"body"),
        frame(FRAME_HEADER, 1, header_of(4, class_id=10)) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_HEADER, 1, header_of(4, weight=1)) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_HEADER, 1, header_of(0, weight=1)),
        frame(FRAME_HEADER, 1, header_of(4)[:13]) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_HEADER, 1, header_of(3)) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_HEADER, 1, header_of(5)) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_HEADER, 1, header_of(2**64 - 1)) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_HEADER, 1, header_of(4)) + frame(FRAME_BODY, 1, b"bo") + frame(FRAME_BODY, 1, b"dy"),
        # As long, end octet included, as the header says; but these are two frames.
        frame(FRAME_HEADER, 1, header_of(12)) + frame(FRAME_BODY, 1, b"bo") + frame(FRAME_BODY, 1, b"dy"),
        frame(FRAME_HEADER, 1, header_of(4)) + HEARTBEAT + frame(FRAME_BODY, 1, b"body"),
        HEARTBEAT + frame(FRAME_HEADER, 1, header_of(4)) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_METHOD, 1, header_of(4)) + frame(FRAME_BODY, 1, b"body"),
        frame(FRAME_HEADER, 1, header_of(4)) + frame(FRAME_METHOD, 1, b"body"),
    ],
)
def test_content_with_anything_odd_goes_frame_by_frame(content: bytes) -> None:
    recorder = read(method_frame(1, BasicPublish()) + content)
    assert [call[0] for call in recorder.calls][:1] == ["method"]
    assert "publish" not in [call[0] for call in recorder.calls]


def test_an_ack_of_another_size_goes_by_frames_to_whoever_refuses_it() -> None:
    payload = encode_method(BasicAck(delivery_tag=1))
    assert read(frame(FRAME_METHOD, 1, payload + b"\0")).calls == [("method", 1, payload + b"\0")]
    # Where the end octet of an ack would be, this one has it too.
    assert read(frame(FRAME_METHOD, 1, payload + b"\xce\0")).calls == [("method", 1, payload + b"\xce\0")]
    assert read(frame(FRAME_METHOD, 1, payload[:-1]) + HEARTBEAT * 2).calls == [("method", 1, payload[:-1])]


# -- a sink that refuses


@PROPERTY_TEST
@given(streams, st.data())
def test_what_is_refused_comes_again_and_nothing_is_lost_or_doubled(data: bytes, draws: st.DataObject) -> None:
    recorder = Recorder()
    recorder.refuse = lambda call: draws.draw(st.integers(0, 2)) == 0
    reader = FrameReader(recorder, FRAME_MIN)
    reader.read(data)
    for _ in range(200):
        if not reader.rest:
            break
        before = recorder.refused[-1]
        recorder.refuse = lambda call, again=before: call != again and draws.draw(st.integers(0, 2)) == 0  # type: ignore[misc]
        reader.read(b"")
    assert reader.rest == b""
    assert recorder.as_frames() == read(data).as_frames()


def test_a_refusal_ends_the_read() -> None:
    recorder = Recorder()
    recorder.refuse = lambda call: call[0] == "publish"
    reader = FrameReader(recorder, FRAME_MIN)
    reader.read(publish() + method_frame(1, QueueDeclare()))
    assert recorder.calls == [] and len(recorder.refused) == 1
    reader.read(b"")
    assert recorder.refused == [recorder.refused[0]] * 2, "the same again"


@pytest.mark.parametrize(
    "data",
    [
        publish(),
        method_frame(1, BasicAck(delivery_tag=1)),
        method_frame(1, QueueDeclare()),
        frame(FRAME_HEADER, 1, header_of(0)),
        frame(FRAME_BODY, 1, b"body"),
    ],
)
def test_every_kind_of_call_can_be_refused(data: bytes) -> None:
    recorder = Recorder()
    recorder.refuse = lambda call: True
    reader = FrameReader(recorder, FRAME_MIN)
    reader.read(data)
    assert reader.rest == data
    recorder.refuse = lambda call: False
    reader.read(b"")
    assert reader.rest == b"" and len(recorder.calls) == 1


def test_what_raised_is_not_offered_again() -> None:
    recorder = Recorder()
    recorder.fail = lambda call: call[0] == "body"
    reader = FrameReader(recorder, FRAME_MIN)
    with pytest.raises(ChannelError):
        reader.read(frame(FRAME_BODY, 1, b"body") + method_frame(1, QueueDeclare()))
    reader.read(b"")
    assert [call[0] for call in recorder.calls] == ["body", "method"]


# -- bounds


def refusal(data: bytes, *, frame_max: int = FRAME_MIN, chunk: int = 0) -> ConnectionError:
    with pytest.raises(ConnectionError) as caught:
        read(data, frame_max=frame_max, chunk=chunk)
    return caught.value


@pytest.mark.parametrize("kind", [FRAME_METHOD, FRAME_HEADER, FRAME_BODY])
@pytest.mark.parametrize("chunk", [0, 1, 1_000])
def test_frame_max_counts_a_frames_payload(kind: int, chunk: int) -> None:
    # By the specification envelope and end count too; some clients leave them out.
    fits = frame(kind, 1, b"x" * FRAME_MIN)
    assert len(read(fits, chunk=chunk).calls) == 1
    error = refusal(frame(kind, 1, b"x" * (FRAME_MIN + 1)), chunk=chunk)
    assert error.code == FRAME_ERROR
    assert "4097 bytes where at most 4096" in error.text


@pytest.mark.parametrize("chunk", [0, 7, 1_000])
def test_frame_max_holds_for_each_frame_of_a_publish(chunk: int) -> None:
    body = FRAME_MIN
    # A message may be larger than a frame, though none of its frames is.
    assert read(publish(b"x" * body, frame_max=0), chunk=chunk).as_frames()[-1] == ("body", 1, b"x" * body)
    assert refusal(publish(b"x" * (body + 1), frame_max=0), chunk=chunk).code == FRAME_ERROR
    large = struct.pack(">HHQH", 60, 0, 4, 0x2000) + b"\0" * FRAME_MIN
    method = method_frame(1, BasicPublish())
    assert (
        refusal(method + frame(FRAME_HEADER, 1, large) + frame(FRAME_BODY, 1, b"body"), chunk=chunk).code == FRAME_ERROR
    )
    assert refusal(method + frame(FRAME_HEADER, 1, large[:4] + b"\0" * 8 + large[12:]), chunk=chunk).code == FRAME_ERROR


def test_a_frame_too_large_is_refused_by_its_envelope_alone() -> None:
    assert refusal(struct.pack(">BHI", FRAME_BODY, 1, 2**32 - 1) + b"x").code == FRAME_ERROR


@PROPERTY_TEST
@given(st.binary(max_size=300), st.integers(1, 50))
def test_no_more_is_kept_than_a_frame_and_a_read(data: bytes, chunk: int) -> None:
    reader = FrameReader(Recorder(), 64)
    for at in range(0, len(data), chunk):
        with contextlib.suppress(ConnectionError):
            reader.read(data[at : at + chunk])
        assert len(reader.rest) < max(64, FRAME_OVERHEAD) + chunk


def test_what_is_kept_is_not_the_buffer_it_came_in() -> None:
    reader = FrameReader(Recorder(), FRAME_MIN)
    reader.read(publish(b"x" * 4_000) * 20 + b"\x01\0")
    assert reader.rest == b"\x01\0"


def test_an_empty_read_does_nothing() -> None:
    assert read(b"").calls == []


# -- what is no frame


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (frame(FRAME_METHOD, 1, b"abcd")[:-1] + b"\0", FRAME_ERROR, "ends with octet 0, not 206"),
        (publish()[:-1] + b"\xcd", FRAME_ERROR, "ends with octet 205"),
        (frame(0, 1, b""), FRAME_ERROR, "unknown frame type 0"),
        (frame(4, 1, b"x"), FRAME_ERROR, "unknown frame type 4"),
        (frame(255, 1, b""), FRAME_ERROR, "unknown frame type 255"),
        (frame(8, 1, b""), UNEXPECTED_FRAME, "a heartbeat on channel 1"),
        (frame(8, 0, b"x"), FRAME_ERROR, "a heartbeat with 1 bytes in it"),
        (frame(8, 1, b"x"), FRAME_ERROR, "a heartbeat with 1 bytes in it"),
    ],
)
def test_what_is_no_frame_is_an_error_of_the_connection(data: bytes, code: int, words: str) -> None:
    for chunk in (0, 1):
        error = refusal(data, chunk=chunk)
        assert error.code == code
        assert words in error.text


def test_heartbeats_are_swallowed_wherever_they_stand() -> None:
    recorder = read(HEARTBEAT + publish() + HEARTBEAT + publish() + HEARTBEAT)
    assert [call[0] for call in recorder.calls] == ["publish", "publish"]


def test_after_a_refused_frame_the_next_is_read() -> None:
    # So that the peer's close-ok is understood after our close.
    recorder = Recorder()
    reader = FrameReader(recorder, FRAME_MIN)
    with pytest.raises(ConnectionError):
        reader.read(frame(FRAME_BODY, 1, b"x" * 5_000) + method_frame(0, QueueDeclare()))
    reader.read(b"")
    assert [call[0] for call in recorder.calls] == ["method"]


def test_after_bytes_that_are_no_frame_a_new_read_starts_afresh() -> None:
    recorder = Recorder()
    reader = FrameReader(recorder, FRAME_MIN)
    with pytest.raises(ConnectionError):
        reader.read(b"no frame at all, by any measure")
    reader.read(method_frame(0, QueueDeclare()))
    assert [call[0] for call in recorder.calls] == ["method"]


@PROPERTY_TEST
@given(st.binary(max_size=120), st.integers(1, 40))
def test_any_bytes_raise_nothing_but_a_connection_error(data: bytes, chunk: int) -> None:
    reader = FrameReader(Recorder(), FRAME_MIN)
    for at in range(0, len(data), chunk):
        try:
            reader.read(data[at : at + chunk])
        except ConnectionError as error:
            assert error.code in (FRAME_ERROR, UNEXPECTED_FRAME)


@PROPERTY_TEST
@given(streams.filter(bool), st.data())
def test_a_damaged_stream_raises_nothing_but_a_connection_error(stream: bytes, draws: st.DataObject) -> None:
    data = bytearray(stream)
    data[draws.draw(st.integers(0, len(data) - 1))] = draws.draw(st.integers(0, 255))
    reader = FrameReader(Recorder(), FRAME_MIN)
    for piece in (bytes(data), b"", b""):
        try:
            reader.read(piece)
        except ConnectionError as error:
            assert error.code in (FRAME_ERROR, UNEXPECTED_FRAME)
