"""What our client does with redirects, known hosts, closes and deaths, against servers that follow a script."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aio_pika.abc import AbstractRobustConnection

from openclust.client import NoBroker, connect, connect_robust
from openclust.wire.methods import ConnectionClose, ConnectionOpenOk, ConnectionRedirect
from tests.support.scripted_broker import SILENCE, ScriptedBroker, redirect, scripted_brokers

pytestmark = pytest.mark.sockets

DEADLINE_S = 10.0
Scene = Callable[..., Awaitable[None]]


def play(count: int, scene: Scene) -> None:
    """The scene with that many scripted brokers, in an event loop of its own."""

    async def staged() -> None:
        async with asyncio.timeout(DEADLINE_S), scripted_brokers(count) as brokers:
            await scene(*brokers)

    asyncio.run(staged())


async def becomes(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


class Rounds:
    """The rounds of searches that found no broker, by the log."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def pauses_s(self, of: str = "") -> list[float]:
        """The pause after each round; `of` is an address that failed in it."""
        records = [record for record in self._caplog.records if record.name == "openclust.client"]
        lines = [record.getMessage() for record in records]
        return [float(line.split()[-2]) for line in lines if "; again in " in line and of in line]

    async def reach(self, count: int, of: str = "") -> None:
        await becomes(lambda: len(self.pauses_s(of)) >= count)


@pytest.fixture
def rounds(caplog: pytest.LogCaptureFixture) -> Rounds:
    return Rounds(caplog)


def moved(to: ScriptedBroker) -> str:
    return f"CONNECTION_FORCED - moved to {to.address} (rebalancing)"


def test_the_client_says_that_it_follows_redirects_and_what_it_is_told_to_say() -> None:
    async def scene(a: ScriptedBroker) -> None:
        async with await connect(a.url, root=True, cluster_key="blue", client_properties={"connection_name": "me"}):
            (told,) = a.properties
            assert told["capabilities"]["connection.redirect"] is True
            assert told["capabilities"]["consumer_cancel_notify"] is True
            assert (told["connect_to"], told["cluster_key"], told["connection_name"]) == ("root", "blue", "me")
        async with await connect(a.url):
            assert not {"connect_to", "cluster_key"} & a.properties[1].keys()

    play(1, scene)


def test_heartbeats_are_frequent_unless_the_url_says_otherwise() -> None:
    async def scene(a: ScriptedBroker) -> None:
        await (await connect(a.url)).close()
        await (await connect(a.url + "?heartbeat=33")).close()
        assert a.heartbeats == [10, 33]

    play(1, scene)


def test_a_redirect_is_followed() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker, c: ScriptedBroker) -> None:
        a.answers, b.answers = [redirect(b)], [redirect(c)]
        async with await connect(a.url, root=True) as connection:
            assert (a.clients, b.clients, c.clients) == (0, 0, 1)
            assert connection.url.port == int(c.address.rpartition(":")[2])
            assert connection.url.password == "secret"
            assert ["openclust_redirected" in each.properties[0] for each in (a, b, c)] == [False, True, True]
            assert [each.properties[0]["connect_to"] for each in (a, b, c)] == ["root"] * 3
            channel = await connection.channel()
            await channel.close()

    play(3, scene)


def test_known_hosts_are_learnt_from_open_ok_and_from_a_redirect() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        a.answers = [redirect(b, "127.0.0.1:1,127.0.0.1:2")]
        async with await connect(a.url) as connection:
            assert connection.known_hosts == [a.address, "127.0.0.1:1", "127.0.0.1:2"]
        b.answers = [ConnectionOpenOk(known_hosts="127.0.0.1:3,[::1]:4,nonsense")]
        async with await connect(a.url) as connection:
            assert connection.known_hosts == [a.address, "127.0.0.1:3", "[::1]:4"]

    play(2, scene)


def test_a_broker_that_takes_its_time_may_send_heartbeats_first() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        a.is_slow = b.is_slow = True
        a.answers = [redirect(b)]
        async with await connect(a.url):
            assert b.clients == 1

    play(2, scene)


def test_brokers_that_send_the_client_in_a_circle_are_given_up() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        a.answers, b.answers = [redirect(b)], [redirect(a)]
        with pytest.raises(NoBroker, match="redirected 10 times in a row") as refused:
            await connect([a.url, b.url], rounds=1)
        assert a.opens + b.opens == 11
        assert refused.value.tried.keys() == {a.address, b.address}

    play(2, scene)


