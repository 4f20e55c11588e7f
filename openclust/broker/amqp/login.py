"""How a connection begins: protocol header, login, tuning, opening."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from openclust import __version__
from openclust.broker.amqp.placement import send_away
from openclust.broker.model.access import User
from openclust.broker.model.effects import CheckLogin, CloseTransport, StartHeartbeats
from openclust.wire.codec import method_frame
from openclust.wire.errors import ACCESS_REFUSED, CONNECTION_FORCED, NOT_ALLOWED, ConnectionError
from openclust.wire.frames import EARLIER_HEADERS, FRAME_MIN, PROTOCOL_HEADER
from openclust.wire.handshake import State, negotiate
from openclust.wire.methods import (
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from openclust.wire.sasl import EXTERNAL, PEER, Credentials, parse_response
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.server.vhost import VirtualHost

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


TLS_HANDSHAKE = b"\x16\x03"
"""How a TLS client begins: RFC 8446 5.1, a record of type handshake, in any version 3."""


@functools.lru_cache(maxsize=64)
def _start_frame(cluster_name: str, mechanisms: tuple[str, ...]) -> bytes:
    return _start(cluster_name, mechanisms)


def _start(cluster_name: str, mechanisms: tuple[str, ...], nonce: str = "") -> bytes:
    capabilities: Table = dict.fromkeys(CAPABILITIES, True)
    properties: Table = {
        "capabilities": capabilities,
        "cluster_name": cluster_name,
        "product": "openclust",
        "version": __version__,
        "platform": "Python",
        "copyright": "openclust contributors",
        "information": "Licensed under the Apache License 2.0",
    }
    if nonce:
        properties["nonce"] = nonce
    start = ConnectionStart(server_properties=properties, mechanisms=" ".join(mechanisms).encode(), locales=b"en_US")
    return method_frame(0, start)


def greet(connection: Connection, data: bytes) -> None:
    """The first bytes must be a protocol header that is taken; otherwise the peer is told ours, and that was all."""
    data = connection.reader.rest + data
    connection.reader.rest = b""
    taken = (PROTOCOL_HEADER,) if connection.peer.is_peer else (PROTOCOL_HEADER, *EARLIER_HEADERS)
    if not any(header.startswith(data[:8]) for header in taken):
        connection.send(PROTOCOL_HEADER)
        if data.startswith(TLS_HANDSHAKE):
            # A client that was given the wrong port comes again and again.
            connection.broker.note_again(
                "warning", "not AMQP 0-9-1", connection, "it speaks TLS, and this port has none"
            )
        elif connection.peer.is_peer:
            connection.broker.note_again("warning", "not a broker's link", connection, f"header {data[:8]!r}")
        else:
            connection.broker.note(
                "warning", "not AMQP 0-9-1: wrong protocol header", connection, header=repr(data[:8])
            )
        connection.state = State.CLOSED
        connection.broker.effects.append(CloseTransport(connection))
        return
    if len(data) < 8:
        connection.reader.rest = data
        return
    broker = connection.broker
    connection.state = State.STARTING
    mechanisms = _mechanisms_for(connection)
    if connection.peer.is_peer:
        connection.nonce = broker.unguessable()
        connection.send(_start(broker.cluster_name, mechanisms, connection.nonce))
    else:
        connection.send(_start_frame(broker.cluster_name, mechanisms))
    if len(data) > 8:
        connection.receive(data[8:])


def _mechanisms_for(connection: Connection) -> tuple[str, ...]:
    """EXTERNAL is only offered to who came with a certificate; brokers have a mechanism of their own."""
    if connection.peer.is_peer:
        return (PEER,)
    offered = connection.broker.mechanisms
    if connection.peer.certificate_name:
        return offered
    return tuple(each for each in offered if each != "EXTERNAL")


def proceed(connection: Connection, method: Method, after: State) -> None:
    """A method of the handshake, in its place."""
    connection.state = after
    if isinstance(method, ConnectionStartOk):
        connection.client_properties = connection.broker.share_properties(method.client_properties)
        _start_ok(connection, method)
    elif isinstance(method, ConnectionSecureOk):
        _check(connection, method.response)
    elif isinstance(method, ConnectionTuneOk):
        _tune_ok(connection, method)
    elif isinstance(method, ConnectionOpen):
        _open(connection, method)


def _start_ok(connection: Connection, method: ConnectionStartOk) -> None:
    if (method.mechanism == PEER) is not connection.peer.is_peer:
        connection.mechanism = method.mechanism
        raise ConnectionError(NOT_ALLOWED, _wrong_port(connection))
    if method.mechanism not in _mechanisms_for(connection):
        offered = " ".join(_mechanisms_for(connection))
        problem = f"unknown or unavailable mechanism '{method.mechanism}'"
        if method.mechanism == EXTERNAL and EXTERNAL in connection.broker.mechanisms and not connection.peer.is_peer:
            problem = "EXTERNAL needs a client certificate that the broker has verified, and that names a user"
        raise ConnectionError(ACCESS_REFUSED, f"{problem} (offered: {offered})")
    if not connection.peer.is_peer and (closed := connection.broker.cluster.closed_to_clients):
        raise ConnectionError(CONNECTION_FORCED, closed)
    connection.mechanism = method.mechanism
    if not method.response and method.mechanism != "EXTERNAL":
        connection.state = State.SECURING
        connection.send(method_frame(0, ConnectionSecure()))
        return
    _check(connection, method.response)


def _wrong_port(connection: Connection) -> str:
    """What a broker is told that has dialled the port for clients, and a client that came to the one for brokers."""
    cluster = connection.broker.cluster
    if connection.peer.is_peer:
        return f"wrong port: this one is for brokers; clients are at {cluster.client_address or 'another'}"
    if not cluster.peer_address:
        return "wrong port: this one is for clients, and this broker has none for brokers (it is a cluster of one)"
    return f"wrong port: this one is for clients; peers are at {cluster.peer_address}"


def _check(connection: Connection, response: bytes) -> None:
    """Ask for the login to be checked; input waits until the answer is there."""
    if connection.mechanism == PEER:
        user = connection.broker.cluster.admit(connection, response)
        checked(connection, Credentials(user.name, None), user)
        return
    credentials = parse_response(connection.mechanism, response, connection.peer.certificate_name)
    if credentials is None:
        checked(connection, Credentials("", None), None)
        return
    connection.response = response
    connection.hold = "login"
    connection.broker.effects.append(CheckLogin(connection, credentials))


def checked(connection: Connection, credentials: Credentials, user: User | None) -> None:
    """The login is checked; None is a refusal. Then `connection.release()` lets its input go on."""
    if connection.state is not State.CHECKING:
        return
    broker = connection.broker
    reason = _why_refused(connection, credentials) if user is None else ""
    if (
        user is not None
        and user.name == "guest"
        and broker.guest_from_loopback_only
        and not connection.peer.is_loopback
    ):
        reason = "user 'guest' can only connect from the loopback"
        user = None
    if user is None:
        broker.note("warning", f"login refused: {reason}", connection, user=credentials.name)
        _refuse(connection)
        return
    connection.user = user
    limits = broker.limits
    connection.state = State.TUNING
    tune = ConnectionTune(channel_max=limits.channel_max, frame_max=limits.frame_max, heartbeat=limits.heartbeat_s)
    connection.send(method_frame(0, tune))
    connection.release()


def _why_refused(connection: Connection, credentials: Credentials) -> str:
    """For the log; the client is not told."""
    if connection.mechanism == EXTERNAL:
        return "the client's certificate names nobody who is a user here (tls.login_from says what in it is the name)"
    if not credentials.name and credentials.password is None:
        return f"what the client answered is no {connection.mechanism} response"
    return "wrong user name or password"


def _refuse(connection: Connection) -> None:
    """0-9-1 says to just close the socket; who announced the capability is told why."""
    connection.release()
    if connection.can("authentication_failure_close"):
        text = (
            f"ACCESS_REFUSED - Login was refused using authentication mechanism {connection.mechanism}. "
            "For details see the broker logfile."
        )
        connection.close(ACCESS_REFUSED, text, *ConnectionStartOk.ID)
    else:
        connection.end()


def _tune_ok(connection: Connection, method: ConnectionTuneOk) -> None:
    limits = connection.broker.limits
    frame_max = negotiate(limits.frame_max, method.frame_max)
    if 0 < method.frame_max < FRAME_MIN:
        raise ConnectionError(NOT_ALLOWED, f"frame_max={method.frame_max} < {FRAME_MIN} min size")
    if limits.frame_max and method.frame_max > limits.frame_max:
        raise ConnectionError(NOT_ALLOWED, f"frame_max={method.frame_max} > {limits.frame_max} max size")
    if limits.channel_max and method.channel_max > limits.channel_max:
        raise ConnectionError(NOT_ALLOWED, f"channel_max={method.channel_max} > {limits.channel_max} max channels")
    connection.frame_max = frame_max
    connection.channel_max = negotiate(limits.channel_max, method.channel_max) or 65_535
    connection.heartbeat_s = method.heartbeat


def _open(connection: Connection, method: ConnectionOpen) -> None:
    # The state is OPENING until nothing stands against it.
    connection.state = State.OPENING
    # Kept until here for the case that another broker must be told.
    response, connection.response = connection.response, b""
    if connection.peer.is_peer:
        _let_in(connection, connection.broker.peer_vhost)
        return
    vhost = _vhost(connection, method.virtual_host)
    # In 0-9-1 the bit is reserved, and pika sets it always: it only counts from who knows what it is about.
    connection.stays = method.insist and connection.can("connection.redirect")
    placement = connection.broker.cluster.place(connection)
    if placement is None or not send_away(connection, placement, method, response):
        _let_in(connection, vhost)


def stay(connection: Connection, method: ConnectionOpen) -> None:
    """No other broker could serve the client: let it in here, unless it has gone or must not be."""
    if connection.hold != "proxy" or connection.state is not State.OPENING:
        return
    try:
        _let_in(connection, _vhost(connection, method.virtual_host))
    except ConnectionError as error:
        connection.fail(error, *method.ID)
    connection.release()


def _vhost(connection: Connection, name: str) -> VirtualHost:
    """The virtual host that the client opens; ConnectionError where it may not."""
    broker = connection.broker
    name = broker.cluster.virtual_host(connection, name)
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise ConnectionError(NOT_ALLOWED, f"vhost {name} not found")
    if not connection.user.may_enter(name):
        raise ConnectionError(NOT_ALLOWED, f"access to vhost '{name}' refused for user '{connection.user.name}'")
    return vhost


def _let_in(connection: Connection, vhost: VirtualHost) -> None:
    broker = connection.broker
    if not connection.peer.is_peer and broker.open_count() >= broker.limits.connections_max:
        raise ConnectionError(
            NOT_ALLOWED, f"the broker has {broker.limits.connections_max} connections, the most it may"
        )
    connection.state = State.OPEN
    connection.vhost = vhost
    # Where a peer's words go tells which of its links they came by: not for its next link.
    connection.routes = {} if connection.peer.is_peer else vhost.routes_for(connection.user.name)
    connection.reader.frame_max = connection.frame_max or 2**31
    connection.send(method_frame(0, ConnectionOpenOk(known_hosts=broker.cluster.known_hosts(connection))))
    broker.logged_in(connection)
    # Not before: until a connection is open, the time for its handshake runs.
    if connection.heartbeat_s:
        broker.effects.append(StartHeartbeats(connection, connection.heartbeat_s))
