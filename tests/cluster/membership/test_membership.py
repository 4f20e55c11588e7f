"""A broker as a member of its cluster: whom it admits, and what it hears from them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.effects import Note
from openclust.broker.model.limits import Limits
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.cluster.election.events import StoreRead
from openclust.cluster.election.view import Terms, begin, is_online
from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.hello import Hello, introduce
from openclust.cluster.protocol.messages import ControlMessage, Goodbye, encode
from openclust.cluster.protocol.status import Ended, Reign, Seniority, Status
from openclust.wire.errors import AmqpError

PRIMARIES = ("p1", "p2", "p3")


def hello(name: str, **other: object) -> Hello:
    return msgspec.structs.replace(Hello(cluster_key="k", name=name, primaries=PRIMARIES), **other)


def member(secret: str = "s", save_vote: Callable[[Reign], bool] = lambda vote: True) -> Membership:
    names = itertools.count()
    broker = Broker(Limits(), random_name=lambda: f"name-{next(names)}")
    broker.now_ms = 10_000
    election = begin(Terms(primaries=PRIMARIES), "p1", 1_000, broker.now_ms)
    membership = Membership(broker, hello("p1"), secret, election, save_vote=save_vote)
    membership.want_primaries({name: f"127.0.0.1:{port}" for port, name in enumerate(PRIMARIES, 5682)})
    broker.cluster = membership
    return membership


def dial(nonce: str = "n", *, is_loopback: bool = True) -> Connection:
    """A connection that another broker has opened to this one."""
    peer = Peer("10.0.0.2", 4_000, is_loopback, is_peer=True)
    closed: list[str] = []
    return cast(
        Connection,
        SimpleNamespace(
            nonce=nonce, peer=peer, closed=closed, close=lambda code, text: closed.append(f"{code} {text}")
        ),
    )


def admitted(membership: Membership, name: str, nonce: str = "n") -> Connection:
    """The connection of a peer that has proved itself."""
    connection = dial(nonce)
    connection.user = membership.admit(connection, introduce(hello(name), nonce, "s"))
    return connection


def status(name: str, number: int = 1, reign: Reign | None = None, stands_in: int = 0) -> Status:
    return Status(
        number=number,
        seniority=Seniority(500, name),
        phase="active",
        stands_in=stands_in,
        reign=reign,
        vote=reign,
    )


def say(membership: Membership, connection: Connection, message: ControlMessage) -> None:
    membership.control(connection, encode(message))


def refusal(membership: Membership, connection: Connection, response: bytes) -> str:
    with pytest.raises(AmqpError) as refused:
        membership.admit(connection, response)
    return refused.value.text


def test_a_peer_with_the_secret_is_admitted_as_a_user_of_type_cluster() -> None:
    user = member().admit(dial("n"), introduce(hello("p2"), "n", "s"))
    assert (user.name, user.type) == ("peer:p2", "cluster")
    assert user.may("write", "", "amq.cluster")
    assert not user.may("write", "", "amq.topic") and not user.may("configure", "", "queue")
    assert not user.may("write", "/", "amq.topic")


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


def test_a_primary_with_another_list_of_primaries_is_told_so() -> None:
    other = introduce(hello("p9", primaries=("p1", "p2", "p9")), "n", "s")
    assert "primaries differ" in refusal(member(), dial(), other)


def test_a_secondary_is_on_no_list_and_is_dialled_back() -> None:
    membership = member()
    membership.links.peers_changed = False
    secondary = hello("s1", role="secondary", primaries=(), peer="127.0.0.1:6000")
    user = membership.admit(dial(), introduce(secondary, "n", "s"))
    assert (user.name, membership.links.is_secondary("s1")) == ("peer:s1", True)
    assert membership.links.peers["s1"] == "127.0.0.1:6000" and membership.links.peers_changed


def test_a_secondary_that_is_gone_is_dialled_no_more() -> None:
    membership = member()
    connection = dial()
    secondary = hello("s1", role="secondary", primaries=(), peer="127.0.0.1:6000")
    connection.user = membership.admit(connection, introduce(secondary, "n", "s"))
    membership.links.peers_changed = False
    membership.connection_lost(connection)
    assert "s1" not in membership.links.peers and membership.links.peers_changed


def test_bytes_that_are_no_introduction_are_refused() -> None:
    assert "introduced" in refusal(member(), dial(), b"\xff{")


def test_what_a_peer_says_reaches_the_election() -> None:
    membership = member()
    membership.tell(StoreRead(10_000))
    say(membership, admitted(membership, "p2"), status("p2", reign=Reign(3, "p2")))
    assert is_online(membership.election, "p2")
    assert (membership.root, membership.epoch, membership.is_root) == ("p2", 3, False)


def test_a_peer_speaks_for_itself_only() -> None:
    membership = member()
    connection = admitted(membership, "p2")
    with pytest.raises(AmqpError, match="speaks for p3"):
        say(membership, connection, status("p3"))
    with pytest.raises(AmqpError, match="not a control message"):
        membership.control(connection, b"\xc1")
    assert not membership.election.peers


def test_a_peer_whose_link_ends_is_offline_at_once() -> None:
    membership = member()
    first = admitted(membership, "p2")
    say(membership, first, status("p2"))
    second = admitted(membership, "p2", "m")
    membership.connection_lost(first)
    assert is_online(membership.election, "p2"), "the later link is whole"
    membership.connection_lost(second)
    assert not is_online(membership.election, "p2")


def test_a_newer_link_takes_the_place_of_the_older() -> None:
    membership = member()
    first, second = admitted(membership, "p2"), admitted(membership, "p2", "m")
    assert first.closed == ["320 CONNECTION_FORCED - a newer link of the same broker takes its place"]  # type: ignore[attr-defined]
    assert not second.closed  # type: ignore[attr-defined]


def test_what_an_older_link_still_says_is_not_heard() -> None:
    membership = member()
    first = admitted(membership, "p2")
    admitted(membership, "p2", "m")
    say(membership, first, status("p2"))
    assert not membership.election.peers


def test_a_vote_is_put_on_disk_before_it_is_told() -> None:
    on_disk: list[tuple[Reign, int]] = []

    def save(vote: Reign) -> bool:
        on_disk.append((vote, membership.links.outboxes["p2"].sent))
        return True

    membership = member(save_vote=save)
    membership.tell(StoreRead(10_000))
    membership.link_up("p2", 4_096)
    membership.broker.now_ms = 11_000
    connection = admitted(membership, "p2")
    sent = membership.links.outboxes["p2"].sent
    say(membership, connection, status("p2", stands_in=1))
    assert on_disk[0] == (Reign(1, "p2"), sent), "nothing was said before the vote was on disk"
    assert membership.links.outboxes["p2"].sent > sent


def test_a_vote_that_cannot_be_put_on_disk_is_not_told() -> None:
    membership = member(save_vote=lambda vote: False)
    membership.tell(StoreRead(10_000))
    membership.link_up("p2", 4_096)
    membership.broker.now_ms = 11_000
    connection = admitted(membership, "p2")
    sent = membership.links.outboxes["p2"].sent
    say(membership, connection, status("p2", stands_in=1))
    assert membership.election.vote == Reign(1, "p2")
    assert membership.links.outboxes["p2"].sent == sent


def lines(membership: Membership) -> list[str]:
    """What it has logged since it was asked last."""
    effects, membership.broker.effects = membership.broker.effects, []
    return [f"{each.level}: {each.text}" for each in effects if isinstance(each, Note)]


@pytest.mark.parametrize("role", ["primary", "secondary"])
def test_a_peer_that_is_gone_without_a_word_is_named(role: str) -> None:
    membership = member()
    name = "p2" if role == "primary" else "s1"
    connection = dial()
    primaries = PRIMARIES if role == "primary" else ()
    said = hello(name, role=role, primaries=primaries, peer="127.0.0.1:6000")
    connection.user = membership.admit(connection, introduce(said, "n", "s"))
    membership.connection_lost(connection)
    assert lines(membership) == [f"warning: lost {role} {name}: its link to this broker has ended"]


def test_a_peer_that_says_goodbye_has_stopped_and_did_not_crash() -> None:
    membership = member()
    membership.tell(StoreRead(10_000))
    membership.link_up("p2", 4_096)
    connection = admitted(membership, "p2")
    say(membership, connection, status("p2", reign=Reign(3, "p2")))
    say(membership, connection, msgspec.structs.replace(status("p2", 2), ended=Ended(3, "this broker stops")))
    say(membership, connection, Goodbye(reason="asked by SIGTERM"))
    assert not is_online(membership.election, "p2") and membership.links.outboxes["p2"].peer_has_stopped
    membership.connection_lost(connection)
    assert lines(membership) == [
        "info: p2 is root of epoch 3",
        "info: the root p2 of epoch 3 has given up its place: this broker stops",
        "info: p2 has stopped: asked by SIGTERM",
    ]


def test_a_peer_that_came_back_after_a_goodbye_can_crash_like_any_other() -> None:
    membership = member()
    say(membership, admitted(membership, "p2"), Goodbye(reason="asked by SIGTERM"))
    again = admitted(membership, "p2", "m")
    lines(membership)
    membership.connection_lost(again)
    assert lines(membership) == ["warning: lost primary p2: its link to this broker has ended"]


def test_a_broker_that_leaves_blames_nobody_for_what_follows() -> None:
    membership = member()
    membership.tell(StoreRead(10_000))
    membership.link_up("p2", 4_096)
    connection = admitted(membership, "p2")
    say(membership, connection, status("p2", reign=Reign(3, "p2")))
    lines(membership)
    membership.leave("asked by SIGTERM")
    sent = membership.links.outboxes["p2"].sent
    membership.connection_lost(connection)
    membership.broker.now_ms += 1_000
    membership.tick()
    assert lines(membership) == []
    assert membership.links.outboxes["p2"].sent <= sent + 1, (
        "after its goodbye it says nothing of itself, but where it is"
    )
