"""The search over hosts and rounds, with dials that only pretend."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from aiormq.exceptions import ConnectionClosed, ProbableAuthenticationError
from yarl import URL

from openclust.client.dialled import Dialled
from openclust.client.failures import NoBroker
from openclust.client.hosts import Hosts, address_of
from openclust.client.search import BACKOFF_MAX_S, BACKOFF_MIN_S, REDIRECTS_MAX, AnotherNamed, Search, backoff_s


class Taken:
    """An open connection, as far as a search looks at it."""

    known_hosts = ""


class Pretence:
    """Brokers by address: what each does with an attempt. Keeps who was asked, and the pauses between rounds."""

    def __init__(self, **behaviour: Exception | None) -> None:
        self.behaviour = {f"{name}:1": what for name, what in behaviour.items()}
        self.asked: list[str] = []
        self.redirected: list[bool] = []
        self.pauses: list[float] = []

    async def dial(self, url: URL, *, is_redirected: bool) -> Dialled:
        address = address_of(url)
        self.asked.append(address[0])
        self.redirected.append(is_redirected)
        problem = self.behaviour[address]
        if problem is not None:
            raise problem
        return cast(Dialled, Taken())

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def search(self, *names: str) -> Search:
        hosts = Hosts([f"amqp://{name}:1/" for name in names], lambda _: None)
        return Search(hosts, self.dial, 1.0, self.pause)

    def run(self, search: Search, rounds: int | None = 1) -> str:
        asyncio.run(search.run(rounds))
        return address_of(search.url)


DOWN = ConnectionRefusedError(111, "Connect call failed")
WRONG = ProbableAuthenticationError("ACCESS_REFUSED - wrong password")


def test_the_first_that_takes_the_connection_has_it() -> None:
    world = Pretence(a=DOWN, b=None, c=None)
    assert world.run(world.search("a", "b", "c")) == "b:1"
    assert world.asked == ["a", "b"]
    assert world.pauses == []


def test_rounds_have_pauses_between_them_and_the_last_one_tells() -> None:
    world = Pretence(a=DOWN, b=TimeoutError())
    with pytest.raises(NoBroker) as refused:
        world.run(world.search("a", "b"), 3)
    assert world.asked == ["a", "b"] * 3
    assert len(world.pauses) == 2
    assert refused.value.tried == {"a:1": "connection refused", "b:1": "no answer within 1 s"}


def test_a_redirect_is_followed_at_once() -> None:
    world = Pretence(a=AnotherNamed("c:1"), b=None, c=None)
    assert world.run(world.search("a", "b")) == "c:1"
    assert world.asked == ["a", "c"]
    assert world.redirected == [False, True]


def test_one_that_a_closing_broker_named_is_told_that_we_were_sent() -> None:
    world = Pretence(a=None, b=DOWN, c=None)
    search = world.search("a", "b", "c")
    search.hosts.lost(search.url, "moved to b:1 (draining)")
    assert world.run(search) == "c:1"
    assert world.asked == ["b", "c"]
    assert world.redirected == [True, False]


def test_known_hosts_of_a_redirect_are_tried_in_the_next_round() -> None:
    world = Pretence(a=AnotherNamed("b:1", "b:1,c:1"), b=DOWN, c=None)
    assert world.run(world.search("a"), 2) == "c:1"
    assert world.asked == ["a", "b", "a", "b", "c"]


def test_one_that_failed_in_this_round_is_not_asked_again_because_another_sends_us_there() -> None:
    world = Pretence(a=DOWN, b=AnotherNamed("a:1"))
    with pytest.raises(NoBroker, match="b:1: sends us to a:1, which failed"):
        world.run(world.search("a", "b"))
    assert world.asked == ["a", "b"]


def test_who_sends_us_to_a_dead_one_is_not_asked_again_in_this_round() -> None:
    world = Pretence(a=AnotherNamed("b:1"), b=AnotherNamed("c:1"), c=DOWN)
    with pytest.raises(NoBroker) as refused:
        world.run(world.search("a", "b", "c"))
    assert world.asked == ["a", "b", "c"]
    assert refused.value.tried == {
        "a:1": "sends us on to c:1",
        "b:1": "sends us on to c:1",
        "c:1": "connection refused",
    }


def test_redirects_in_a_row_have_an_end() -> None:
    world = Pretence(a=AnotherNamed("b:1"), b=AnotherNamed("a:1"))
    with pytest.raises(NoBroker, match=f"redirected {REDIRECTS_MAX} times in a row"):
        world.run(world.search("a", "b"))
    assert len(world.asked) == REDIRECTS_MAX + 1


def test_nobody_is_asked_twice_for_what_is_refused_for_good() -> None:
    world = Pretence(a=WRONG, b=ConnectionClosed(402, "INVALID_PATH - another cluster's key"))
    with pytest.raises(NoBroker):
        world.run(world.search("a", "b"), 3)
    assert world.asked == ["a", "b"]


def test_one_refusal_for_good_does_not_speak_for_the_others() -> None:
    world = Pretence(a=WRONG, b=DOWN)
    with pytest.raises(NoBroker):
        world.run(world.search("a", "b"), 2)
    assert world.asked == ["a", "b", "a", "b"]


def test_a_search_without_an_end_goes_on_through_anything() -> None:
    world = Pretence(a=WRONG)

    async def pause(_: float) -> None:
        if len(world.asked) == 20:
            world.behaviour["a:1"] = None

    search = Search(Hosts("amqp://a:1/", lambda _: None), world.dial, 1.0, pause)
    assert world.run(search, None) == "a:1"
    assert len(world.asked) == 21


def test_a_mistake_of_ours_is_not_taken_for_a_broker_that_is_down() -> None:
    world = Pretence(a=AttributeError("typo"), b=None)
    with pytest.raises(AttributeError):
        world.run(world.search("a", "b"))


def test_pauses_double_to_a_limit_and_are_never_in_step() -> None:
    for rounds, longest in [(1, BACKOFF_MIN_S), (2, 0.2), (3, 0.4), (7, BACKOFF_MAX_S), (10_000, BACKOFF_MAX_S)]:
        samples = {backoff_s(rounds) for _ in range(100)}
        assert all(longest / 2 <= each <= longest for each in samples)
        assert len(samples) > 50
