"""What is to be sent to one peer: control and shared messages always, transient ones while there is room."""

from __future__ import annotations

from openclust.cluster.protocol.messages import Lane, Pressure, decode
from openclust.cluster.protocol.outbox import CONTROL_CHANNEL, Outbox
from openclust.wire.codec import decode_method
from openclust.wire.frames import ENVELOPE, FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from openclust.wire.methods import BasicPublish
from openclust.wire.properties import decode_properties


def up(bytes_max: int = 1_000, frame_max: int = 4_096) -> Outbox:
    outbox = Outbox("p2", [], bytes_max)
    outbox.open(frame_max)
    return outbox


def frames(data: bytes) -> list[tuple[int, int, bytes]]:
    found, at = [], 0
    while at < len(data):
        kind, channel, size = ENVELOPE.unpack_from(data, at)
        found.append((kind, channel, data[at + 7 : at + 7 + size]))
        at += size + 8
    return found


def test_a_control_message_is_a_publish_to_amq_cluster_with_its_kind_as_type() -> None:
    outbox = up()
    assert outbox.control(Pressure(True))
    (method, header, body) = frames(outbox.take())
    assert [method[:2], header[:2], body[:2]] == [
        (FRAME_METHOD, CONTROL_CHANNEL),
        (FRAME_HEADER, CONTROL_CHANNEL),
        (FRAME_BODY, CONTROL_CHANNEL),
    ]
    assert decode_method(method[2]) == BasicPublish(exchange="amq.cluster")
    assert decode_properties(header[2]).type == "Pressure"
    assert decode(body[2]) == Pressure(True)
    assert outbox.sent == 1


def test_a_large_control_message_is_split_as_the_peer_wants_it() -> None:
    outbox = up(frame_max=4_096)
    outbox.control(Lane(number=2, vhost=b"v" * 10_000))
    sizes = [len(payload) + 8 for _, _, payload in frames(outbox.take())]
    assert max(sizes) <= 4_096 and len(sizes) == 5


def test_nothing_is_said_on_a_link_that_is_down() -> None:
    outbox = Outbox("p2", [], 1_000)
    assert not outbox.control(Pressure(True))
    assert not outbox.frames and outbox.sent == 0


def test_a_transient_message_is_dropped_and_counted_where_the_link_is_down() -> None:
    outbox = Outbox("p2", [], 1_000)
    outbox.relay_transient(b"x")
    assert (outbox.relayed, outbox.dropped, outbox.frames) == (0, 1, [])


def test_past_its_bound_transient_messages_are_dropped_and_nothing_else_is() -> None:
    outbox = up(bytes_max=100)
    outbox.relay_transient(b"x" * 101)
    assert outbox.is_full
    outbox.relay_transient(b"y")
    outbox.relay(b"shared")
    assert outbox.control(Pressure(False))
    data = outbox.take()
    assert b"shared" in data and b"Pressure" in data and not data.startswith(b"y")
    assert (outbox.relayed, outbox.dropped, outbox.sent) == (2, 1, 1)


def test_what_the_socket_has_not_taken_counts_too() -> None:
    outbox = up(bytes_max=100)
    outbox.relay_transient(b"x" * 101)
    outbox.take()
    assert outbox.is_full and outbox.waiting_bytes == 101
    outbox.relay_transient(b"y")
    assert outbox.dropped == 1
    outbox.waiting_bytes -= 101
    outbox.relay_transient(b"z")
    assert outbox.take() == b"z"


def test_exactly_its_bound_is_not_past_it() -> None:
    outbox = up(bytes_max=100)
    outbox.relay_transient(b"x" * 100)
    assert not outbox.is_full


def test_a_message_that_the_peer_does_not_get_counts_with_its_bytes() -> None:
    outbox = up()
    outbox.close()
    outbox.relay_transient(b"abc")
    assert (outbox.dropped, outbox.dropped_bytes) == (1, 3)


def test_it_is_dirty_once_until_it_is_taken() -> None:
    outbox = up()
    for _ in range(3):
        outbox.relay(b"abc")
    assert outbox.dirty == [outbox]
    assert outbox.take() == b"abcabcabc"
    outbox.relay(b"d")
    assert outbox.dirty == [outbox, outbox]


def test_a_link_that_goes_down_takes_what_was_not_sent_with_it() -> None:
    outbox = up()
    outbox.relay(b"abc")
    outbox.take()
    outbox.relay(b"def")
    outbox.close()
    assert (outbox.frames, outbox.size, outbox.waiting_bytes) == ([], 0, 0)


def test_lanes_are_told_anew_on_a_new_link() -> None:
    outbox = up()
    outbox.open_lane(Lane(number=2, vhost=b"/"))
    assert outbox.opened == {2}
    outbox.close()
    outbox.open_lane(Lane(number=2, vhost=b"/"))
    assert not outbox.opened, "nobody was told"
    outbox.open(4_096)
    assert not outbox.opened