def test_a_circle_that_ends_is_left() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        a.answers, b.answers = [*[redirect(b)] * 5, ConnectionOpenOk()], [redirect(a)]
        async with await connect(a.url):
            assert (a.opens, b.opens) == (6, 5)

    play(2, scene)


def test_where_a_redirect_leads_to_nobody_another_broker_is_taken() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker, dead: ScriptedBroker) -> None:
        await dead.die()
        a.answers = [redirect(dead)]
        async with await connect([a.url, b.url]):
            assert (a.opens, b.opens) == (1, 1)

    play(3, scene)


def test_a_redirect_to_nonsense_is_an_error_that_shows_it() -> None:
    async def scene(a: ScriptedBroker) -> None:
        a.answers = [ConnectionRedirect(host="over there")]
        with pytest.raises(NoBroker, match="sends us to 'over there', which is no host:port"):
            await connect(a.url)

    play(1, scene)


def test_a_broker_that_closes_at_open_and_names_another_is_followed() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        a.answers = [ConnectionClose(reply_code=320, reply_text=moved(b))]
        async with await connect(a.url):
            assert b.clients == 1

    play(2, scene)


def test_an_error_names_every_host_and_its_reason() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker, c: ScriptedBroker, d: ScriptedBroker) -> None:
        await a.die()
        b.answers = [SILENCE]
        c.answers = [ConnectionClose(reply_code=530, reply_text="NOT_ALLOWED - vhost x not found")]
        d.answers = [b"\x01\x00\x00\x7f\x00\x00\x00"]
        with pytest.raises(NoBroker) as refused:
            await connect([a.url, b.url, c.url, d.url], rounds=1, host_timeout=0.2)
        assert refused.value.tried == {
            a.address: "connection refused",
            b.address: "no answer within 0.2 s",
            c.address: "closed with 530, NOT_ALLOWED - vhost x not found",
            d.address: "an answer of 2130706432 bytes to connection.open",
        }
        assert str(refused.value).startswith(f"none of 4 brokers took the connection: {a.address}: connection refused;")
        assert "secret" not in str(refused.value)

    play(4, scene)


def test_a_refusal_for_good_is_not_asked_for_again() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        a.answers = b.answers = [
            ConnectionClose(reply_code=402, reply_text="INVALID_PATH - cluster key 'x' is not ours")
        ]
        with pytest.raises(NoBroker, match="402, INVALID_PATH - cluster key 'x'"):
            await connect([a.url, b.url], cluster_key="x")
        assert (a.opens, b.opens) == (1, 1)

    play(2, scene)


def test_a_broker_that_comes_late_is_found_in_a_later_round(rounds: Rounds) -> None:
    async def scene(a: ScriptedBroker) -> None:
        await a.die()
        attempt = asyncio.create_task(connect(a.url))
        await rounds.reach(1)
        await a.start()
        async with await attempt:
            assert a.opens == 1

    play(1, scene)


def test_a_search_ends_with_its_time() -> None:
    async def scene(a: ScriptedBroker) -> None:
        a.answers = [SILENCE]
        with pytest.raises(TimeoutError):
            await connect(a.url, timeout=0.1)
        with pytest.raises(TimeoutError):
            await connect_robust(a.url, timeout=0.1)
        await becomes(lambda: a.clients == 0)

    play(1, scene)


def test_a_robust_connection_that_finds_nobody_at_first_fails_at_once() -> None:
    async def scene(a: ScriptedBroker) -> None:
        await a.die()
        with pytest.raises(NoBroker):
            await connect_robust(a.url)

    play(1, scene)


def test_one_that_need_not_fail_waits_for_its_first_broker(rounds: Rounds) -> None:
    async def scene(a: ScriptedBroker) -> None:
        await a.die()
        attempt = asyncio.create_task(connect_robust(a.url, fail_fast=False, rounds=1))
        await rounds.reach(2)
        assert not attempt.done()
        await a.start()
        async with await attempt:
            assert a.clients == 1

    play(1, scene)


async def with_a_queue(connection: AbstractRobustConnection) -> None:
    channel = await connection.channel()
    await channel.declare_queue("work")


