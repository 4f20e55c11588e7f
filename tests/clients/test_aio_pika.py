"""aio-pika, the asyncio client: what its users do, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aio_pika
import aiormq
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.patterns import RPC, Master

from tests.support.clients.broker_process import Broker
from tests.support.clients.pika_client import unique

pytestmark = pytest.mark.sockets

DEADLINE_S = 15.0
Scenario = Callable[[AbstractChannel], Awaitable[None]]


def run(broker: Broker, scenario: Scenario, **channel_options: Any) -> None:
    """The scenario on a channel of a fresh connection, in an event loop of its own."""

    async def scene() -> None:
        async with asyncio.timeout(DEADLINE_S):
            connection = await aio_pika.connect(broker.url)
            async with connection:
                await scenario(await connection.channel(**channel_options))

    asyncio.run(scene())


def test_publish_and_iterate(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        for number in range(10):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), routing_key=queue.name)
        seen = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    seen.append(message.body)
                if len(seen) == 10:
                    break
        assert seen == [b"%d" % number for number in range(10)]

    run(broker, scenario)


def test_a_thousand_confirmed_publishes_at_once(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        publishes = (
            channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=queue.name) for _ in range(1000)
        )
        confirmations = await asyncio.gather(*publishes)
        assert all(isinstance(confirmation, aiormq.spec.Basic.Ack) for confirmation in confirmations)
        assert (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count == 1000

    run(broker, scenario)


def test_an_unroutable_publish_raises_or_returns(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=unique("nowhere"))
        assert await channel.declare_queue(exclusive=True)

    run(broker, scenario, on_return_raises=True)


def test_a_rejected_publish_raises(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        arguments: Any = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = await channel.declare_queue(exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(aio_pika.Message(b"fits"), routing_key=queue.name)
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b"does not"), routing_key=queue.name)

    run(broker, scenario)


def test_a_missing_queue_is_its_own_exception_and_the_channel_reopens(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        with pytest.raises(aio_pika.exceptions.ChannelNotFoundEntity):
            await channel.declare_queue(unique("missing"), passive=True)
        await channel.reopen()
        assert await channel.declare_queue(exclusive=True)

    run(broker, scenario)


def test_an_inequivalent_declare_is_its_own_exception(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        name = unique("aio")
        await channel.declare_queue(name, exclusive=True)
        with pytest.raises(aio_pika.exceptions.ChannelPreconditionFailed, match="x-max-length"):
            await channel.declare_queue(name, exclusive=True, arguments={"x-max-length": 5})

    run(broker, scenario)


def test_a_wrong_password_is_its_own_exception(broker: Broker) -> None:
    async def scene() -> None:
        refused = (aiormq.exceptions.AuthenticationError, aiormq.exceptions.ProbableAuthenticationError)
        with pytest.raises(refused, match="ACCESS_REFUSED"):
            await aio_pika.connect(host=broker.host, port=broker.port, login="guest", password="wrong")

    asyncio.run(scene())


def test_a_transaction_commits_and_rolls_back(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"kept"), routing_key=queue.name)
        with pytest.raises(ZeroDivisionError):
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"never"), routing_key=queue.name)
                raise ZeroDivisionError
        message = await queue.get(no_ack=True)
        assert message is not None and message.body == b"kept"
        assert await queue.get(fail=False) is None

    run(broker, scenario, publisher_confirms=False)


def test_prefetch_and_nack(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        await channel.set_qos(prefetch_count=1)
        queue = await channel.declare_queue(exclusive=True)
        for number in range(3):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), routing_key=queue.name)
        seen: list[tuple[bytes, bool | None]] = []
        done = asyncio.Event()

        async def on_message(message: AbstractIncomingMessage) -> None:
            seen.append((message.body, message.redelivered))
            if len(seen) == 1:
                await message.nack(requeue=True)
            else:
                await message.ack()
            if len(seen) == 4:
                done.set()

        await queue.consume(on_message)
        await done.wait()
        assert seen == [(b"0", False), (b"0", True), (b"1", False), (b"2", False)]

    run(broker, scenario)


def test_exchanges_of_every_kind(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        source = await channel.declare_exchange(unique("aio"), aio_pika.ExchangeType.TOPIC, auto_delete=True)
        target = await channel.declare_exchange(unique("aio"), aio_pika.ExchangeType.HEADERS, auto_delete=True)
        await target.bind(source, "news.*")
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(target, "", arguments={"x-match": "any", "colour": "red", "size": 3})
        for key, size in (("news.a", 3), ("news.b", 4), ("old.c", 3)):
            await source.publish(aio_pika.Message(key.encode(), headers={"size": size}), key, mandatory=False)
        message = await queue.get(no_ack=True)
        assert message is not None and message.body == b"news.a"
        assert await queue.get(fail=False) is None

    run(broker, scenario)


def test_ten_megabytes(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        queue, body = await channel.declare_queue(exclusive=True), os.urandom(10_000_000)
        await channel.default_exchange.publish(aio_pika.Message(body), routing_key=queue.name)
        message = await queue.get(no_ack=True)
        assert message is not None and message.body == body

    run(broker, scenario)


def test_the_rpc_pattern(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        rpc = await RPC.create(channel)

        async def multiply(*, x: int, y: int) -> int:
            return x * y

        name = unique("multiply")
        await rpc.register(name, multiply, auto_delete=True)
        answers = await asyncio.gather(*(rpc.call(name, kwargs={"x": number, "y": 2}) for number in range(20)))
        assert answers == [number * 2 for number in range(20)]
        with pytest.raises(TypeError):
            await rpc.call(name, kwargs={"wrong": 1})
        await rpc.close()

    run(broker, scenario)


def test_the_master_and_worker_pattern(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        master, done = Master(channel), asyncio.Queue[int]()

        async def work(*, number: int) -> None:
            await done.put(number)

        name = unique("work")
        worker = await master.create_worker(name, work, auto_delete=True)
        for number in range(5):
            await master.create_task(name, kwargs={"number": number})
        assert sorted([await done.get() for _ in range(5)]) == [0, 1, 2, 3, 4]
        await worker.close()

    run(broker, scenario)


class CutWire:
    """A wire between a client and the broker that can be cut."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.ends: list[asyncio.StreamWriter] = []

    @classmethod
    async def to(cls, broker: Broker) -> CutWire:
        wire = cls(broker)
        wire.server = await asyncio.start_server(wire._join, "127.0.0.1")
        wire.port = wire.server.sockets[0].getsockname()[1]
        return wire

    server: asyncio.Server
    port: int

    def cut(self) -> None:
        for end in self.ends:
            end.transport.abort()
        self.ends.clear()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self.broker.host, self.broker.port)
        self.ends += [writer, far_writer]
        await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
            writer.close()


