"""What links need of aiormq and aiormq does not document, held against the version that is installed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import aiormq
import pamqp.frame
import pytest
from pamqp import commands
from pamqp.base import Frame
from pamqp.header import ProtocolHeader

from openclust.cluster.protocol.outbox import CONTROL_CHANNEL
from openclust.shell.cluster.peer_connection import BATCHES_MAX, PeerConnection
from openclust.wire.sasl import PEER

FRAME_MAX = 65_536
PROPERTIES = {"nonce": "17", "capabilities": {}}
ANSWERS: dict[type, Callable[[], Frame]] = {
    ProtocolHeader: lambda: commands.Connection.Start(server_properties=PROPERTIES, mechanisms=f"PLAIN {PEER}"),
    commands.Connection.StartOk: lambda: commands.Connection.Tune(2_047, FRAME_MAX, 10),
    commands.Connection.Open: commands.Connection.OpenOk,
    commands.Channel.Open: commands.Channel.OpenOk,
    commands.Connection.Close: commands.Connection.CloseOk,
}


class Peer(aiormq.TransportFactory):
    """A broker at the other end of no socket: it answers what opens a connection, and keeps publishes as bytes."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.asked: list[Any] = []
        self.written: list[bytes] = []
        self.takes = asyncio.Event()
        self.takes.set()

    async def create(self, url: Any, **_: Any) -> tuple[asyncio.StreamReader, Any]:
        return self.reader, self

    def write(self, data: bytes) -> None:
        _, channel, method = pamqp.frame.unmarshal(data)
        if isinstance(method, commands.Basic.Publish):
            self.written.append(data)
            return
        self.asked.append(method)
        if type(method) in ANSWERS:
            self.reader.feed_data(pamqp.frame.marshal(ANSWERS[type(method)](), channel))

    async def drain(self) -> None:
        await self.takes.wait()

    def get_extra_info(self, _: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.reader.at_eof()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.reader.feed_eof()

    async def wait_closed(self) -> None:
        return None


def run(scene: Callable[[PeerConnection, Peer], Any]) -> None:
    """With a connection that is open."""

    async def whole() -> None:
        peer = Peer()
        connection = PeerConnection("p1:5672", lambda nonce: f"proof of {nonce}".encode(), peer)
        await connection.open()
        await scene(connection, peer)
        peer.takes.set()
        await connection.close()

    asyncio.run(asyncio.wait_for(whole(), 10))


def frames(number: int) -> bytes:
    """A publish as it is relayed: method, header and body."""
    body = f"message {number}".encode()
    parts = (
        commands.Basic.Publish(exchange="prices", routing_key="a.b"),
        pamqp.header.ContentHeader(0, len(body), commands.Basic.Properties(delivery_mode=2)),
        pamqp.body.ContentBody(body),
    )
    return b"".join(pamqp.frame.marshal(each, 2) for each in parts)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0)


def test_it_logs_in_with_the_proof_over_the_nonce_of_the_peer() -> None:
    async def scene(connection: PeerConnection, peer: Peer) -> None:
        start_ok = next(each for each in peer.asked if isinstance(each, commands.Connection.StartOk))
        assert (start_ok.mechanism, start_ok.response) == (PEER, "proof of 17")

    run(scene)


def test_it_agrees_on_the_frame_size_and_opens_the_control_channel() -> None:
    async def scene(connection: PeerConnection, peer: Peer) -> None:
        assert connection.frame_max == FRAME_MAX
        assert list(connection.channels) == [CONTROL_CHANNEL]
        assert sum(isinstance(each, commands.Channel.Open) for each in peer.asked) == 1

    run(scene)


def test_frames_are_written_as_they_are_and_in_order() -> None:
    async def scene(connection: PeerConnection, peer: Peer) -> None:
        sent = [frames(number) for number in range(100)]
        assert all(connection.write(each, lambda: None) for each in sent)

        await until(lambda: len(peer.written) == len(sent))
        assert peer.written == sent

    run(scene)


def test_it_tells_when_the_socket_has_taken_them_and_not_before() -> None:
    async def scene(connection: PeerConnection, peer: Peer) -> None:
        drained: list[int] = []
        peer.takes.clear()
        for number in range(3):
            connection.write(frames(number), lambda number=number: drained.append(number))
        await until(lambda: bool(peer.written))
        for _ in range(20):
            await asyncio.sleep(0)
        assert drained == []

        peer.takes.set()
        await until(lambda: len(drained) == 3)
        assert drained == [0, 1, 2]

    run(scene)


def test_it_refuses_more_writes_than_are_bounded_while_the_socket_takes_none() -> None:
    async def scene(connection: PeerConnection, peer: Peer) -> None:
        peer.takes.clear()
        connection.write(frames(0), lambda: None)
        await until(lambda: bool(peer.written))
        for _ in range(20):
            await asyncio.sleep(0)

        taken = sum(connection.write(frames(number), lambda: None) for number in range(BATCHES_MAX + 10))
        assert BATCHES_MAX - 1 <= taken <= BATCHES_MAX

    run(scene)


def test_closing_is_done_when_the_peer_is_gone() -> None:
    async def scene(connection: PeerConnection, peer: Peer) -> None:
        assert not connection.closing.done()
        peer.reader.feed_eof()
        with pytest.raises(aiormq.exceptions.AMQPError):
            await connection.closing

    run(scene)


def test_aiormq_logs_no_line_of_its_own() -> None:
    for name in ("aiormq", "aiormq.connection"):
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR)
