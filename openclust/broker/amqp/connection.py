"""A client's connection: bytes in, frames out, and the channels between.

How it begins is in `login.py`, what comes of all but the hot path's frames in `frame_dispatch.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from openclust.broker.amqp import content, login
from openclust.broker.amqp import frame_dispatch as intake
from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.model.access import User
from openclust.broker.model.effects import CloseTransport, Resume
from openclust.broker.model.peer import Peer
from openclust.broker.routing.route import Route
from openclust.wire.codec import decode_method, method_frame, method_id
from openclust.wire.errors import (
    ACCESS_REFUSED,
    CONNECTION_FORCED,
    ChannelError,
    ConnectionError,
    cut,
)
from openclust.wire.frames import FRAME_MIN
from openclust.wire.handshake import State
from openclust.wire.methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
)
from openclust.wire.properties import content_header
from openclust.wire.reader import FrameReader
from openclust.wire.sasl import PEER
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost

Hold = Literal["", "login", "proxy", "memory", "turn", "cluster"]
"""Why a connection's input waits."""

_NO_PROPERTIES: Table = {}


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
        "told_blocked",
        "transport",
        "user",
        "vhost",
    )

    user: User
    vhost: VirtualHost

    def __init__(self, broker: Broker, peer: Peer, transport: object = None) -> None:
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
        self.told_blocked = False
        broker.connections[self] = None

    # -- bytes in

    def receive(self, data: bytes) -> None:
        """Take bytes from the peer. `broker.now_ms` must be up to date."""
        state = self.state
        if state is State.GREETING:
            login.greet(self, data)
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
            # Only where no channel was there to close.
            self.fail(ConnectionError(error.code, error.text), 0, 0)

    def on_publish(self, number: int, arguments: bytes, header: bytes, body: bytes) -> bool:
        channel = self.channels.get(number)
        if channel is None or channel.state != OPEN or channel.incoming is not None:
            intake.misplaced_publish(self, number, channel)
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
                intake.connection_method(self, decode_method(payload))
            elif self.state is not State.CLOSING:
                return intake.channel_method(self, number, payload)
        except ConnectionError as error:
            self.fail(error, *method_id(payload))
        return True

    def on_header(self, number: int, payload: bytes) -> bool:
        if self.hold:
            return False
        channel = intake.channel_for_content(self, number)
        if channel is not None:
            content.take_header(channel, payload)
        return True

    def on_body(self, number: int, payload: bytes) -> bool:
        if self.hold:
            return False
        channel = intake.channel_for_content(self, number)
        if channel is not None:
            content.take_body(channel, payload)
        return True

    # -- waiting

    def must_wait(self) -> bool:
        """Whether a publish must wait: for memory, or for the turn's outboxes to be written."""
        if self.peer.is_peer:
            # Brokers speak of more than messages here: they are asked to hold back in other ways.
            return False
        self.published = True
        broker = self.broker
        if broker.books.alarm:
            self.hold = "memory"
            self.tell_blocked(True, broker.books.reason)
            return True
        if broker.turn_bytes > broker.limits.turn_bytes_max:
            self.hold = "turn"
            broker.turn_waiters.append(self)
            return True
        return False

    def wait(self, hold: Hold) -> None:
        """Take no more of what the client says, until it is released."""
        if not self.hold:
            self.hold = hold

    def release_from(self, hold: Hold) -> None:
        if self.hold == hold and self.state is not State.CLOSED:
            self.release()

    def release(self) -> None:
        """What the connection was held for is over."""
        if self.hold:
            self.hold = ""
            self.broker.effects.append(Resume(self))

    def tell_blocked(self, blocked: bool, reason: str = "") -> None:
        if blocked is self.told_blocked or self.state is not State.OPEN or not self.can("connection.blocked"):
            return
        self.told_blocked = blocked
        self.send(method_frame(0, ConnectionBlocked(reason=reason) if blocked else ConnectionUnblocked()))

    # -- bytes out

    def send(self, data: bytes) -> None:
        if self.state is State.CLOSED:
            return
        if not self.out:
            self.broker.dirty.append(self)
        self.out.append(data)

    def count_out(self, size: int) -> None:
        """Say that `size` bytes of deliveries went to the outbox: past its mark, deliveries pause."""
        self.out_bytes += size
        if self.out_bytes > self.broker.limits.outbox_bytes_max and not self.paused:
            self.pause()

    def flushed(self, pending_bytes: int) -> None:
        """The outbox was handed to the socket, which still holds back so many bytes."""
        self.broker.books.outbox_bytes += pending_bytes - self.pending_bytes
        self.pending_bytes = self.out_bytes = pending_bytes
        limit = self.broker.limits.outbox_bytes_max
        if not self.paused:
            if pending_bytes > limit:
                self.pause()
        elif pending_bytes <= limit // 2:
            self.paused = False
            channels = self.channels
            if len(channels) > 1:
                # Who comes first may fill the outbox again: next time that is another.
                first = next(iter(channels))
                channels[first] = channels.pop(first)
            for channel in list(channels.values()):
                channel.wake_consumers()
                if self.paused:
                    break

    def pause(self) -> None:
        self.paused = True
        for channel in self.channels.values():
            channel.rest_consumers()

    # -- permissions

    def demand(self, action: Literal["configure", "write", "read"], resource: str) -> None:
        """Raise 403 where the user may not do `action` to the exchange or queue `resource`."""
        # In patterns and texts the default exchange goes by this name.
        resource = resource or "amq.default"
        if not self.user.may(action, self.vhost.name, resource):
            text = f"{action} access to '{resource}' in vhost '{self.vhost.name}' refused for user '{self.user.name}'"
            raise ChannelError(ACCESS_REFUSED, text)

    @property
    def was_open(self) -> bool:
        """Whether it ever got in."""
        return hasattr(self, "vhost")

    @property
    def known_user(self) -> User | None:
        """Who has logged in; None before that."""
        return getattr(self, "user", None)

    @property
    def client_name(self) -> str:
        """What the client calls this connection; empty where it gives it no name."""
        name = self.client_properties.get("connection_name")
        return cut(name) if isinstance(name, str) else ""

    def can(self, capability: str) -> bool:
        """Whether the client announced a capability."""
        capabilities = self.client_properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(capability) is True

    # -- what it owns

    def own(self, queue: Queue) -> None:
        if self.owned is None:
            self.owned = {}
        self.owned[queue.name] = queue

    def disown(self, queue: Queue) -> None:
        if self.owned is not None:
            self.owned.pop(queue.name, None)

    def forget_channel(self, channel: Channel) -> None:
        self.channels.pop(channel.number, None)

    # -- the end

    def fail(self, error: ConnectionError, class_id: int, method_id: int) -> None:
        """Close the connection for an error; afterwards only the peer's close-ok counts."""
        if self.state in (State.CLOSING, State.CLOSED):
            return
        level: Literal["info", "warning"] = "info" if error.code == CONNECTION_FORCED else "warning"
        if not self.was_open and (self.peer.is_peer or self.mechanism == PEER):
            # It dials again and again, with the same mistake.
            self.broker.note_again(level, "a broker was refused", self, error.text)
        else:
            self.broker.note(level, "connection closed for an error", self, text=error.reply_text)
        self.close(error.code, error.reply_text, class_id, method_id)

    def close(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """Send connection.close; what the connection holds is given back now."""
        for channel in self.channels.values():
            channel.send_confirms()
        self.release_all()
        # What comes behind a waiting publish is still to be read: the peer's answer is in it.
        self.release()
        self.state = State.CLOSING
        method = ConnectionClose(
            reply_code=code, reply_text=cut(text), failing_class_id=class_id, failing_method_id=method_id
        )
        self.send(method_frame(0, method))
        self.broker.closing.append(self)

    def end(self, close_ok: bytes = b"") -> None:
        """Nothing more will be said but `close_ok`: write what is in the outbox and close."""
        self.release_all()
        self.state = State.CLOSED
        self.broker.effects.append(CloseTransport(self, close_ok))

    def say_last(self, close_ok: bytes) -> None:
        """Put the answer to connection.close into the outbox; for whoever performs `CloseTransport`."""
        if close_ok:
            if not self.out:
                self.broker.dirty.append(self)
            self.out.append(close_ok)

    def lost(self) -> None:
        """The transport is gone."""
        self.release_all()
        self.state = State.CLOSED
        self.broker.books.outbox_bytes -= self.pending_bytes
        self.pending_bytes = 0
        self.out.clear()
        self.broker.connections.pop(self, None)
        # The reader knows the connection: without the circle, both go at once and wait for no garbage collector.
        del self.reader

    def release_all(self) -> None:
        """Give back channels and exclusive queues."""
        channels, self.channels = self.channels, {}
        # All of them first: what one returns must not go to another.
        for channel in channels.values():
            channel.stop_consumers()
        for channel in channels.values():
            channel.release()
        owned, self.owned = self.owned, None
        if owned:
            for queue in owned.values():
                if queue.is_alive:
                    self.vhost.delete_queue(queue.name)