def test_a_robust_connection_comes_back_with_its_queues_and_consumers(broker: Broker) -> None:
    async def scene() -> None:
        async with asyncio.timeout(DEADLINE_S):
            wire = await CutWire.to(broker)
            url = broker.url.replace(f":{broker.port}/", f":{wire.port}/")
            async with await aio_pika.connect_robust(url, reconnect_interval=0.1) as connection:
                channel = await connection.channel()
                exchange = await channel.declare_exchange(unique("robust"), "fanout", auto_delete=True)
                queue = await channel.declare_queue(exclusive=True)
                await queue.bind(exchange)
                inbox = asyncio.Queue[bytes]()

                async def on_message(message: AbstractIncomingMessage) -> None:
                    await inbox.put(message.body)

                await queue.consume(on_message, no_ack=True)
                back = asyncio.Event()
                connection.reconnect_callbacks.add(lambda *_: back.set())
                wire.cut()
                await back.wait()
                await exchange.publish(aio_pika.Message(b"after"), "")
                assert await inbox.get() == b"after"
            wire.server.close()

    asyncio.run(scene())


@pytest.mark.usefixtures("openclust_only")  # RabbitMQ may be as fast where few channels are open
def test_a_robust_connection_that_ends_its_transport_reconnects_without_an_error(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """aiormq tells of a lost connection where close-ok comes before it waits for one: it needs a moment."""

    async def scene() -> None:
        async with asyncio.timeout(DEADLINE_S):
            async with await aio_pika.connect_robust(broker.url, reconnect_interval=0.01) as connection:
                channels = [await connection.channel() for _ in range(2)]
                for _ in range(12):
                    back = asyncio.Event()
                    connection.reconnect_callbacks.add(lambda *_, back=back: back.set())
                    assert connection.transport is not None
                    await connection.transport.connection.close()
                    await back.wait()
                assert await channels[0].declare_queue(exclusive=True)

    with caplog.at_level("ERROR"):
        asyncio.run(scene())
    assert not [each.getMessage() for each in caplog.records if each.name.startswith("aio")]


def test_many_tasks_share_one_channel(broker: Broker) -> None:
    async def scenario(channel: AbstractChannel) -> None:
        async def one(number: int) -> None:
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), routing_key=queue.name)
            message = await queue.get(no_ack=True)
            assert message is not None and message.body == b"%d" % number

        await asyncio.gather(*(one(number) for number in range(100)))

    run(broker, scenario)
