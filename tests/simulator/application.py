"""An application: one connection to one broker, which asks one thing at a time and remembers since when."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.peer import Peer
from openclust.wire.codec import decode_method, method_frame
from openclust.wire.errors import ACCESS_REFUSED
from openclust.wire.frames import FRAME_BODY, FRAME_HEADER, FRAME_MIN, PROTOCOL_HEADER, content_frames
from openclust.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
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
)
from openclust.wire.properties import Properties, encode_header
from openclust.wire.table import Table
from tests.simulator.heard import frames
from tests.simulator.invariants import Violation

if TYPE_CHECKING:
    from tests.simulator.host import Host
    from tests.simulator.nodes import Nodes

KNOWN_MAX = 10_000
_PEER = Peer("application", 1, True)
_CAPABILITIES: Table = dict.fromkeys(("consumer_cancel_notify", "connection.blocked", "basic.nack"), True)
_OPENING = PROTOCOL_HEADER + b"".join(
    method_frame(0, each)
    for each in (
        ConnectionStartOk(
            client_properties={"capabilities": _CAPABILITIES}, mechanism="PLAIN", response=b"\0guest\0x", locale="en_US"
        ),
        ConnectionTuneOk(channel_max=2_047, frame_max=131_072, heartbeat=0),
        ConnectionOpen(virtual_host="/", insist=True),
    )
)
_NO_PROPERTIES = Properties()
_HANDSHAKE = (ConnectionStart, ConnectionTune, ConnectionOpenOk, ConnectionBlocked, ConnectionUnblocked)


@lru_cache(maxsize=KNOWN_MAX)
def _decoded(payload: bytes) -> Method:
    """Nobody changes a method, and most that brokers say they say often."""
    return decode_method(payload)


@lru_cache(maxsize=KNOWN_MAX)
def _publish(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    return method_frame(1, BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=mandatory))


class Application:
    """What kinds of applications do is in `workload.py`: they are told of answers, deliveries, and the next moment."""

    def __init__(self, world: Nodes, host: Host) -> None:
        self.world = world
        self.host = host
        self.chance = world.chance
        self.is_open = True
        self.asked: Method | None = None
        self.asked_us = 0
        self.stalled_us = 0
        self._life = host.life
        self._said_us = 0
        self._content: BasicDeliver | BasicGetOk | BasicReturn | None = None
        self.header = b""
        self.connection = Connection(host.running.broker, _PEER, self)
        host.applications[self] = None
        self.say(_OPENING)
        self.ask(ChannelOpen())

    # -- what it says

    def say(self, data: bytes) -> None:
        """These bytes reach the broker soon, in order."""
        world, host = self.world, self.host
        self._said_us = max(world.now_us + self.chance.randint(30, 300), self._said_us + 1)
        receive = lambda now_ms: host.running.receive(self.connection, data, now_ms)  # noqa: E731
        world.at(self._said_us, lambda: world.give(host, self._life, receive))

    def ask(self, method: Method) -> None:
        """Say something that must be answered, or refused, in a bounded time."""
        assert self.asked is None, "one thing at a time"
        self.asked = method
        self.waits_anew()
        if self.world.tell is not None:
            self.world.note(self.host.name, f"is asked {method}")
        self.say(method_frame(1, method))

    def waits_anew(self) -> None:
        self.asked_us = self.world.now_us
        self.stalled_us = self.host.stalled_us

    def publish(
        self, exchange: str, routing_key: str, *, mandatory: bool = False, properties: Properties = _NO_PROPERTIES
    ) -> bytes:
        """The message's body."""
        body, data = self._written(exchange, routing_key, mandatory, properties)
        self.say(data)
        return body

    def publish_at_once(self, exchange: str, routing_key: str, count: int) -> list[bytes]:
        """The bodies of so many messages, which reach the broker together."""
        written = [self._written(exchange, routing_key, False, _NO_PROPERTIES) for _ in range(count)]
        self.say(b"".join(data for _, data in written))
        return [body for body, _ in written]

    def _written(self, exchange: str, routing_key: str, mandatory: bool, properties: Properties) -> tuple[bytes, bytes]:
        """The body of a new message, and its frames."""
        body = self.world.ledger.publish(self.host.name)
        if self.world.tell is not None:
            self.world.note(self.host.name, f"is given {body!r} for {exchange!r}, {routing_key!r}")
        header = encode_header(properties, len(body))
        return body, _publish(exchange, routing_key, mandatory) + content_frames(1, header, body, FRAME_MIN)

    # -- what it hears

    def hear(self, data: bytes) -> None:
        for kind, channel, payload in frames(data):
            if kind == FRAME_BODY:
                assert self._content is not None, "content after its method"
                content, self._content = self._content, None
                self.delivered(content, payload)
            elif kind == FRAME_HEADER:
                assert self._content is not None, "content after its method"
                self.header = payload
            elif channel:
                self._method(_decoded(payload))
            else:
                self._connection_method(_decoded(payload))

    def _connection_method(self, method: Method) -> None:
        if isinstance(method, ConnectionClose):
            if method.reply_code == ACCESS_REFUSED or 500 <= method.reply_code < 506:
                raise Violation(f"{self.host.name} closes an application's connection: {method}")
            self.gone()
            self.say(method_frame(0, ConnectionCloseOk()))
        elif isinstance(method, ConnectionCloseOk):
            self.gone()
        elif not isinstance(method, _HANDSHAKE):
            raise Violation(f"{self.host.name} says to an application {method}")

    def _method(self, method: Method) -> None:
        match method:
            case BasicDeliver() | BasicGetOk() | BasicReturn():
                self._content = method
                if isinstance(method, BasicGetOk):
                    self._answered(method)
            case BasicAck() | BasicNack():
                self.confirmed(method)
            case BasicCancel():
                self.cancelled()
            case ChannelClose():
                self.refused(method)
            case _:
                self._answered(method)

    def _answered(self, method: Method) -> None:
        asked, self.asked = self.asked, None
        if not self.is_open:
            return
        if asked is None:
            raise Violation(f"{self.host.name} answers what was not asked: {method}")
        if self.world.tell is not None:
            self.world.note(self.host.name, f"answers {method}")
        self.answered(asked, method)

    def close(self) -> None:
        """Say goodbye; what was asked is not waited for."""
        self.asked = None
        self.is_open = False
        self.say(method_frame(0, ConnectionClose()))

    @property
    def is_lost(self) -> bool:
        """Nobody is connected any more, whether that was said or not."""
        return not self.is_open or self.host.life != self._life

    def gone(self) -> None:
        self.asked = None
        self.is_open = False

    # -- for the kinds

    def act(self) -> None:
        """Do something, if there is nothing to wait for."""

    def answered(self, asked: Method, answer: Method) -> None:
        """The broker has done what it was asked."""

    def refused(self, close: ChannelClose) -> None:
        """The broker has closed the channel; it is opened anew."""
        self.asked = None
        if self.world.tell is not None:
            self.world.note(self.host.name, f"refuses: {close.reply_code} {close.reply_text}")
        self.say(method_frame(1, ChannelCloseOk()))
        if self.is_open:
            self.ask(ChannelOpen())

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        """A message has come; its properties are in `header`."""

    def confirmed(self, method: BasicAck | BasicNack) -> None:
        """Messages were taken, or not."""

    def cancelled(self) -> None:
        """The broker has cancelled its consumer."""

    def since_us(self) -> int | None:
        """Since when it waits for an answer; None where it does not."""
        return self.asked_us if self.asked is not None else None
