"""A client in memory: it speaks to a broker without a socket, and is the far end of its connection."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import Any, TypeVar

import msgspec

from openclust.broker.amqp.connection import Connection
from openclust.broker.journal.journal import Journal
from openclust.broker.model.access import Permission, User
from openclust.broker.model.effects import CheckLogin, Note, Proxy
from openclust.broker.model.limits import Limits
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.wire.codec import decode_method, method_frame
from openclust.wire.frames import (
    ENVELOPE,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
    frame,
)
from openclust.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from openclust.wire.properties import PREAMBLE, Properties, decode_properties, encode_header
from openclust.wire.table import Table
from tests.support.driver import turn

T = TypeVar("T", bound=Method)

EVERYTHING = Permission(configure=".*", write=".*", read=".*")
CAPABILITIES = ("consumer_cancel_notify", "connection.blocked", "authentication_failure_close", "basic.nack")
PASSWORD = b"right"
START_MS = 1_000_000


class Delivery(msgspec.Struct):
    """A message as it came, by deliver, get-ok or return."""

    channel: int
    method: BasicDeliver | BasicGetOk | BasicReturn
    properties: Properties
    body: bytes
    size: int

    @property
    def tag(self) -> int:
        assert isinstance(self.method, BasicDeliver | BasicGetOk), "a return has no tag"
        return self.method.delivery_tag

    @property
    def redelivered(self) -> bool:
        assert isinstance(self.method, BasicDeliver | BasicGetOk), "a return is no delivery"
        return self.method.redelivered

    @property
    def headers(self) -> Table:
        return self.properties.headers or {}


class Closed(msgspec.Struct, frozen=True):
    """How the broker closed a channel or the connection."""

    code: int
    by: tuple[int, int]
    text: str


def new_broker(*, memory_high_bytes: int = 2**40, journal: Journal | None = None, **limits: Any) -> Broker:
    """A broker with a clock that stands still, names that count, and two users who may do everything."""
    numbers = count(1)
    broker = Broker(
        Limits(**limits),
        random_name=lambda: f"name-{next(numbers)}",
        memory_high_bytes=memory_high_bytes,
        journal=journal,
    )
    broker.now_ms = START_MS
    for name in ("guest", "other"):
        broker.put_user(User(name=name, permissions={"/": EVERYTHING}))
    return broker


class Client:
    """One connection, open and with channel 1 unless `log_in` is False. Every call runs the broker until it rests."""

    def __init__(
        self,
        broker: Broker,
        user: str = "guest",
        *,
        vhost: str = "/",
        capabilities: Iterable[str] = CAPABILITIES,
        frame_max: int = 0,
        channel_max: int = 0,
        heartbeat_s: int = 0,
        is_loopback: bool = True,
        log_in: bool = True,
        properties: Table | None = None,
        is_tls: bool = False,
    ) -> None:
        self.broker = broker
        self.user = user
        self.properties: Table = properties or {}
        self.capabilities: Table = dict.fromkeys(capabilities, True)
        self.replies: dict[int, deque[Method]] = {}
        self.deliveries_of: dict[int, list[Delivery]] = {}
        self.returns: list[Delivery] = []
        self.confirms: list[Method] = []
        self.cancelled: list[str] = []
        self.blocked: list[Method] = []
        self.proxy: Proxy | None = None
        self.notes: list[Note] = []
        self.closed: Closed | None = None
        self.raw = b""
        self.largest_frame = 0
        # The far end of the socket: what it has not read, and what the broker does not read.
        self.is_reading = True
        self.is_heard = True
        self.is_finished = False
        self.unread = b""
        self.unheard = b""
        self._content: tuple[int, BasicDeliver | BasicGetOk | BasicReturn] | None = None
        self._header = b""
        self._body = b""
        self._size = 0
        self.connection = Connection(broker, Peer("127.0.0.1", 1, is_loopback, is_tls=is_tls), self)
        if log_in:
            self.log_in(vhost=vhost, frame_max=frame_max, channel_max=channel_max, heartbeat_s=heartbeat_s)
            self.call(ChannelOpen(), ChannelOpenOk)

    # -- the handshake

    def start(self, password: bytes = PASSWORD, *, mechanism: str = "PLAIN") -> Method:
        """Protocol header and start-ok; what the broker says to that."""
        self.feed(PROTOCOL_HEADER)
        self.reply(0, ConnectionStart)
        response = b"\0%b\0%b" % (self.user.encode(), password)
        start_ok = ConnectionStartOk(
            client_properties={"capabilities": self.capabilities, **self.properties},
            mechanism=mechanism,
            response=response,
            locale="en_US",
        )
        reply: Method = self.call(start_ok, channel=0)
        return reply

    def log_in(self, *, vhost: str = "/", frame_max: int = 0, channel_max: int = 0, heartbeat_s: int = 0) -> None:
        tune = self.start()
        assert isinstance(tune, ConnectionTune), tune
        tune_ok = ConnectionTuneOk(
            channel_max=channel_max or tune.channel_max,
            frame_max=frame_max or tune.frame_max,
            heartbeat=heartbeat_s,
        )
        self.send(tune_ok, channel=0)
        self.call(ConnectionOpen(virtual_host=vhost), ConnectionOpenOk, channel=0)

    def close(self) -> None:
        """Say goodbye, and close the socket."""
        if self.closed is None and not self.is_finished:
            self.call(ConnectionClose(), ConnectionCloseOk, channel=0)
        self.lose()

    def lose(self) -> None:
        """The socket is gone."""
        if self.connection in self.broker.connections:
            self.broker.connection_lost(self.connection)
        turn(self.broker)
        self.connection.transport = None

    # -- what it says

    def feed(self, data: bytes) -> None:
        """These bytes reach the broker, now or when it reads again."""
        if not self.is_heard:
            self.unheard += data
            return
        self.connection.receive(data)
        self.is_heard = not self.connection.hold
        turn(self.broker)

    def finish(self) -> None:
        self.is_finished = True

    def knows(self, effect: CheckLogin) -> bool:
        return effect.credentials.password == PASSWORD

    def proxied(self, effect: Proxy) -> None:
        self.proxy = effect

    def noted(self, note: Note) -> None:
        self.notes.append(note)

    def resume(self) -> None:
        """The broker reads again."""
        self.is_heard = True
        data, self.unheard = self.unheard, b""
        self.connection.receive(data)
        self.is_heard = not self.connection.hold

    def send(self, *methods: Method, channel: int = 1) -> None:
        self.feed(b"".join(method_frame(channel, method) for method in methods))

    def call(self, method: Method, want: type[T] | None = None, *, channel: int = 1) -> Any:
        """Send a method; its answer, which must be a `want`."""
        self.send(method, channel=channel)
        return self.reply(channel, want)

    def reply(self, channel: int = 1, want: type[T] | None = None) -> Any:
        """The next answer on a channel."""
        replies = self.replies.get(channel)
        assert replies, f"no answer on channel {channel}; the connection was closed: {self.closed}"
        method = replies.popleft()
        assert want is None or isinstance(method, want), f"wanted a {want}, got {method}"
        return method

    def error(self, *methods: Method, channel: int = 1) -> Closed:
        """Send methods for which the channel is closed; it is open again afterwards."""
        self.send(*methods, channel=channel)
        return self.channel_error(channel)

    def channel_error(self, channel: int = 1) -> Closed:
        """How the channel was closed; it is open again afterwards."""
        assert self.closed is None, f"the connection was closed instead: {self.closed}"
        replies = self.replies.get(channel, deque())
        while replies and not isinstance(replies[0], ChannelClose):
            replies.popleft()
        close = self.reply(channel, ChannelClose)
        self.send(ChannelCloseOk(), channel=channel)
        self.call(ChannelOpen(), ChannelOpenOk, channel=channel)
        return _closed(close)

    def hard_error(self, *methods: Method, channel: int = 1) -> Closed:
        """Send methods for which the connection is closed."""
        self.send(*methods, channel=channel)
        assert self.closed is not None, "the connection lives"
        return self.closed

    def open_channel(self, channel: int) -> None:
        self.call(ChannelOpen(), ChannelOpenOk, channel=channel)

    def publish(
        self,
        routing_key: str,
        body: bytes = b"",
        *,
        exchange: str = "",
        channel: int = 1,
        mandatory: bool = False,
        pieces: int = 0,
        **properties: Any,
    ) -> None:
        """Publish a message; with `pieces`, in body frames of that size, each frame in a read of its own."""
        frames = _publish_frames(channel, exchange, routing_key, mandatory, body, pieces, properties)
        if pieces:
            for each in frames:
                self.feed(each)
        else:
            self.feed(b"".join(frames))

    def queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        **arguments: Any,
    ) -> str:
        """Declare a queue; `x_message_ttl=5` is the argument `x-message-ttl`. Its name."""
        table = {key.replace("_", "-"): value for key, value in arguments.items()}
        method = QueueDeclare(
            queue=name, durable=durable, exclusive=exclusive, auto_delete=auto_delete, arguments=table
        )
        ok: QueueDeclareOk = self.call(method, QueueDeclareOk)
        return ok.queue

    def count(self, queue: str) -> int:
        """How many messages wait in a queue."""
        ok: QueueDeclareOk = self.call(QueueDeclare(queue=queue, passive=True), QueueDeclareOk)
        return ok.message_count

    def consumers(self, queue: str) -> int:
        ok: QueueDeclareOk = self.call(QueueDeclare(queue=queue, passive=True), QueueDeclareOk)
        return ok.consumer_count

    def bind(self, queue: str, exchange: str, routing_key: str = "", **arguments: Any) -> None:
        method = QueueBind(queue=queue, exchange=exchange, routing_key=routing_key, arguments=arguments)
        self.call(method, QueueBindOk)

    def consume(
        self, queue: str, tag: str = "", *, channel: int = 1, no_ack: bool = False, exclusive: bool = False, **args: Any
    ) -> str:
        table = {key.replace("_", "-"): value for key, value in args.items()}
        method = BasicConsume(queue=queue, consumer_tag=tag, no_ack=no_ack, exclusive=exclusive, arguments=table)
        ok: BasicConsumeOk = self.call(method, BasicConsumeOk, channel=channel)
        return ok.consumer_tag

    def ack(self, *tags: int, multiple: bool = False, channel: int = 1) -> None:
        self.send(*(BasicAck(delivery_tag=tag, multiple=multiple) for tag in tags), channel=channel)

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True, channel: int = 1) -> None:
        self.send(BasicNack(delivery_tag=tag, multiple=multiple, requeue=requeue), channel=channel)

    def get(self, queue: str, *, no_ack: bool = True, channel: int = 1) -> Delivery | None:
        """The next message of a queue."""
        self.send(BasicGet(queue=queue, no_ack=no_ack), channel=channel)
        if self.replies.get(channel) and isinstance(self.replies[channel][0], BasicGetEmpty):
            self.reply(channel)
            return None
        got = self.deliveries(channel)
        assert got, f"neither a message nor get-empty; closed: {self.closed}, replies: {self.replies.get(channel)}"
        return got[-1]

    # -- what it hears

    def deliveries(self, channel: int = 1) -> list[Delivery]:
        """The messages that came on a channel since the last call."""
        return self.deliveries_of.pop(channel, [])

    def bodies(self, channel: int = 1) -> list[bytes]:
        return [each.body for each in self.deliveries(channel)]

    def stop_reading(self) -> None:
        """Its socket takes no more bytes."""
        self.is_reading = False

    def read_on(self) -> None:
        """It reads its socket again, all that is there."""
        self.is_reading = True
        data, self.unread = self.unread, b""
        self._hear(data)
        if self.connection in self.broker.connections:
            self.connection.flushed(0)
        turn(self.broker)

    def read_once(self) -> None:
        """It reads what waits for it, and then again nothing."""
        data, self.unread = self.unread, b""
        self._hear(data)
        self.connection.flushed(0)
        turn(self.broker)

    def flush(self) -> None:
        """The shell's part: take what is in the outbox."""
        connection = self.connection
        data = b"".join(connection.out)
        connection.out.clear()
        connection.bulky = False
        if connection not in self.broker.connections:
            return
        assert not self.is_finished or not data, "a word after the last"
        if self.is_reading:
            self._hear(data)
        else:
            self.unread += data
        if self.unread or connection.out_bytes:
            connection.flushed(len(self.unread))

    def _hear(self, data: bytes) -> None:
        self.raw += data
        if self.raw.startswith(b"AMQP"):
            return
        at = 0
        while len(self.raw) - at >= 8:
            kind, channel, size = ENVELOPE.unpack_from(self.raw, at)
            payload = self.raw[at + 7 : at + 7 + size]
            assert self.raw[at + 7 + size] == 0xCE, "a frame end"
            self.largest_frame = max(self.largest_frame, size + 8)
            self._frame(kind, channel, payload)
            at += size + 8
        assert at == len(self.raw), "whole frames"
        self.raw = b""

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == FRAME_HEARTBEAT:
            return
        if kind == FRAME_METHOD:
            assert self._content is None, "a method between a method and its content"
            self._method(channel, decode_method(payload))
            return
        assert self._content is not None and self._content[0] == channel, "content without its method"
        if kind == FRAME_HEADER:
            self._header, self._body = payload, b""
            self._size = PREAMBLE.unpack_from(payload)[2]
        else:
            assert kind == FRAME_BODY
            self._body += payload
        if len(self._body) == self._size:
            method = self._content[1]
            self._content = None
            delivery = Delivery(channel, method, decode_properties(self._header), self._body, self._size)
            if isinstance(method, BasicReturn):
                self.returns.append(delivery)
            else:
                self.deliveries_of.setdefault(channel, []).append(delivery)

    def _method(self, channel: int, method: Method) -> None:
        assert self.closed is None or isinstance(method, ConnectionCloseOk), f"{method} after connection.close"
        match method:
            case BasicDeliver() | BasicGetOk() | BasicReturn():
                self._content = (channel, method)
            case BasicAck() | BasicNack():
                self.confirms.append(method)
            case BasicCancel():
                self.cancelled.append(method.consumer_tag)
            case ConnectionBlocked() | ConnectionUnblocked():
                self.blocked.append(method)
            case ConnectionClose():
                self.closed = _closed(method)
            case ConnectionCloseOk() if self.closed is not None:
                pass
            case _:
                self.replies.setdefault(channel, deque()).append(method)


def publish_frames(routing_key: str, body: bytes = b"", *, exchange: str = "", **properties: Any) -> bytes:
    """A publish on channel 1, as bytes."""
    return b"".join(_publish_frames(1, exchange, routing_key, False, body, 0, properties))


def _publish_frames(
    channel: int, exchange: str, routing_key: str, mandatory: bool, body: bytes, pieces: int, properties: dict[str, Any]
) -> list[bytes]:
    method = BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    header = encode_header(Properties(**properties), len(body))
    step = pieces or max(1, len(body))
    return [
        method_frame(channel, method),
        frame(FRAME_HEADER, channel, header),
        *(frame(FRAME_BODY, channel, body[at : at + step]) for at in range(0, len(body), step)),
    ]


def _closed(close: ChannelClose | ConnectionClose) -> Closed:
    return Closed(close.reply_code, (close.failing_class_id, close.failing_method_id), close.reply_text)
