"""How connections begin: protocol header, login, tuning, opening."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openclust.broker.model.access import User
from openclust.broker.model.effects import StartHeartbeats
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.broker.server.standalone import Standalone
from openclust.wire.codec import method_frame
from openclust.wire.frames import EARLIER_HEADERS, FRAME_METHOD, HEARTBEAT, PROTOCOL_HEADER, frame
from openclust.wire.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
)
from openclust.wire.sasl import PEER
from openclust.wire.table import encode_table
from tests.support.client import EVERYTHING, PASSWORD, Client

NewBroker = Callable[..., Broker]


@pytest.fixture
def stranger(broker: Broker) -> Client:
    return Client(broker, log_in=False)


def _tune(client: Client, **answer: int) -> ConnectionTune:
    tune = client.start()
    assert isinstance(tune, ConnectionTune)
    client.send(ConnectionTuneOk(**answer), channel=0)
    return tune


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\0\0\x09\0",
        b"AMQP\x01\x01\0\x0a",
        b"AMQP\0\x01\0\0",
        b"AMQP\x02",
        b"HTTP/1.1",
        b"GET / HTTP/1.1\r\n",
        b"\0",
    ],
)
def test_any_other_protocol_is_answered_with_ours(stranger: Client, header: bytes) -> None:
    stranger.feed(header)
    assert stranger.raw == b"AMQP\0\0\x09\x01"
    assert stranger.is_finished
    stranger.feed(b"more")
    assert stranger.raw == b"AMQP\0\0\x09\x01"


def test_tls_on_a_port_without_it_is_said_to_be_that(stranger: Client) -> None:
    stranger.feed(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert stranger.raw == b"AMQP\0\0\x09\x01" and stranger.is_finished
    (note,) = stranger.notes
    assert note.text == "not AMQP 0-9-1: it speaks TLS, and this port has none"


def test_the_protocol_header_may_come_in_pieces(stranger: Client) -> None:
    for byte in PROTOCOL_HEADER[:-1]:
        stranger.feed(bytes((byte,)))
    assert not stranger.replies
    stranger.feed(PROTOCOL_HEADER[-1:])
    stranger.reply(0, ConnectionStart)


@pytest.mark.parametrize("header", [b"AMQP\x01\x01\0\x09", b"AMQP\x01\x01\x08\0", b"AMQP\x01\x01\x09\x01"])
def test_clients_that_ask_for_an_earlier_version_are_offered_0_9_1(stranger: Client, header: bytes) -> None:
    for byte in header:
        stranger.feed(bytes((byte,)))
    start: ConnectionStart = stranger.reply(0, ConnectionStart)
    assert (start.version_major, start.version_minor) == (0, 9)


def test_brokers_greet_each_other_with_one_version(stranger: Client) -> None:
    stranger.connection.peer = Peer("127.0.0.1", 1, True, is_peer=True)
    stranger.feed(EARLIER_HEADERS[0])
    assert stranger.raw == PROTOCOL_HEADER and stranger.is_finished


def test_the_server_says_what_it_can(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    start: ConnectionStart = stranger.reply(0, ConnectionStart)
    assert (start.version_major, start.version_minor, start.locales) == (0, 9, b"en_US")
    assert start.mechanisms.split() == [b"PLAIN", b"AMQPLAIN"]
    assert start.server_properties["capabilities"] == dict.fromkeys(
        (
            "publisher_confirms",
            "exchange_exchange_bindings",
            "basic.nack",
            "consumer_cancel_notify",
            "connection.blocked",
            "consumer_priorities",
            "authentication_failure_close",
            "per_consumer_qos",
            "direct_reply_to",
        ),
        True,
    )
    for name in ("product", "version", "platform", "cluster_name"):
        assert isinstance(start.server_properties[name], str)


def test_a_wrong_password_is_refused_with_the_reason(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.replies.clear()
    stranger.send(_start_ok(b"\0guest\0wrong", can=("authentication_failure_close",)), channel=0)
    assert stranger.closed is not None
    assert stranger.closed.code == 403
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in stranger.closed.text
    stranger.send(ConnectionCloseOk(), channel=0)
    assert stranger.is_finished


def test_who_cannot_be_told_is_cut_off(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.send(_start_ok(b"\0guest\0wrong"), channel=0)
    assert stranger.closed is None and stranger.is_finished


def _start_ok(response: bytes, mechanism: str = "PLAIN", can: tuple[str, ...] = ()) -> ConnectionStartOk:
    properties: Any = {"capabilities": dict.fromkeys(can, True)}
    return ConnectionStartOk(client_properties=properties, mechanism=mechanism, response=response, locale="en_US")


@pytest.mark.parametrize("response", [b"guest", b"\0guest", b"a\0b\0c\0d", b"\0\0", b"\0nobody\0right"])
def test_a_malformed_or_unknown_login_is_refused(stranger: Client, response: bytes) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.send(_start_ok(response), channel=0)
    assert stranger.is_finished


def test_an_unknown_mechanism_is_refused(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.send(_start_ok(b"x", "CRAM-MD5"), channel=0)
    assert stranger.closed is not None and stranger.closed.code == 403


def broker_that_dials(broker: Broker, *, to_peers: bool, mechanism: str = PEER) -> Client:
    """Another broker, or who takes itself for one, at the port for clients or at the one for peers."""
    stranger = Client(broker, log_in=False)
    stranger.connection.peer = Peer("10.0.0.9", 4_000, False, is_peer=to_peers)
    stranger.feed(PROTOCOL_HEADER)
    stranger.replies.clear()
    stranger.send(_start_ok(b"x", mechanism), channel=0)
    return stranger


def noted(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the broker logs from now on."""
    lines: list[str] = []
    monkeypatch.setattr(broker, "note", lambda level, event, *_, **__: lines.append(event))
    return lines


