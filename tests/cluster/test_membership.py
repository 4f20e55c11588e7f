"""A broker as a member of its cluster: whom it admits, and what it hears from them."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from openclust.broker.broker import Broker
from openclust.broker.connection import Connection
from openclust.broker.limits import Limits
from openclust.broker.peer import Peer
from openclust.cluster.events import Follow, PersistVote, Ready
from openclust.cluster.hello import Hello, digest, introduce
from openclust.cluster.membership import Membership
from openclust.cluster.status import Reign, Seniority, Status
from openclust.cluster.view import Terms, begin, is_online
from openclust.wire.errors import AmqpError

PRIMARIES = ("p1", "p2", "p3")


def hello(name: str, **other: object) -> Hello:
    return msgspec.structs.replace(Hello(cluster_key="k", name=name, primaries=digest(PRIMARIES)), **other)


def member(secret: str = "s") -> Membership:
    names = itertools.count()
    broker = Broker(Limits(), random_name=lambda: f"name-{next(names)}")
    broker.now_ms = 10_000
    election = begin(Terms(primaries=PRIMARIES), "p1", 1_000, broker.now_ms)
    membership = Membership(broker, hello("p1"), secret, election)
    broker.cluster = membership
    return membership


def dial(nonce: str = "n", *, is_loopback: bool = True) -> Connection:
    peer = Peer("10.0.0.2", 4_000, is_loopback, is_peer=True)
    closed: list[str] = []
    return cast(
        Connection,
        SimpleNamespace(
            nonce=nonce, peer=peer, closed=closed, close=lambda code, text: closed.append(f"{code} {text}")
        ),
    )


def status(name: str, number: int = 1, reign: Reign | None = None) -> bytes:
    return msgspec.msgpack.encode(
        Status(number=number, seniority=Seniority(500, name), phase="active", reign=reign, vote=reign)
    )


def refusal(membership: Membership, connection: Connection, response: bytes) -> str:
    with pytest.raises(AmqpError) as refused:
        membership.admit(connection, response)
    return refused.value.text


def test_a_peer_with_the_secret_is_admitted_as_a_user_of_type_cluster() -> None:
    user = member().admit(dial("n"), introduce(hello("p2"), "n", "s"))
    assert (user.name, user.type) == ("peer:p2", "cluster")
    assert user.may("write", "/", "amq.cluster")
    assert not user.may("write", "/", "amq.topic") and not user.may("configure", "/", "queue")


def test_a_peer_without_the_secret_is_refused() -> None:
    assert "secret" in refusal(member(), dial("n"), introduce(hello("p2"), "n", "wrong"))
    assert "secret" in refusal(member(), dial("fresh"), introduce(hello("p2"), "replayed", "s"))


def test_without_a_secret_only_the_loopback_is_admitted() -> None:
    open_to_all = introduce(hello("p2"), "n", "")
    assert member(secret="").admit(dial(), open_to_all).name == "peer:p2"
    assert "loopback" in refusal(member(secret=""), dial(is_loopback=False), open_to_all)


def test_a_peer_of_another_cluster_is_told_what_differs() -> None:
    other = introduce(hello("p2", cluster_key="other"), "n", "s")
    assert "cluster_key differs" in refusal(member(), dial(), other)


def test_who_is_on_no_list_is_refused() -> None:
    assert "no primary" in refusal(member(), dial(), introduce(hello("p9"), "n", "s"))


def test_bytes_that_are_no_introduction_are_refused() -> None:
    assert "introduced" in refusal(member(), dial(), b"\xff{")


def test_what_a_peer_says_reaches_the_election() -> None:
    membership = member()
    membership.tell(Ready(10_000))
    user = membership.admit(dial(), introduce(hello("p2"), "n", "s"))
    membership.control(user, status("p2", reign=Reign(3, "p2")))
    assert Follow(Reign(3, "p2")) in membership.effects
    assert is_online(membership.election, "p2")


def test_a_peer_speaks_for_itself_only() -> None:
    membership = member()
    user = membership.admit(dial(), introduce(hello("p2"), "n", "s"))
    with pytest.raises(AmqpError, match="speaks for p3"):
        membership.control(user, status("p3"))
    with pytest.raises(AmqpError, match="not a control message"):
        membership.control(user, b"\xc1")
    assert not membership.election.peers


def test_a_peer_whose_link_ends_is_offline_at_once() -> None:
    membership = member()
    first = dial()
    user = membership.admit(first, introduce(hello("p2"), "n", "s"))
    membership.control(user, status("p2"))
    second = dial("m")
    membership.admit(second, introduce(hello("p2"), "m", "s"))
    membership.connection_lost(first)
    assert is_online(membership.election, "p2"), "the later link is whole"
    membership.connection_lost(second)
    assert not is_online(membership.election, "p2")


def test_a_newer_link_takes_the_place_of_the_older() -> None:
    membership = member()
    first, second = dial("n"), dial("m")
    membership.admit(first, introduce(hello("p2"), "n", "s"))
    membership.admit(second, introduce(hello("p2"), "m", "s"))
    assert first.closed == ["320 CONNECTION_FORCED - a newer link of the same broker takes its place"]  # type: ignore[attr-defined]
    assert not second.closed  # type: ignore[attr-defined]


def test_a_vote_is_put_on_disk_before_it_is_told() -> None:
    membership = member()
    membership.tell(Ready(10_000))
    user = membership.admit(dial(), introduce(hello("p2"), "n", "s"))
    membership._broker.now_ms = 11_000
    candidate = Status(number=1, seniority=Seniority(500, "p2"), phase="active", stands_in=1)
    membership.effects.clear()
    membership.control(user, msgspec.msgpack.encode(candidate))
    kinds = [type(effect).__name__ for effect in membership.effects]
    assert PersistVote(Reign(1, "p2")) in membership.effects
    assert kinds.index("PersistVote") < kinds.index("Tell")
