"""A connection's plain socket, with a socket, an event loop and a server that only pretend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.peer import Peer
from openclust.shell.net.stream import Stream
from tests.support.client import new_broker


class Sock:
    """Takes `room` bytes, and gives what is in `arrived`; an exception in there is raised."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.taken = b""
        self.arrived: list[bytes | Exception] = []
        self.is_shut = self.is_closed = False

    def fileno(self) -> int:
        return 7

    def send(self, data: bytes | memoryview) -> int:
        if not self.room:
            raise BlockingIOError
        some = bytes(data[: self.room])
        self.room -= len(some)
        self.taken += some
        return len(some)

    def sendmsg(self, pieces: list[bytes]) -> int:
        return self.send(b"".join(pieces))

    def recv(self, size: int) -> bytes:
        data = self.arrived.pop(0)
        if isinstance(data, Exception):
            raise data
        return data

    def shutdown(self, how: int) -> None:
        self.is_shut = True

    def close(self) -> None:
        self.is_closed = True


class Loop:
    """Which calls wait for the socket to be readable or writable."""

    def __init__(self) -> None:
        self.reader: Callable[[], None] | None = None
        self.writer: Callable[[], None] | None = None

    def add_reader(self, fd: int, call: Callable[[], None]) -> None:
        self.reader = call

    def remove_reader(self, fd: int) -> None:
        self.reader = None

    def add_writer(self, fd: int, call: Callable[[], None]) -> None:
        self.writer = call

    def remove_writer(self, fd: int) -> None:
        self.writer = None


class Host:
    """Remembers what the stream tells the server."""

    def __init__(self) -> None:
        self.loop: Any = Loop()
        self.heard: list[bytes] = []
        self.consumers = self.lost = self.closing = 0

    def receive(self, connection: Connection, data: bytes) -> None:
        self.heard.append(data)

    def close_later(self, connection: Connection) -> None:
        self.closing += 1

    def connection_lost(self, connection: Connection) -> None:
        self.lost += 1

    def turn_soon(self) -> None:
        self.consumers += 1


class House:
    def __init__(self, room: int = 1_000) -> None:
        self.host, self.sock = Host(), Sock(room)
        self.connection = Connection(new_broker(), Peer("127.0.0.1", 1, is_loopback=True))
        self.stream = Stream(self.host, self.sock, self.connection, 0)  # type: ignore[arg-type]

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.send(piece)
        self.stream.flush()

    def arrives(self, data: bytes | Exception) -> None:
        self.sock.arrived.append(data)
        self.host.loop.reader()

    def has_room(self, room: int) -> None:
        self.sock.room = room
        self.host.loop.writer()


def test_bytes_go_to_the_server_as_they_come() -> None:
    house = House()
    house.arrives(b"one")
    house.arrives(BlockingIOError())
    house.arrives(b"two")
    assert house.host.heard == [b"one", b"two"]


@pytest.mark.parametrize("end", [b"", ConnectionResetError()])
def test_the_end_of_the_socket_is_told_once(end: bytes | Exception) -> None:
    house = House()
    house.arrives(end)
    house.stream.abort()
    assert (house.host.lost, house.sock.is_closed, house.host.loop.reader) == (1, True, None)


def test_a_socket_that_is_not_to_be_read_is_not() -> None:
    house = House()
    house.stream.pause_reading()
    assert house.host.loop.reader is None
    house.stream.resume_reading()
    house.arrives(b"one")
    assert house.host.heard == [b"one"]


def test_an_outbox_is_one_write() -> None:
    house = House()
    house.say(b"one", b"two")
    assert house.sock.taken == b"onetwo"
    assert not house.connection.out and not house.stream.is_waiting


def test_bytes_that_the_peer_does_not_take_follow_in_order() -> None:
    house = House(room=4)
    house.say(b"onetwo")
    house.say(b"three")
    assert (house.sock.taken, house.stream.is_waiting, house.connection.pending_bytes) == (b"onet", True, 7)
    house.has_room(5)
    assert (house.sock.taken, house.connection.pending_bytes) == (b"onetwothr", 2)
    house.has_room(5)
    assert (house.sock.taken, house.connection.pending_bytes) == (b"onetwothree", 0)
    assert not house.stream.is_waiting and house.host.loop.writer is None
    assert house.host.consumers == 2, "publishers may have waited for this"


def test_large_bodies_are_sent_piece_by_piece() -> None:
    house = House(room=4)
    house.connection.bulky = True
    house.say(b"one", b"two")
    assert (house.sock.taken, house.connection.pending_bytes) == (b"onet", 2)
    house.has_room(9)
    assert house.sock.taken == b"onetwo"


def test_a_stream_that_finishes_says_all_before_it_shuts_its_socket() -> None:
    house = House(room=4)
    house.connection.send(b"goodbye")
    house.stream.finish()
    assert house.host.closing == 1 and not house.sock.is_shut
    house.has_room(9)
    assert (house.sock.taken, house.sock.is_shut, house.sock.is_closed) == (b"goodbye", True, False)
    house.arrives(b"")
    assert house.sock.is_closed


def test_a_socket_is_handed_over_only_when_all_is_said() -> None:
    house = House(room=4)
    house.say(b"onetwo")
    assert house.stream.hand_over() is None
    house.has_room(9)
    assert house.stream.hand_over() is house.sock
    assert house.host.loop.reader is None
    house.stream.abort()
    assert not house.sock.is_closed, "it is somebody else's now"
