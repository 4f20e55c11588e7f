"""What docs/clients.md says of clients that are not ours, as far as they are installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aio_pika
import amqp
import kombu
import pika
import pytest

from openclust.wire.methods import ConnectionOpenOk
from tests.support.scripted_broker import ScriptedBroker, scripted_brokers

pytestmark = pytest.mark.sockets

DEADLINE_S = 10.0


def by_pika(*brokers: ScriptedBroker) -> None:
    pika.BlockingConnection([pika.URLParameters(each.url) for each in brokers]).close()


def by_kombu(*brokers: ScriptedBroker) -> None:
    connection = kombu.Connection(";".join(each.url for each in brokers), transport="pyamqp")
    connection.ensure_connection(max_retries=2, interval_start=0)
    connection.release()


def by_py_amqp(*brokers: ScriptedBroker) -> None:
    connection = amqp.Connection(host=brokers[0].address, userid="guest", password="secret")
    connection.connect()
    connection.close()


def by_aio_pika(*brokers: ScriptedBroker) -> None:
    async def scene() -> None:
        await (await aio_pika.connect(brokers[0].url)).close()

    asyncio.run(scene())


@pytest.mark.parametrize("client", [by_pika, by_kombu, by_py_amqp, by_aio_pika])
def test_none_follows_redirects_or_known_hosts(client: Callable[..., None]) -> None:
    async def scene() -> None:
        async with asyncio.timeout(DEADLINE_S), scripted_brokers(2) as (a, b):
            a.answers = [ConnectionOpenOk(known_hosts=b.address)]
            await asyncio.to_thread(client, a)
            assert "connection.redirect" not in a.properties[0]["capabilities"]
            assert (a.opens, b.opens) == (1, 0)

    asyncio.run(scene())


@pytest.mark.parametrize("client", [by_pika, by_kombu])
def test_some_take_a_list_and_go_on_to_the_next(client: Callable[..., None]) -> None:
    async def scene() -> None:
        async with asyncio.timeout(DEADLINE_S), scripted_brokers(2) as (a, b):
            await a.die()
            await asyncio.to_thread(client, a, b)
            assert b.opens == 1

    asyncio.run(scene())
