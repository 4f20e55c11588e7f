"""A real broker without a socket, driven as the shell drives it: bytes in, effects performed, outboxes emptied."""

from __future__ import annotations

from itertools import count

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.access import Permission, User
from openclust.broker.model.effects import CheckLogin, Note, Proxy
from openclust.broker.model.limits import Limits
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.wire.codec import method_frame
from openclust.wire.frames import PROTOCOL_HEADER
from openclust.wire.methods import ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk, Method
from openclust.wire.table import Table
from tests.support.driver import Driver

PASSWORDS = {name: name.encode() for name in ("guest", "neighbour", "reader")}
"""The users of every house: `guest` and `neighbour` may do everything, `reader` only read."""


class Line:
    """The far end of one connection: what was written to it, and how much of that it has not taken."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.connection: Connection | None = None
        self.written: list[bytes] = []
        self.is_stalled = False
        self.is_finished = False
        self.pending_bytes = 0
        self.notes: list[Note] = []

    def flush(self) -> None:
        assert self.connection is not None
        connection = self.connection
        data = b"".join(connection.out)
        connection.out.clear()
        connection.bulky = False
        if connection not in self.house.broker.connections or not data:
            return
        self.written.append(data)
        if self.is_stalled:
            self.pending_bytes += len(data)
        if self.pending_bytes or connection.out_bytes:
            connection.flushed(self.pending_bytes)

    def finish(self) -> None:
        self.is_finished = True

    def resume(self) -> None:
        assert self.connection is not None
        self.connection.receive(b"")

    def knows(self, effect: CheckLogin) -> bool:
        password = PASSWORDS.get(effect.credentials.name)
        return password is not None and password == effect.credentials.password

    def proxied(self, effect: Proxy) -> None:
        effect.connection.stay(effect.open)

    def noted(self, note: Note) -> None:
        self.notes.append(note)

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
        self.driver = Driver(self.broker)
        self.driver.on_note = self.notes.append

    # -- connections

    def connect(self) -> Connection:
        line = Line(self)
        line.connection = Connection(self.broker, Peer("127.0.0.1", 1, True), line)
        return line.connection

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
        self.driver.rest()

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
