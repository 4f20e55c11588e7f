"""Our client and real brokers: one dies, another takes over, and nobody has to declare anything again."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest

from openclust.client import NoBroker, connect, connect_robust
from tests.support.clients.broker_process import Broker, free_port, running_broker
from tests.support.clients.certificates import Authority

pytestmark = pytest.mark.sockets

DEADLINE_S = 20.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


async def publish_until_it_arrives(url: str, arrived: asyncio.Queue[bytes], body: bytes) -> None:
    """To exchange `news` by a plain connection; the consumer may need a moment until all is declared again."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        while arrived.empty():
            exchange = await channel.declare_exchange("news", "topic")
            await exchange.publish(aio_pika.Message(body), "sport.chess")
            await asyncio.sleep(0.02)
    assert await arrived.get() == body
    while not arrived.empty():
        arrived.get_nowait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_robust_connection_outlives_its_broker_and_its_topology_comes_back(
    broker: Broker, tmp_path: Path, number: signal.Signals
) -> None:
    async def scene(mortal: Broker) -> None:
        arrived: asyncio.Queue[bytes] = asyncio.Queue()
        back = asyncio.Event()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                arrived.put_nowait(message.body)

        async with await connect_robust([mortal.url, broker.url], reconnect_interval=0.01) as connection:
            connection.reconnect_callbacks.add(lambda *_: back.set())
            assert connection.url.port == mortal.port
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=7)
            exchange = await channel.declare_exchange("news", "topic")
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(exchange, "sport.#")
            await queue.consume(take)
            await publish_until_it_arrives(mortal.url, arrived, b"before")

            assert mortal.process is not None
            mortal.process.send_signal(number)
            await back.wait()
            assert connection.url.port == broker.port
            await publish_until_it_arrives(broker.url, arrived, b"after")
            # What the application holds works on: the same channel, exchange and queue.
            await exchange.publish(aio_pika.Message(b"by myself"), "sport.go")
            assert await arrived.get() == b"by myself"

    async def staged(mortal: Broker) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await scene(mortal)

    with running_broker(tmp_path) as mortal:
        asyncio.run(staged(mortal))


def test_a_plain_connection_takes_the_first_broker_that_lives(broker: Broker) -> None:
    async def scene() -> None:
        dead = f"amqp://guest:guest@127.0.0.1:{free_port()}/"
        async with asyncio.timeout(DEADLINE_S), await connect(f"{dead},{broker.url}") as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(b"hello"), queue.name)
            message = await queue.get()
            assert message is not None and message.body == b"hello"

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("login", "vhost", "reason"),
    [
        ("guest:wrong", "%2F", "ACCESS_REFUSED - Login was refused"),
        ("guest:guest", "nowhere", "closed with 530, .*vhost nowhere not found"),
    ],
)
def test_what_a_broker_says_against_a_login_is_in_the_error(
    broker: Broker, login: str, vhost: str, reason: str
) -> None:
    with pytest.raises(NoBroker, match=reason):
        asyncio.run(connect(f"amqp://{login}@127.0.0.1:{broker.port}/{vhost}", rounds=1))


def test_the_way_over_tls_keeps_its_certificates_at_the_next_host(tmp_path: Path) -> None:
    port = free_port()
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "Another Authority")
    certificate, key = authority.issue("localhost", server=True)
    config = f'[tls]\nport = {port}\ncert = "{certificate}"\nkey = "{key}"\n'

    async def scene() -> None:
        dead = free_port()
        url = f"amqps://guest:guest@localhost:{dead}/?cafile={authority.ca}&heartbeat=5"
        async with asyncio.timeout(DEADLINE_S):
            async with await connect(
                [url, f"amqps://guest:guest@localhost:{port}/?cafile={authority.ca}"]
            ) as connection:
                assert connection.url.scheme == "amqps"
                await (await connection.channel()).close()
            context = ssl.create_default_context(cafile=authority.ca)
            plain = f"amqps://guest:guest@localhost:{port}/"
            async with await connect_robust(plain, ssl_context=context) as connection:
                await (await connection.channel()).close()
            with pytest.raises(NoBroker, match="certificate verify failed"):
                await connect(f"amqps://guest:guest@localhost:{port}/?cafile={stranger.ca}")

    with running_broker(tmp_path / "broker", config):
        asyncio.run(scene())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_that_the_broker_refuses_ends_the_search_at_once(
    tmp_path: Path, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    authority = Authority(tmp_path)
    certificate, key = authority.issue("localhost", server=True)
    config = (
        f'[tls]\nport = {port}\ncert = "{certificate}"\nkey = "{key}"\nca = "{authority.ca}"\nverify = "required"\n'
    )

    async def scene() -> None:
        context = ssl.create_default_context(cafile=authority.ca)
        context.maximum_version = version
        context.load_cert_chain(*authority.issue("guest", days_left=-1))
        with pytest.raises(NoBroker, match="it refuses our certificate: it has expired"):
            await connect(f"amqps://guest:guest@localhost:{port}/", ssl_context=context)

    with running_broker(tmp_path / "broker", config):
        asyncio.run(scene())
    assert "again in" not in caplog.text
