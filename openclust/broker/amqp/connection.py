"""A client's connection: it takes bytes, hands methods and messages to its channels, and fills its outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.content import PUBLISH_PREFIX
from openclust.broker.amqp.placement import moved
from openclust.broker.amqp.start_frame import start_frame, start_frame_with
from openclust.broker.delivery.fanout import RoutingBroker
from openclust.broker.model.access import User
from openclust.broker.model.effects import CheckLogin, CloseTransport, Effect, Proxy, Resume, StartHeartbeats
from openclust.broker.model.peer import Peer
from openclust.broker.parameters.parameters import limit_of
from openclust.broker.queues.queue import QueueBroker
from openclust.broker.routing.route import Route
from openclust.wire.codec import decode_method, method_frame, method_id, name_of
from openclust.wire.errors import (
    ACCESS_REFUSED,
    CHANNEL_ERROR,
    COMMAND_INVALID,
    CONNECTION_FORCED,
    NOT_ALLOWED,
    UNEXPECTED_FRAME,
    ChannelError,
    ConnectionError,
    cut,
)
from openclust.wire.frames import EARLIER_HEADERS, FRAME_MIN, PROTOCOL_HEADER
from openclust.wire.handshake import State, negotiate, step
from openclust.wire.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionRedirect,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)
from openclust.wire.properties import content_header
from openclust.wire.reader import FrameReader
from openclust.wire.sasl import AMQPLAIN, EXTERNAL, PEER, PLAIN, Credentials, parse_response
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.amqp.placement import Placement
    from openclust.broker.cluster_port import ClusterPort, Done
    from openclust.broker.counts.churn import Churn
    from openclust.broker.counts.histogram import Histogram
    from openclust.broker.counts.message_counts import ChannelCounts
    from openclust.broker.delivery.direct_reply import ReplyQueue
    from openclust.broker.journal.journal import ConfirmWaiter, Journal
    from openclust.broker.model.changes import Change
    from openclust.broker.model.limits import Limits
    from openclust.broker.parameters.limited_use import Usage
    from openclust.broker.parameters.parameters import ParameterTable
    from openclust.broker.queues.queue import Queue
    from openclust.broker.routing.exchange import Exchange
    from openclust.broker.server.vhost import VirtualHost
    from openclust.wire.properties import Properties

Hold = Literal["", "login", "proxy", "memory", "turn", "cluster"]
"""Why the input of a connection waits; empty if it does not."""

_NO_PROPERTIES: Table = {}

_PROXIED_MECHANISMS = (PLAIN, AMQPLAIN)

TLS_HANDSHAKE = b"\x16\x03"
"""The first bytes of a TLS client. RFC 8446 5.1: a record of type handshake, of any version 3."""


class ServingBroker(QueueBroker, RoutingBroker, Protocol):
    """The broker, as far as connections and the handlers of methods need it."""

    name: str
    cluster_name: str
    mechanisms: tuple[str, ...]
    guest_from_loopback_only: bool
    limits: Limits
    users: dict[str, User]
    parameters: ParameterTable
    usage: Usage
    connections: dict[Connection, None]
    replies: dict[str, ReplyQueue]
    properties: dict[bytes, Properties]
    sound: set[bytes]
    cancelled: list[tuple[Channel, str]]
    confirming: list[ConfirmWaiter]
    closing: list[Connection]
    effects: list[Effect]
    dirty: list[Connection]
    closed_counts: ChannelCounts
    closed_confirming: int
    message_sizes: Histogram
    churn: Churn
    turn_waiters: list[Connection]
    peer_vhost: VirtualHost

    @property
    def vhosts(self) -> dict[str, VirtualHost]: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def cluster(self) -> ClusterPort: ...
    @property
    def wall_clock_s(self) -> int: ...

    def new_channel(self, connection: Connection, number: int) -> Channel: ...
    def name_queue(self) -> str: ...
    def name_consumer(self) -> str: ...
    def unguessable(self) -> str: ...
    def open_count(self) -> int: ...
    def next_size_sample(self) -> int: ...
    def logged_in(self, connection: Connection) -> None: ...
    def share_properties(self, properties: Table) -> Table: ...
    def define(self, change: Change, done: Done | None = None) -> None: ...
    def note(
        self,
        level: Literal["debug", "info", "warning", "error"],
        event: str,
        connection: Connection | None = None,
        **fields: Any,
    ) -> None: ...
    def note_repeated(
        self, level: Literal["info", "warning", "error"], event: str, connection: Connection, reason: str
    ) -> None: ...


class Connection:
    """Feed it with `receive`; write what is in `out` when it is in `broker.dirty`, then call `flushed`."""

    __slots__ = (
        "broker",
        "bulky",
        "channel_max",
        "channels",
        "client_properties",
        "frame_max",
        "heartbeat_s",
        "hold",
        "mechanism",
        "nonce",
        "out",
        "out_bytes",
        "owned",
        "paused",
        "peer",
        "pending_bytes",
        "published",
        "reader",
        "response",
        "routes",
        "state",
        "stays",
        "transport",
        "user",
        "vhost",
        "was_told_blocked",
    )

    user: User
    vhost: VirtualHost

    def __init__(self, broker: ServingBroker, peer: Peer, transport: object = None) -> None:
        self.broker = broker
        self.peer = peer
        self.transport = transport
        self.state = State.GREETING
        self.reader = FrameReader(self, broker.limits.frame_max_before_login)
        self.channels: dict[int, Channel] = {}
        self.channel_max = 0
        self.frame_max = FRAME_MIN
        self.heartbeat_s = 0
        self.client_properties = _NO_PROPERTIES
        self.mechanism = ""
        self.nonce = ""
        self.response = b""
        self.stays = False
        self.routes: dict[bytes, Route] = {}
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.bulky = False
        self.pending_bytes = 0
        self.paused = False
        self.hold: Hold = ""
        self.owned: dict[str, Queue] | None = None
        self.published = False
        self.was_told_blocked = False
        broker.connections[self] = None

    # -- bytes in

    def receive(self, data: bytes) -> None:
        """Take bytes from the client. `broker.now_ms` must be up to date."""
        state = self.state
        if state is State.GREETING:
            self._greet(data)
            return
        if state is State.CLOSED:
            return
        if self.hold:
            self.reader.rest += data
            return
        try:
            self.reader.read(data)
        except ConnectionError as error:
            self.fail(error, 0, 0)
        except ChannelError as error:
            # There is no channel to close.
            self.fail(ConnectionError(error.code, error.text), 0, 0)

    def on_publish(self, number: int, arguments: bytes, header: bytes, body: bytes) -> bool:
        channel = self.channels.get(number)
        if channel is None or channel.state != OPEN or channel.incoming is not None:
            self._misplaced_publish(number, channel)
            return True
        if self.hold or self.must_wait():
            return False
        try:
            channel.publish(arguments, header, body)
        except ConnectionError as error:
            self.fail(error, 60, 40)
        return True

    def on_run(self, number: int, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        taken = 0
        channel = self.channels.get(number)
        if channel is not None and channel.state == OPEN and channel.incoming is None:
            if self.hold or self.must_wait():
                return 0
            taken = channel.publish_run(arguments, properties, bodies)
        for body in bodies[taken:] if taken else bodies:
            if not self.on_publish(number, arguments, content_header(properties, len(body)), body):
                return taken
            taken += 1
        return taken

    def on_ack(self, number: int, delivery_tag: int, multiple: bool) -> bool:
        channel = self.channels.get(number)
        if self.hold:
            return False
        if channel is None or channel.state != OPEN or channel.incoming is not None:
            return self.on_method(number, b"\0\x3c\0\x50" + delivery_tag.to_bytes(8, "big") + bytes((multiple,)))
        try:
            channel.ack(delivery_tag, multiple)
        except ChannelError as error:
            channel.fail(error, 60, 80)
        return True

    def on_method(self, number: int, payload: bytes) -> bool:
        if self.hold:
            return False
        if self.state is State.CLOSED:
            return True
        try:
            if not number:
                self._connection_method(decode_method(payload))
            elif self.state is not State.CLOSING:
                return self._channel_method(number, payload)
        except ConnectionError as error:
            self.fail(error, *method_id(payload))
        return True

    def on_header(self, number: int, payload: bytes) -> bool:
        if self.hold:
            return False
        channel = self._channel_for_content(number)
        if channel is not None:
            channel.take_header(payload)
        return True

    def on_body(self, number: int, payload: bytes) -> bool:
        if self.hold:
            return False
        channel = self._channel_for_content(number)
        if channel is not None:
            channel.take_body(payload)
        return True

    # -- frames that do not take the hot path

    def _misplaced_publish(self, number: int, channel: Channel | None) -> None:
        """A whole publish where no open channel waits for one: an error, or dropped on a closing channel."""
        if self.state in (State.CLOSING, State.CLOSED):
            return
        if self.state is not State.OPEN:
            error = ConnectionError(COMMAND_INVALID, f"basic.publish while {self.state.value}")
        elif not number:
            error = ConnectionError(COMMAND_INVALID, "basic.publish on channel 0")
        elif channel is None:
            error = _no_channel(number)
        elif channel.state == OPEN:
            error = ConnectionError(UNEXPECTED_FRAME, "basic.publish where content was to come")
        else:
            return
        self.fail(error, *BasicPublish.ID)

    def _channel_method(self, number: int, payload: bytes) -> bool:
        """Handle a method on a channel. False if it must wait."""
        if self.state is not State.OPEN:
            raise ConnectionError(COMMAND_INVALID, f"a method on channel {number} while {self.state.value}")
        channel = self.channels.get(number)
        if payload[:4] == PUBLISH_PREFIX and channel is not None:
            if channel.state == OPEN:
                if self.must_wait():
                    return False
                channel.start_content(payload[4:])
            return True
        method = decode_method(payload)
        if channel is not None:
            channel.on_method(method)
        elif isinstance(method, ChannelOpen):
            self._open_channel(number)
        elif isinstance(method, ChannelClose):
            # Both sides closed the channel at once: the client still gets its answer.
            self.send(method_frame(number, ChannelCloseOk()))
        elif not isinstance(method, ChannelCloseOk):
            raise _no_channel(number)
        return True

    def _open_channel(self, number: int) -> None:
        # The negotiated maximum bounds how many there are, not their numbers: aiormq counts on from 65535.
        if len(self.channels) >= self.channel_max:
            text = f"{len(self.channels)} channels are open, the negotiated channel_max: channel {number} is refused"
            raise ConnectionError(NOT_ALLOWED, text)
        if self.peer.is_application:
            self._demand_channel()
            self.broker.usage.channel_opened(self.user.name)
        self.channels[number] = self.broker.new_channel(self, number)
        self.send(method_frame(number, ChannelOpenOk()))

    def _demand_channel(self) -> None:
        """Raise 530 where the user has as many channels as the limit allows."""
        name, broker = self.user.name, self.broker
        limit = limit_of(self.user.limits, "max-channels")
        if limit is None:
            return
        if broker.usage.user_channels.get(name, 0) + broker.cluster.used_elsewhere("user_channels", name) >= limit:
            raise ConnectionError(
                NOT_ALLOWED,
                f"number of channels opened for user '{name}' has reached the maximum allowed user limit of ({limit})",
            )

    def _channels_closed(self, count: int) -> None:
        if count and self.peer.is_application:
            self.broker.usage.channels_closed(self.user.name, count)

    def _channel_for_content(self, number: int) -> Channel | None:
        """The channel of a content frame; None if the connection is closing, so that the frame is dropped."""
        if self.state is State.CLOSING or self.state is State.CLOSED:
            return None
        if self.state is not State.OPEN or not number:
            raise ConnectionError(UNEXPECTED_FRAME, f"a content frame on channel {number} while {self.state.value}")
        channel = self.channels.get(number)
        if channel is None:
            raise _no_channel(number)
        return channel

    def _connection_method(self, method: Method) -> None:
        """A method on channel 0."""
        kind = type(method)
        if self.state is State.CLOSING and not isinstance(method, ConnectionClose | ConnectionCloseOk):
            return
        if method.ID[0] != 10:
            raise ConnectionError(COMMAND_INVALID, f"{name_of(kind)} on channel 0")
        after = step(self.state, kind)
        if isinstance(method, ConnectionClose):
            self.end(method_frame(0, ConnectionCloseOk()))
        elif isinstance(method, ConnectionCloseOk):
            self.end()
        elif isinstance(method, ConnectionUpdateSecret):
            # Passwords do not expire here: there is nothing to renew.
            self.send(method_frame(0, ConnectionUpdateSecretOk()))
        else:
            self.proceed(method, after)

    # -- the handshake: protocol header, login, tuning, opening

    def _greet(self, data: bytes) -> None:
        """The first bytes must be a known protocol header. Otherwise send ours and close, as the specification says."""
        data = self.reader.rest + data
        self.reader.rest = b""
        taken = (PROTOCOL_HEADER,) if self.peer.is_peer else (PROTOCOL_HEADER, *EARLIER_HEADERS)
        if not any(header.startswith(data[:8]) for header in taken):
            self.send(PROTOCOL_HEADER)
            if data.startswith(TLS_HANDSHAKE):
                # A client with the wrong port connects again and again.
                self.broker.note_repeated("warning", "not AMQP 0-9-1", self, "it speaks TLS, and this port has none")
            elif self.peer.is_peer:
                self.broker.note_repeated("warning", "not a broker's link", self, f"header {data[:8]!r}")
            else:
                self.broker.note("warning", "not AMQP 0-9-1: wrong protocol header", self, header=repr(data[:8]))
            self.state = State.CLOSED
            self.broker.effects.append(CloseTransport(self))
            return
        if len(data) < 8:
            self.reader.rest = data
            return
        broker = self.broker
        self.state = State.STARTING
        mechanisms = self._mechanisms()
        if self.peer.is_peer:
            self.nonce = broker.unguessable()
            self.send(start_frame_with(broker.cluster_name, mechanisms, self.nonce))
        else:
            self.send(start_frame(broker.cluster_name, mechanisms))
        if len(data) > 8:
            self.receive(data[8:])

    def _mechanisms(self) -> tuple[str, ...]:
        """The mechanisms to offer: EXTERNAL only to clients with a certificate, and to brokers only their own."""
        if self.peer.is_peer:
            return (PEER,)
        offered = self.broker.mechanisms
        if self.peer.certificate_name:
            return offered
        return tuple(each for each in offered if each != "EXTERNAL")

    def proceed(self, method: Method, after: State) -> None:
        """Handle a method of the handshake that may come in this state."""
        self.state = after
        if isinstance(method, ConnectionStartOk):
            self.client_properties = self.broker.share_properties(method.client_properties)
            self._start_ok(method)
        elif isinstance(method, ConnectionSecureOk):
            self._check_login(method.response)
        elif isinstance(method, ConnectionTuneOk):
            self._tune_ok(method)
        elif isinstance(method, ConnectionOpen):
            self._open(method)

    def _start_ok(self, method: ConnectionStartOk) -> None:
        if (method.mechanism == PEER) is not self.peer.is_peer:
            self.mechanism = method.mechanism
            raise ConnectionError(NOT_ALLOWED, self._wrong_port())
        if method.mechanism not in self._mechanisms():
            offered = " ".join(self._mechanisms())
            problem = f"unknown or unavailable mechanism '{method.mechanism}'"
            if method.mechanism == EXTERNAL and EXTERNAL in self.broker.mechanisms and not self.peer.is_peer:
                problem = "EXTERNAL needs a client certificate that the broker has verified, and that names a user"
            raise ConnectionError(ACCESS_REFUSED, f"{problem} (offered: {offered})")
        if not self.peer.is_peer and (closed := self.broker.cluster.closed_to_clients):
            raise ConnectionError(CONNECTION_FORCED, closed)
        self.mechanism = method.mechanism
        if not method.response and method.mechanism != "EXTERNAL":
            self.state = State.SECURING
            self.send(method_frame(0, ConnectionSecure()))
            return
        self._check_login(method.response)

    def _wrong_port(self) -> str:
        """The error text for a broker on the port for clients, or a client on the port for brokers."""
        cluster = self.broker.cluster
        if self.peer.is_peer:
            return f"wrong port: this one is for brokers; clients are at {cluster.client_address or 'another'}"
        if not cluster.peer_address:
            return "wrong port: this one is for clients, and this broker has none for brokers (it is a cluster of one)"
        return f"wrong port: this one is for clients; peers are at {cluster.peer_address}"

    def _check_login(self, response: bytes) -> None:
        """Ask the shell to check the login. Input waits until `checked` is called."""
        if self.mechanism == PEER:
            user = self.broker.cluster.admit(self, response)
            self.checked(Credentials(user.name, None), user)
            return
        credentials = parse_response(self.mechanism, response, self.peer.certificate_name)
        if credentials is None:
            self.checked(Credentials("", None), None)
            return
        self.response = response
        self.hold = "login"
        self.broker.effects.append(CheckLogin(self, credentials))

    def checked(self, credentials: Credentials, user: User | None) -> None:
        """The login was checked: `user` is None if it was refused. Input goes on."""
        if self.state is not State.CHECKING:
            return
        broker = self.broker
        reason = self._why_refused(credentials) if user is None else ""
        if user is not None and user.name == "guest" and broker.guest_from_loopback_only and not self.peer.is_loopback:
            reason = "user 'guest' can only connect from the loopback"
            user = None
        if user is None:
            broker.note("warning", f"login refused: {reason}", self, user=credentials.name)
            self._refuse_login()
            return
        self.user = user
        limits = broker.limits
        self.state = State.TUNING
        tune = ConnectionTune(channel_max=limits.channel_max, frame_max=limits.frame_max, heartbeat=limits.heartbeat_s)
        self.send(method_frame(0, tune))
        self.release()

    def _why_refused(self, credentials: Credentials) -> str:
        """The reason for the log. The client is not told."""
        if self.mechanism == EXTERNAL:
            return (
                "the client's certificate names nobody who is a user here (tls.login_from says what in it is the name)"
            )
        if not credentials.name and credentials.password is None:
            return f"what the client answered is no {self.mechanism} response"
        return "wrong user name or password"

    def _refuse_login(self) -> None:
        """0-9-1: just close the socket. A client with that capability gets connection.close with a reason first."""
        self.release()
        if self.can("authentication_failure_close"):
            text = (
                f"ACCESS_REFUSED - Login was refused using authentication mechanism {self.mechanism}. "
                "For details see the broker logfile."
            )
            self.close(ACCESS_REFUSED, text, *ConnectionStartOk.ID)
        else:
            self.end()

    def _tune_ok(self, method: ConnectionTuneOk) -> None:
        limits = self.broker.limits
        frame_max = negotiate(limits.frame_max, method.frame_max)
        if 0 < method.frame_max < FRAME_MIN:
            raise ConnectionError(NOT_ALLOWED, f"frame_max={method.frame_max} < {FRAME_MIN} min size")
        if limits.frame_max and method.frame_max > limits.frame_max:
            raise ConnectionError(NOT_ALLOWED, f"frame_max={method.frame_max} > {limits.frame_max} max size")
        if limits.channel_max and method.channel_max > limits.channel_max:
            raise ConnectionError(NOT_ALLOWED, f"channel_max={method.channel_max} > {limits.channel_max} max channels")
        self.frame_max = frame_max
        self.channel_max = negotiate(limits.channel_max, method.channel_max) or 65_535
        self.heartbeat_s = method.heartbeat

    def _open(self, method: ConnectionOpen) -> None:
        # The state stays OPENING until the client is let in.
        self.state = State.OPENING
        # It was kept so that another broker could be given it.
        response, self.response = self.response, b""
        if self.peer.is_peer:
            self._let_in(self.broker.peer_vhost)
            return
        vhost = self._wanted_vhost(method.virtual_host)
        # In 0-9-1 the bit is reserved, and pika always sets it: so it counts only with this capability.
        self.stays = method.insist and self.can("connection.redirect")
        placement = self.broker.cluster.place(self)
        if placement is None or not self._send_away(placement, method, response):
            self._let_in(vhost)

    def enter(self, user: User, vhost: VirtualHost) -> None:
        """Let in an internal peer that acts for a user whose login has been checked: without a handshake."""
        assert self.peer.is_internal, "all others log in"
        self.user = user
        self.stays = True
        self.channel_max = 1
        # No limit: there is no socket on which a large frame could hold up another.
        self.frame_max = 0
        self._let_in(vhost)

    def stay(self, method: ConnectionOpen) -> None:
        """No other broker could serve the client as its proxy: let it in here, if it is still there and may be."""
        if self.hold != "proxy" or self.state is not State.OPENING:
            return
        try:
            self._let_in(self._wanted_vhost(method.virtual_host))
        except ConnectionError as error:
            self.fail(error, *method.ID)
        self.release()

    def _wanted_vhost(self, name: str) -> VirtualHost:
        """The virtual host that the client opens. ConnectionError if there is none, or the user may not enter it."""
        broker = self.broker
        name = broker.cluster.virtual_host(self, name)
        vhost = broker.vhosts.get(name)
        if vhost is None:
            raise ConnectionError(NOT_ALLOWED, f"vhost {name} not found")
        if not self.user.may_enter(name):
            raise ConnectionError(NOT_ALLOWED, f"access to vhost '{name}' refused for user '{self.user.name}'")
        self._demand_connection(name)
        return vhost

    def _demand_connection(self, vhost: str) -> None:
        """Raise 530 where the virtual host or the user has as many connections as the limit allows."""
        user, broker = self.user.name, self.broker
        elsewhere = broker.cluster.used_elsewhere
        limit = broker.parameters.limit(vhost, "max-connections")
        if limit is not None:
            used = broker.usage.vhost_connections.get(vhost, 0) + elsewhere("vhost_connections", vhost)
            if used >= limit:
                text = f"access to vhost '{vhost}' refused for user '{user}': connection limit ({limit}) is reached"
                raise ConnectionError(NOT_ALLOWED, text)
        limit = limit_of(self.user.limits, "max-connections")
        if limit is not None:
            used = broker.usage.user_connections.get(user, 0) + elsewhere("user_connections", user)
            if used >= limit:
                text = f"connection refused for user '{user}': user connection limit ({limit}) is reached"
                raise ConnectionError(NOT_ALLOWED, text)

    def _let_in(self, vhost: VirtualHost) -> None:
        broker = self.broker
        is_client = self.peer.is_application
        if is_client and broker.open_count() >= broker.limits.connections_max:
            raise ConnectionError(
                NOT_ALLOWED, f"the broker has {broker.limits.connections_max} connections, the most it may"
            )
        self.state = State.OPEN
        self.vhost = vhost
        # The route of a control message knows the connection it came by: so links share no routes.
        self.routes = {} if self.peer.is_peer else vhost.routes_for(self.user.name)
        self.reader.frame_max = self.frame_max or 2**31
        self.send(method_frame(0, ConnectionOpenOk(known_hosts=broker.cluster.known_hosts(self))))
        broker.logged_in(self)
        # Not earlier: until the connection is open, the timeout of the handshake runs.
        if self.heartbeat_s:
            broker.effects.append(StartHeartbeats(self, self.heartbeat_s))

    def _send_away(self, placement: Placement, method: ConnectionOpen, response: bytes) -> bool:
        """Send a client to another broker, in the way it understands. False if it must be let in here."""
        note = self.broker.note
        if self.can("connection.redirect"):
            note("debug", "client redirected", self, to=placement.name, reason=placement.reason)
            redirect = ConnectionRedirect(host=placement.address, known_hosts=placement.known_hosts)
            self.send(method_frame(0, redirect))
            self.end()
            return True
        if placement.fallback == "close":
            note("debug", "client told to go elsewhere", self, to=placement.name, reason=placement.reason)
            self.close(CONNECTION_FORCED, moved(placement.address, placement.reason), *ConnectionOpen.ID)
            return True
        if placement.fallback == "proxy" and self._can_be_proxied():
            self.hold = "proxy"
            self.broker.effects.append(Proxy(self, placement, method, response))
            return True
        return False

    def _can_be_proxied(self) -> bool:
        """Not with TLS, since the way to the other broker is in the clear, and not with a certificate."""
        return self.mechanism in _PROXIED_MECHANISMS and not self.peer.is_tls

    # -- waiting

    def must_wait(self) -> bool:
        """Whether a publish must wait: for memory, or until the turn's outboxes are written."""
        if self.peer.is_peer:
            # The links of brokers carry control messages too: they are held back in other ways.
            return False
        self.published = True
        broker = self.broker
        if broker.memory_accounts.alarm:
            self.hold = "memory"
            self.tell_blocked(True, broker.memory_accounts.reason)
            return True
        if broker.turn_bytes > broker.limits.turn_bytes_max:
            self.hold = "turn"
            broker.turn_waiters.append(self)
            return True
        return False

    def wait(self, hold: Hold) -> None:
        """Hold the input of the connection until `release`."""
        if not self.hold:
            self.hold = hold

    def release_from(self, hold: Hold) -> None:
        if self.hold == hold and self.state is not State.CLOSED:
            self.release()

    def release(self) -> None:
        """Let the input go on."""
        if self.hold:
            self.hold = ""
            self.broker.effects.append(Resume(self))

    def tell_blocked(self, blocked: bool, reason: str = "") -> None:
        if blocked is self.was_told_blocked or self.state is not State.OPEN or not self.can("connection.blocked"):
            return
        self.was_told_blocked = blocked
        self.send(method_frame(0, ConnectionBlocked(reason=reason) if blocked else ConnectionUnblocked()))

    # -- bytes out

    def send(self, data: bytes) -> None:
        if self.state is State.CLOSED:
            return
        if not self.out:
            self.broker.dirty.append(self)
        self.out.append(data)

    def count_out(self, size: int) -> None:
        """Count `size` bytes of deliveries in the outbox. When it is too full, deliveries pause."""
        self.out_bytes += size
        if self.out_bytes > self.broker.limits.outbox_bytes_max and not self.paused:
            self.pause()

    def flushed(self, pending_bytes: int) -> None:
        """The outbox was given to the socket, which has not sent `pending_bytes` of it yet."""
        self.broker.memory_accounts.outbox_bytes += pending_bytes - self.pending_bytes
        self.pending_bytes = self.out_bytes = pending_bytes
        limit = self.broker.limits.outbox_bytes_max
        if not self.paused:
            if pending_bytes > limit:
                self.pause()
        elif pending_bytes <= limit // 2:
            self.paused = False
            channels = self.channels
            if len(channels) > 1:
                # The first channel may fill the outbox again: next time another one is the first.
                first = next(iter(channels))
                channels[first] = channels.pop(first)
            for channel in list(channels.values()):
                channel.wake_consumers()
                if self.paused:
                    break

    def pause(self) -> None:
        self.paused = True
        for channel in self.channels.values():
            channel.pause_consumers()

    # -- permissions

    def demand(self, action: Literal["configure", "write", "read"], resource: str) -> None:
        """Raise 403 if the user may not do `action` to the exchange or queue `resource`."""
        # As in RabbitMQ, this is the name of the default exchange in patterns and texts.
        resource = resource or "amq.default"
        if not self.user.may(action, self.vhost.name, resource):
            text = f"{action} access to '{resource}' in vhost '{self.vhost.name}' refused for user '{self.user.name}'"
            raise ChannelError(ACCESS_REFUSED, text)

    def demand_topic(self, action: Literal["write", "read"], exchange: Exchange, routing_key: str) -> None:
        """Raise 403 if the user may not publish to a topic exchange with this key (`write`), or bind to it (`read`)."""
        user = self.user
        if not user.topic_permissions or exchange.type != "topic":
            return
        vhost = self.vhost.name
        if not user.may_use_topic(action, vhost, exchange.name, routing_key):
            text = (
                f"access to topic '{routing_key}' in exchange '{exchange.name}' in vhost '{vhost}' refused for user "
                f"'{user.name}'"
            )
            raise ChannelError(ACCESS_REFUSED, text)

    @property
    def was_open(self) -> bool:
        """Whether its handshake was ever completed."""
        return hasattr(self, "vhost")

    @property
    def known_user(self) -> User | None:
        """The user; None before the login."""
        return getattr(self, "user", None)

    @property
    def client_name(self) -> str:
        """The name that the client gave this connection; may be empty."""
        name = self.client_properties.get("connection_name")
        return cut(name) if isinstance(name, str) else ""

    def can(self, capability: str) -> bool:
        """Whether the client announced a capability."""
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    # -- exclusive queues and channels

    def own(self, queue: Queue) -> None:
        if self.owned is None:
            self.owned = {}
        self.owned[queue.name] = queue

    def disown(self, queue: Queue) -> None:
        if self.owned is not None:
            self.owned.pop(queue.name, None)

    def forget_channel(self, channel: Channel) -> None:
        if self.channels.pop(channel.number, None) is not None:
            self._channels_closed(1)

    # -- the end

    def fail(self, error: ConnectionError, class_id: int, method_id: int) -> None:
        """Close the connection for an error. Of later input only close-ok counts."""
        if self.state in (State.CLOSING, State.CLOSED):
            return
        level: Literal["info", "warning"] = "info" if error.code == CONNECTION_FORCED else "warning"
        if not self.was_open and (self.peer.is_peer or self.mechanism == PEER):
            # It connects again and again, with the same mistake.
            self.broker.note_repeated(level, "a broker was refused", self, error.text)
        else:
            self.broker.note(level, "connection closed for an error", self, text=error.reply_text)
        self.close(error.code, error.reply_text, class_id, method_id)

    def close(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """Send connection.close, and release channels and exclusive queues now."""
        for channel in self.channels.values():
            channel.send_confirms()
        self.release_all()
        # Input behind a waiting publish must be read: it has the client's close-ok.
        self.release()
        self.state = State.CLOSING
        method = ConnectionClose(
            reply_code=code, reply_text=cut(text), failing_class_id=class_id, failing_method_id=method_id
        )
        self.send(method_frame(0, method))
        self.broker.closing.append(self)

    def end(self, close_ok: bytes = b"") -> None:
        """Send nothing more but `close_ok`: write the outbox and close the socket."""
        self.release_all()
        self.state = State.CLOSED
        self.broker.effects.append(CloseTransport(self, close_ok))

    def append_close_ok(self, close_ok: bytes) -> None:
        """Append the answer to connection.close to the outbox, for whoever performs `CloseTransport`."""
        if close_ok:
            if not self.out:
                self.broker.dirty.append(self)
            self.out.append(close_ok)

    def lost(self) -> None:
        """The socket is closed."""
        self.release_all()
        self.state = State.CLOSED
        self.broker.memory_accounts.outbox_bytes -= self.pending_bytes
        self.pending_bytes = 0
        self.out.clear()
        self.broker.connections.pop(self, None)
        # The reader refers to the connection: without this cycle both are freed at once, not by the garbage collector.
        del self.reader

    def release_all(self) -> None:
        """Release all channels, and delete the exclusive queues."""
        channels, self.channels = self.channels, {}
        self._channels_closed(len(channels))
        # All consumers first: deliveries that one channel returns must not go to another.
        for channel in channels.values():
            channel.stop_consumers()
        for channel in channels.values():
            channel.release()
        owned, self.owned = self.owned, None
        if owned:
            for queue in owned.values():
                if queue.is_alive:
                    self.vhost.delete_queue(queue.name)


def _no_channel(number: int) -> ConnectionError:
    return ConnectionError(CHANNEL_ERROR, f"expected 'channel.open' on channel {number}")
