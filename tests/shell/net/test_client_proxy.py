"""A client that is served by another broker through this one, with two real brokers in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import aiormq
import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.amqp.placement import PROXIED, Placement
from openclust.broker.server.broker import Broker
from openclust.broker.server.standalone import Standalone
from openclust.shell.config.schema import Config, HttpSection, ListenSection
from openclust.shell.net import client_proxy as proxy
from openclust.shell.server import Server
from openclust.wire.codec import method_frame
from openclust.wire.frames import PROTOCOL_HEADER
from openclust.wire.methods import ConnectionOpen, ConnectionStartOk, ConnectionTuneOk

pytestmark = pytest.mark.sockets

WAIT_S = 20.0


class Elsewhere(Standalone):
    """Who opens here should be at another broker, unless it came through one."""

    def __init__(self, broker: Broker, address: str) -> None:
        super().__init__(broker)
        self.address = address

    def place(self, connection: Connection) -> Placement | None:
        if connection.client_properties.get(PROXIED) is True:
            return None
        return Placement("far", self.address, "", "proxy")


def address_of(server: Server) -> str:
    host, port = server.listeners[0].address
    return f"{host}:{port}"


@contextlib.asynccontextmanager
async def running(name: str, **limits: int) -> AsyncIterator[Server]:
    from openclust.broker.model.limits import Limits

    config = Config(
        cluster_key="test",
        name=name,
        listen=ListenSection(port=0),
        http=HttpSection(enabled=False),
        limits=Limits(**limits),
    )
    server = Server(config, asyncio.get_running_loop())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def pair(**limits: int) -> AsyncIterator[tuple[Server, Server]]:
    """A broker that hands its clients on, and the one that gets them."""
    async with running("far", **limits) as far, running("near") as near:
        near.broker.cluster = Elsewhere(near.broker, address_of(far))
        far.broker.cluster = Standalone(far.broker)
        yield near, far


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(WAIT_S):
            await test()

    asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def connect(server: Server, login: str = "guest:guest", **options: str) -> aiormq.abc.AbstractConnection:
    query = "&".join(f"{key}={value}" for key, value in options.items())
    return await aiormq.connect(f"amqp://{login}@{address_of(server)}/?{query}")


def open_in(writer: asyncio.StreamWriter) -> None:
    """All that a client says to open a connection, at once."""
    start_ok = ConnectionStartOk(mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US")
    methods = (start_ok, ConnectionTuneOk(), ConnectionOpen())
    writer.write(PROTOCOL_HEADER + b"".join(method_frame(0, each) for each in methods))


def test_a_client_is_served_by_the_other_broker_and_notices_nothing() -> None:
    async def test() -> None:
        async with pair() as (near, far):
            connection = await connect(near)
            channel = await connection.channel()
            await channel.queue_declare("q")
            body = bytes(300_000)
            await channel.basic_publish(body, routing_key="q")
            message = await channel.basic_get("q", no_ack=True)
            assert message.body == body
            assert "q" in far.broker.vhosts["/"].queues
            assert "q" not in near.broker.vhosts["/"].queues
            assert (far.broker.open_count(), near.broker.open_count(), len(near.proxies)) == (1, 0, 1)
            assert not near.broker.connections
            await connection.close()
            await until(lambda: not near.proxies and not far.broker.connections)

    run(test)


def test_a_client_that_came_through_another_broker_goes_no_further() -> None:
    async def test() -> None:
        async with pair() as (near, far):
            far.broker.cluster = Elsewhere(far.broker, address_of(near))
            connection = await connect(near)
            assert (far.broker.open_count(), len(near.proxies), len(far.proxies)) == (1, 1, 0)
            await connection.close()

    run(test)


def test_heartbeats_are_as_the_client_and_the_other_broker_agree() -> None:
    async def test() -> None:
        async with pair() as (near, far):
            connection = await connect(near, heartbeat="7")
            (served,) = far.broker.connections
            assert served.heartbeat_s == 7
            await connection.close()

    run(test)


def test_a_wrong_password_is_refused_here() -> None:
    async def test() -> None:
        async with pair() as (near, far):
            with pytest.raises(aiormq.exceptions.AMQPError):
                await connect(near, "guest:wrong")
            assert not far.broker.connections

    run(test)


def test_where_the_other_broker_is_gone_the_client_is_served_here() -> None:
    async def test() -> None:
        async with running("near") as near:
            near.broker.cluster = Elsewhere(near.broker, "127.0.0.1:1")
            connection = await connect(near)
            assert near.broker.open_count() == 1
            await connection.close()

    run(test)


def test_where_the_other_broker_does_not_answer_in_time_the_client_is_served_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy, "DIAL_WAIT_S", 0.1)

    async def test() -> None:
        async with running("near") as near:
            silent = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
            host, port = silent.sockets[0].getsockname()
            near.broker.cluster = Elsewhere(near.broker, f"{host}:{port}")
            connection = await connect(near)
            assert near.broker.open_count() == 1
            await connection.close()
            silent.close()

    run(test)


def test_where_the_other_broker_grants_less_the_client_is_served_here() -> None:
    async def test() -> None:
        async with pair(channel_max=5) as (near, far):
            connection = await connect(near)
            assert (near.broker.open_count(), far.broker.open_count()) == (1, 0)
            await connection.close()

    run(test)


def test_a_client_that_ends_without_a_word_ends_there_too() -> None:
    async def test() -> None:
        async with pair() as (near, far):
            _, writer = await asyncio.open_connection(*near.listeners[0].address)
            open_in(writer)
            await until(lambda: far.broker.open_count() == 1)
            writer.transport.abort()
            await until(lambda: not near.proxies and not far.broker.connections)

    run(test)


def test_a_broker_that_ends_takes_the_clients_that_it_handed_on_with_it() -> None:
    async def test() -> None:
        async with running("far") as far:
            async with running("near") as near:
                near.broker.cluster = Elsewhere(near.broker, address_of(far))
                connection = await connect(near)
            assert not near.proxies
            await until(lambda: not far.broker.connections)
            with contextlib.suppress(Exception):
                await connection.close()

    run(test)


def test_the_youngest_are_cut_off_where_the_broker_is_emptied() -> None:
    async def test() -> None:
        async with pair() as (near, far):
            connections = [await connect(near) for _ in range(3)]
            assert near.proxies.end(2) == 2
            await until(lambda: len(near.proxies) == 1 and far.broker.open_count() == 1)
            assert not connections[0].is_closed
            for each in connections:
                with contextlib.suppress(Exception):
                    await each.close()

    run(test)


def test_a_slow_reader_holds_back_the_sender_and_no_more_than_a_piece_waits_here() -> None:
    async def test() -> None:
        import socket

        loop = asyncio.get_running_loop()
        near, near_end = socket.socketpair()
        far, far_end = socket.socketpair()
        for each in (near, near_end, far, far_end):
            each.setblocking(False)
        splicing = loop.create_task(proxy.splice(loop, near, far))
        sent = 0

        async def send() -> None:
            nonlocal sent
            while True:
                sent += await loop.sock_sendall(near_end, bytes(10_000)) or 10_000

        sending = loop.create_task(send())
        stuck = -1
        while stuck != sent:  # nobody reads, so once nothing more is taken
            stuck = sent
            for _ in range(100):
                await asyncio.sleep(0)
        for _ in range(20):
            await loop.sock_recv(far_end, 65_536)
        await until(lambda: sent > stuck)
        sending.cancel()
        splicing.cancel()
        await asyncio.gather(sending, splicing, return_exceptions=True)
        for each in (near, near_end, far, far_end):
            each.close()

    run(test)