def test_a_robust_connection_goes_on_at_a_host_it_only_learnt_of() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        a.answers = [ConnectionOpenOk(known_hosts=f"{a.address},{b.address}")]
        async with await connect_robust(a.url, cluster_key="blue", reconnect_interval=0.01) as connection:
            await with_a_queue(connection)
            await a.die()
            await becomes(lambda: b.queues == ["work"])
            assert b.properties[0]["cluster_key"] == "blue"
            assert connection.url.port == int(b.address.rpartition(":")[2])

    play(2, scene)


def test_a_robust_connection_goes_first_where_the_broker_says() -> None:
    async def scene(*brokers: ScriptedBroker) -> None:
        async with await connect_robust([each.url for each in brokers[:4]], reconnect_interval=0.01) as connection:
            await with_a_queue(connection)
            for target in brokers[1:]:
                await becomes(lambda: connection.connected.is_set())
                current = next(each for each in brokers if each.clients)
                current.close_all(320, moved(target))
                while target.queues != ["work"]:
                    await asyncio.sleep(0.005)
            # Each only once: nobody was asked in vain.
            assert [each.opens for each in brokers] == [1] * len(brokers)

    play(5, scene)


def test_a_robust_connection_takes_another_where_the_named_one_is_dead() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker, dead: ScriptedBroker) -> None:
        await dead.die()
        async with await connect_robust([a.url, b.url], reconnect_interval=0.01) as connection:
            await with_a_queue(connection)
            a.close_all(320, moved(dead))
            await becomes(lambda: b.queues == ["work"])

    play(3, scene)


def test_a_robust_connection_searches_until_somebody_is_there_again(rounds: Rounds) -> None:
    async def scene(a: ScriptedBroker) -> None:
        async with await connect_robust(a.url, rounds=1, reconnect_interval=0.01) as connection:
            await with_a_queue(connection)
            await a.die()
            await rounds.reach(2)
            await a.start()
            await becomes(lambda: a.queues == ["work", "work"])

    play(1, scene)


def test_a_robust_connection_that_searches_can_be_closed() -> None:
    async def scene(a: ScriptedBroker) -> None:
        connection = await connect_robust(a.url)
        await a.die()
        await becomes(lambda: not connection.connected.is_set())
        began = time.monotonic()
        await connection.close()
        assert time.monotonic() - began < 1.0
        assert connection.is_closed

    play(1, scene)


def test_pauses_grow_while_nobody_takes_the_connection(rounds: Rounds) -> None:
    """However short the pause between two connections is that were made."""
    refusal = ConnectionClose(reply_code=530, reply_text="NOT_ALLOWED - not yet")

    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        a.answers, b.answers = [ConnectionOpenOk(), refusal], [refusal]
        late = asyncio.create_task(connect_robust(b.url, rounds=1, fail_fast=False, reconnect_interval=0.001))
        async with await connect_robust(a.url, rounds=1, reconnect_interval=0.001):
            a.close_all(320, "CONNECTION_FORCED - the broker shuts down")
            for each in (a, b):
                await rounds.reach(3, of=each.address)
        late.cancel()
        for each in (a, b):
            first, _, third = rounds.pauses_s(of=each.address)[:3]
            # From 0.1 s on a pause is twice the last one, and a random part of up to a half is taken off.
            assert first <= 0.1 < 0.2 <= third

    play(2, scene)


def test_nothing_goes_on_behind_a_connection_that_was_given_up(rounds: Rounds) -> None:
    async def scene(a: ScriptedBroker) -> None:
        await a.die()
        before = asyncio.all_tasks()
        attempt = asyncio.create_task(connect_robust(a.url, fail_fast=False))
        await rounds.reach(1)
        attempt.cancel()
        await asyncio.wait([attempt])
        await becomes(lambda: asyncio.all_tasks() <= before)

    play(1, scene)


def test_a_new_password_is_used_at_the_next_broker() -> None:
    async def scene(a: ScriptedBroker, b: ScriptedBroker) -> None:
        async with await connect_robust([a.url, b.url], reconnect_interval=0.01) as connection:
            await connection.update_secret("newer")
            await a.die()
            await becomes(lambda: b.opens)
            assert (a.logins, b.logins) == ([b"\0guest\0secret"], [b"\0guest\0newer"])

    play(2, scene)