class InCluster(Standalone):
    peer_address = "10.0.0.1:5682"
    client_address = "10.0.0.1:5672"


def test_a_broker_that_dials_the_port_for_clients_is_told_the_one_for_peers(broker: Broker) -> None:
    broker.cluster = InCluster(broker)
    closed = broker_that_dials(broker, to_peers=False).closed
    assert closed is not None and closed.code == 530
    assert closed.text == "NOT_ALLOWED - wrong port: this one is for clients; peers are at 10.0.0.1:5682"


def test_a_broker_that_dials_one_without_a_cluster_is_told_so(broker: Broker) -> None:
    closed = broker_that_dials(broker, to_peers=False).closed
    assert closed is not None and "it is a cluster of one" in closed.text


def test_a_client_at_the_port_for_peers_is_told_the_one_for_clients(broker: Broker) -> None:
    broker.cluster = InCluster(broker)
    closed = broker_that_dials(broker, to_peers=True, mechanism="PLAIN").closed
    assert closed is not None
    assert closed.text == "NOT_ALLOWED - wrong port: this one is for brokers; clients are at 10.0.0.1:5672"


@pytest.mark.parametrize("to_peers", [True, False])
def test_a_broker_that_is_refused_for_ever_is_logged_once_and_then_counted(
    broker: Broker, to_peers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = noted(broker, monkeypatch)
    for _ in range(21):
        broker_that_dials(broker, to_peers=to_peers)
        broker.now_ms += 1_000
    assert len(lines) == 2 and all(line.startswith("a broker was refused: ") for line in lines)
    assert lines[1].endswith(" (10 more since the last line; for 10 s by now)")


def test_who_speaks_another_protocol_to_the_port_for_peers_for_ever_is_logged_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = noted(broker, monkeypatch)
    for _ in range(5):
        stranger = Client(broker, log_in=False)
        stranger.connection.peer = Peer("10.0.0.9", 4_000, False, is_peer=True)
        stranger.feed(b"GET / HTTP/1.1\r\n")
    assert lines == ["not a broker's link: header b'GET / HT'"]


def test_external_is_not_for_who_has_no_certificate(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.send(_start_ok(b"guest", "EXTERNAL"), channel=0)
    assert stranger.closed is not None and stranger.closed.code == 403
    assert "EXTERNAL needs a client certificate that the broker has verified" in stranger.closed.text


def test_a_refused_certificate_is_not_said_to_be_a_wrong_password(stranger: Client) -> None:
    stranger.connection.peer = Peer("127.0.0.1", 1, True, certificate_name="mallory", is_tls=True)
    stranger.feed(PROTOCOL_HEADER)
    stranger.send(_start_ok(b"", "EXTERNAL"), channel=0)
    (note,) = stranger.notes
    assert "certificate names nobody who is a user here" in note.text
    assert "password" not in note.text
    assert note.fields["user"] == "mallory"


def test_a_malformed_response_is_said_to_be_one(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.send(_start_ok(b"guest"), channel=0)
    (note,) = stranger.notes
    assert note.text == "login refused: what the client answered is no PLAIN response"


def test_amqplain_logs_in(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.replies.clear()
    response = encode_table({"LOGIN": "guest", "PASSWORD": PASSWORD.decode()})[4:]
    stranger.call(_start_ok(response, "AMQPLAIN"), ConnectionTune, channel=0)


def test_an_empty_response_is_asked_for(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.replies.clear()
    stranger.call(_start_ok(b""), ConnectionSecure, channel=0)
    stranger.call(ConnectionSecureOk(response=b"\0guest\0" + PASSWORD), ConnectionTune, channel=0)


def test_guest_comes_from_the_loopback_only(broker: Broker) -> None:
    far = Client(broker, is_loopback=False, log_in=False)
    assert far.start is not None
    far.feed(PROTOCOL_HEADER)
    far.send(_start_ok(b"\0guest\0" + PASSWORD), channel=0)
    assert far.is_finished
    Client(broker, "other", is_loopback=False)


def test_all_that_a_client_says_at_once_is_heard_in_its_order(stranger: Client) -> None:
    """The login is checked outside; what came behind it waits."""
    methods = [
        _start_ok(b"\0guest\0" + PASSWORD),
        ConnectionTuneOk(channel_max=10, frame_max=8_192),
        ConnectionOpen(virtual_host="/"),
    ]
    data = b"".join(method_frame(0, method) for method in methods)
    stranger.feed(PROTOCOL_HEADER + data + method_frame(1, ChannelOpen()))
    assert [type(each) for each in stranger.replies[0]] == [ConnectionStart, ConnectionTune, ConnectionOpenOk]
    stranger.reply(1, ChannelOpenOk)


# -- tuning


def test_the_smaller_maximum_counts(new_broker: NewBroker) -> None:
    broker = new_broker(frame_max=100_000, channel_max=100)
    client = Client(broker, frame_max=8_192, channel_max=7)
    assert (client.connection.frame_max, client.connection.channel_max) == (8_192, 7)


def test_channels_may_have_any_numbers_and_are_bounded_in_how_many_they_are(broker: Broker) -> None:
    client = Client(broker, channel_max=3)
    client.open_channel(65_535)
    client.open_channel(2)
    client.call(ChannelClose(), ChannelCloseOk, channel=2)
    client.open_channel(40_000)
    closed = client.hard_error(ChannelOpen(), channel=3)
    assert (closed.code, closed.by) == (530, (20, 10))
    assert "channel_max" in closed.text


def test_zero_is_no_wish_of_ones_own(new_broker: NewBroker) -> None:
    client = Client(new_broker(frame_max=100_000, channel_max=100), log_in=False)
    tune = _tune(client)
    assert (tune.frame_max, tune.channel_max, tune.heartbeat) == (100_000, 100, 60)
    client.call(ConnectionOpen(), ConnectionOpenOk, channel=0)
    assert (client.connection.frame_max, client.connection.channel_max) == (100_000, 100)


@pytest.mark.parametrize("wish", [{"frame_max": 4_095}, {"frame_max": 2**20}, {"channel_max": 65_535}])
def test_wishes_out_of_bounds_are_refused(stranger: Client, wish: dict[str, int]) -> None:
    _tune(stranger, **wish)
    assert stranger.closed is not None
    assert (stranger.closed.code, stranger.closed.by) == (530, (10, 31))


@pytest.mark.parametrize("heartbeat_s", [0, 5, 600])
def test_heartbeats_are_as_the_client_wants_them_once_it_is_in(stranger: Client, heartbeat_s: int) -> None:
    stranger.start()
    stranger.connection.receive(method_frame(0, ConnectionTuneOk(heartbeat=heartbeat_s)))
    assert not stranger.broker.effects
    stranger.connection.receive(method_frame(0, ConnectionOpen()))
    started = [each for each in stranger.broker.effects if isinstance(each, StartHeartbeats)]
    assert [each.interval_s for each in started] == ([heartbeat_s] if heartbeat_s else [])


def test_frames_are_small_until_the_connection_is_open(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.feed(frame(FRAME_METHOD, 0, bytes(4_097)))
    assert stranger.closed is not None and stranger.closed.code == 501


def test_a_frame_past_the_agreed_size_closes_the_connection(broker: Broker) -> None:
    client = Client(broker, frame_max=4_096)
    client.feed(frame(FRAME_METHOD, 1, bytes(4_097)))
    assert client.closed is not None and client.closed.code == 501


# -- opening


def test_an_unknown_virtual_host_is_refused(stranger: Client) -> None:
    _tune(stranger)
    stranger.send(ConnectionOpen(virtual_host="nowhere"), channel=0)
    assert stranger.closed is not None
    assert (stranger.closed.code, stranger.closed.by) == (530, (10, 40))
    assert "vhost nowhere not found" in stranger.closed.text


def test_a_virtual_host_without_permission_is_refused(broker: Broker, stranger: Client) -> None:
    broker.put_vhost("theirs")
    _tune(stranger)
    stranger.send(ConnectionOpen(virtual_host="theirs"), channel=0)
    assert stranger.closed is not None
    assert stranger.closed.code == 530
    assert "access to vhost 'theirs' refused for user 'guest'" in stranger.closed.text


def test_the_number_of_connections_is_bounded(new_broker: NewBroker) -> None:
    broker = new_broker(connections_max=2)
    one = Client(broker)
    Client(broker)
    third = Client(broker, log_in=False)
    _tune(third)
    third.send(ConnectionOpen(), channel=0)
    assert third.closed is not None and third.closed.code == 530
    one.close()
    Client(broker)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (method_frame(0, ConnectionTuneOk()), 503),
        (method_frame(0, ConnectionOpen()), 503),
        (method_frame(1, ChannelOpen()), 503),
        (method_frame(1, QueueDeclare()), 503),
        (method_frame(1, BasicPublish()), 503),
        (method_frame(0, QueueDeclare()), 503),
        (frame(2, 1, bytes(14)), 505),
        (frame(3, 1, b"x"), 505),
        (b"\x07\0\0\0\0\0\0\xce", 501),
        (b"\x08\0\1\0\0\0\0\xce", 505),
        (b"\x01\0\0\0\0\0\x04\0\x0a\0\x0b\xcd", 501),
    ],
)
def test_what_has_no_place_before_the_login_ends_it(stranger: Client, frames: bytes, code: int) -> None:
    stranger.feed(PROTOCOL_HEADER)
    stranger.feed(frames)
    assert stranger.closed is not None and stranger.closed.code == code
    stranger.send(ConnectionCloseOk(), channel=0)
    assert stranger.is_finished


def test_heartbeats_may_come_at_any_time(stranger: Client) -> None:
    stranger.feed(PROTOCOL_HEADER + HEARTBEAT)
    stranger.replies.clear()
    stranger.call(_start_ok(b"\0guest\0" + PASSWORD), ConnectionTune, channel=0)


def test_a_client_may_leave_in_the_middle_of_it(stranger: Client) -> None:
    _tune(stranger)
    stranger.call(ConnectionClose(), ConnectionCloseOk, channel=0)
    assert stranger.is_finished


def test_a_client_that_goes_while_its_login_is_checked_is_forgotten(broker: Broker) -> None:
    client = Client(broker, log_in=False)
    client.connection.receive(PROTOCOL_HEADER)
    client.connection.receive(method_frame(0, _start_ok(b"\0guest\0" + PASSWORD)))
    client.lose()
    assert not broker.connections


@pytest.mark.parametrize("repeated", [ConnectionTuneOk(), ConnectionOpen(), _start_ok(b"x")])
def test_the_handshake_happens_once(broker: Broker, repeated: Method) -> None:
    client = Client(broker)
    closed = client.hard_error(repeated, channel=0)
    assert (closed.code, closed.by) == (503, repeated.ID)


def test_equal_client_properties_are_kept_once(broker: Broker) -> None:
    one, two = Client(broker), Client(broker)
    assert one.connection.client_properties is two.connection.client_properties


def test_a_user_of_another_name_may_do_what_it_may(broker: Broker) -> None:
    broker.put_user(User(name="new", permissions={"/": EVERYTHING}))
    Client(broker, "new").queue("q")
