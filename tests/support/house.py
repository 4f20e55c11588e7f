"""A real broker without a socket, driven as the shell drives it: bytes in, effects performed, outboxes emptied."""

from __future__ import annotations

from itertools import count
from typing import assert_never

from openclust.broker.access import Permission, User
from openclust.broker.broker import Broker
from openclust.broker.connection import Connection
from openclust.broker.effects import CheckLogin, CloseTransport, Note, Proxy, Resume, StartHeartbeats
from openclust.broker.limits import Limits
from openclust.broker.login import checked, stay
from openclust.broker.peer import Peer
from openclust.wire.codec import method_frame
from openclust.wire.frames import PROTOCOL_HEADER
from openclust.wire.methods import ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, Method
from openclust.wire.table import Table

TURNS_MAX = 1_000
PASSWORDS = {name: name.encode() for name in ("guest", "neighbour", "reader")}
"""The users of every house: `guest` and `neighbour` may do everything, `reader` only read."""


class Line:
    """The far end of one connection: what was written to it, and how much of that it has not taken."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_stalled = False
        self.is_finished = False
        self.pending_bytes = 0
        self.notes: list[Note] = []

    def take(self) -> bytes:
        """All that was written since the last call."""
        data = b"".join(self.written)
        self.written.clear()
        return data


class House:
    """Call `feed`, then `turn`; read `line(connection).take()`."""

    def __init__(self, limits: Limits | None = None, *, memory_high_bytes: int = 2**40) -> None:
        numbers = count(1)
        self.broker = Broker(
            limits or Limits(), random_name=lambda: f"name-{next(numbers)}", memory_high_bytes=memory_high_bytes
        )
        self.broker.now_ms = 1_000
        everything = Permission(configure=".*", write=".*", read=".*")
        for name in ("guest", "neighbour"):
            self.broker.put_user(User(name=name, permissions={"/": everything}))
        self.broker.put_user(User(name="reader", permissions={"/": Permission(read=".*")}))
        self.notes: list[Note] = []

    # -- connections

    def connect(self) -> Connection:
        connection = Connection(self.broker, Peer("127.0.0.1", 1, True), Line())
        return connection

    def log_in(self, *, user: str = "guest", frame_max: int = 131_072, properties: Table | None = None) -> Connection:
        """A connection that is open, with channel 1."""
        connection = self.connect()
        self.feed(
            connection, greeting(user=user, frame_max=frame_max, properties=properties) + method_frame(1, ChannelOpen())
        )
        self.turn()
        return connection

    @staticmethod
    def line(connection: Connection) -> Line:
        assert isinstance(connection.transport, Line)
        return connection.transport

    def feed(self, connection: Connection, data: bytes) -> None:
        """Bytes from the peer. A socket that is not read keeps them; call this only where `reads(connection)`."""
        connection.receive(data)

    def send(self, connection: Connection, *methods: Method, channel: int = 1) -> None:
        self.feed(connection, b"".join(method_frame(channel, method) for method in methods))
        self.turn()

    @staticmethod
    def reads(connection: Connection) -> bool:
        """Whether the shell would read its socket now."""
        return not connection.hold

    def lose(self, connection: Connection) -> None:
        """The peer's socket is gone."""
        if connection in self.broker.connections:
            self.broker.connection_lost(connection)

    # -- turns

    def turn(self) -> None:
        """Turn until nothing is left to do."""
        broker = self.broker
        for _ in range(TURNS_MAX):
            self._turn()
            if not (broker.dirty or broker.effects or broker.dead_letters or broker.confirming):
                return
        raise AssertionError(f"the broker is still busy after {TURNS_MAX} turns")

    def _turn(self) -> None:
        broker = self.broker
        broker.settle()
        effects, broker.effects = broker.effects, []
        for effect in effects:
            match effect:
                case Note():
                    self.notes.append(effect)
                case CheckLogin():
                    password = PASSWORDS.get(effect.credentials.name)
                    is_right = password is not None and password == effect.credentials.password
                    user = broker.users[effect.credentials.name] if is_right else None
                    checked(effect.connection, effect.credentials, user)
                case CloseTransport():
                    effect.connection.say_last(effect.close_ok)
                    self.flush(effect.connection)
                    self.line(effect.connection).is_finished = True
                case Proxy():
                    stay(effect.connection, effect.open)
                case StartHeartbeats():
                    assert effect.interval_s > 0
                case Resume():
                    effect.connection.receive(b"")
                case _:
                    assert_never(effect)
        dirty, broker.dirty = broker.dirty, []
        for connection in dirty:
            self.flush(connection)
        broker.turn_done()
        broker.closing.clear()

    def flush(self, connection: Connection) -> None:
        line = self.line(connection)
        data = b"".join(connection.out)
        connection.out.clear()
        connection.bulky = False
        if connection not in self.broker.connections or not data:
            return
        line.written.append(data)
        if line.is_stalled:
            line.pending_bytes += len(data)
        if line.pending_bytes or connection.out_bytes:
            connection.flushed(line.pending_bytes)

    def stall(self, connection: Connection) -> None:
        """The peer takes nothing more from its socket, for now."""
        self.line(connection).is_stalled = True

    def drain(self, connection: Connection) -> None:
        """The peer takes all that waits for it."""
        line = self.line(connection)
        line.is_stalled = False
        if line.pending_bytes and connection in self.broker.connections:
            line.pending_bytes = 0
            connection.flushed(0)

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.broker.tick(self.broker.now_ms + ms)
        self.turn()


def start_ok(properties: Table | None = None, response: bytes = b"\0guest\0guest") -> bytes:
    capabilities: Table = dict.fromkeys(("consumer_cancel_notify", "connection.blocked"), True)
    given: Table = {"capabilities": capabilities}
    method = ConnectionStartOk(
        client_properties=given if properties is None else properties,
        mechanism="PLAIN",
        response=response,
        locale="en_US",
    )
    return method_frame(0, method)


def greeting(
    *, user: str = "guest", frame_max: int = 131_072, channel_max: int = 0, properties: Table | None = None
) -> bytes:
    """All that a client says until its connection is open."""
    return b"".join(
        (
            PROTOCOL_HEADER,
            start_ok(properties, b"\0%b\0%b" % (user.encode(), PASSWORDS[user])),
            method_frame(0, ConnectionTuneOk(channel_max=channel_max, frame_max=frame_max, heartbeat=0)),
            method_frame(0, ConnectionOpen()),
        )
    )
