"""Whom a broker admits as a peer, and which connection is its."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.peer import Peer
from openclust.cluster.membership.admission import Admission
from openclust.cluster.protocol.hello import PROTOCOL, Hello, introduce
from openclust.cluster.protocol.peer_user import login, peer_name
from openclust.wire.errors import ConnectionError
from openclust.wire.frames import HEARTBEAT

PRIMARIES = ("p1", "p2", "p3")


def hello(name: str, **other: Any) -> Hello:
    return msgspec.structs.replace(Hello(cluster_key="k", name=name, primaries=PRIMARIES), **other)


def secondary(name: str) -> Hello:
    return hello(name, role="secondary", primaries=(), peer="127.0.0.1:6000")


def admission(secret: str = "s", own: Hello | None = None) -> Admission:
    mine = own or hello("p1")
    return Admission(secret, lambda: mine, lambda: PRIMARIES if mine.role == "primary" else ())


def dial(nonce: str = "n", *, is_loopback: bool = False, certificate_name: str = "") -> Connection:
    peer = Peer("10.0.0.2", 4_000, is_loopback, is_peer=True, certificate_name=certificate_name)
    closed: list[str] = []
    sent: list[bytes] = []
    fake = SimpleNamespace(
        nonce=nonce, peer=peer, closed=closed, close=lambda code, text: closed.append(text), sent=sent, send=sent.append
    )
    return cast(Connection, fake)


def admit(admission: Admission, connection: Connection, response: bytes) -> Hello:
    known = admission.check(connection, response)
    admission.admit(connection, known)
    connection.user = login(known.name)
    return known


def refusal(admission: Admission, connection: Connection, response: bytes) -> ConnectionError:
    with pytest.raises(ConnectionError) as refused:
        admission.check(connection, response)
    return refused.value


def test_a_proof_of_the_secret_is_enough_from_anywhere() -> None:
    assert admit(admission(), dial(), introduce(hello("p2"), "n", "s")) == hello("p2")


@pytest.mark.parametrize(("nonce", "secret"), [("n", "wrong"), ("another", "s"), ("n", "")])
def test_no_proof_no_admission_not_even_from_the_loopback(nonce: str, secret: str) -> None:
    error = refusal(admission(), dial(is_loopback=True), introduce(hello("p2"), nonce, secret))
    assert error.code == 403 and "secret" in error.text


def test_a_certificate_of_the_cluster_is_proof_enough() -> None:
    connection = dial(certificate_name="p2.example")
    assert admit(admission(), connection, introduce(hello("p2"), "n", "")).name == "p2"


def test_without_a_secret_only_the_loopback_is_admitted() -> None:
    assert admit(admission(secret=""), dial(is_loopback=True), introduce(hello("p2"), "n", "")).name == "p2"
    error = refusal(admission(secret=""), dial(), introduce(hello("p2"), "n", ""))
    assert error.code == 403 and "loopback" in error.text


@pytest.mark.parametrize("response", [b"", b"{}", b'{"hello": {}}', b"\xff{", b"guest\0guest"])
def test_another_way_to_introduce_oneself_is_refused(response: bytes) -> None:
    error = refusal(admission(), dial(), response)
    assert error.code == 502 and "introduced itself in another way" in error.text


@pytest.mark.parametrize(
    ("item", "value"),
    [("protocol", PROTOCOL + 1), ("cluster_key", "other"), ("primaries", ("p1",)), ("heartbeat_ms", 250)],
)
def test_what_differs_is_named(item: str, value: object) -> None:
    error = refusal(admission(), dial(), introduce(hello("p2", **{item: value}), "n", "s"))
    assert error.code == 530 and f"{item} differ" in error.text


def test_a_broker_of_another_protocol_is_told_so_whatever_else_it_says() -> None:
    """A proof is over all that is said: one of another version is no proof here, and the secret is not to blame."""
    error = refusal(admission(), dial(), b'{"hello": {"protocol": 1, "name": "p2", "primaries": 7}, "proof": "x"}')
    assert error.text == f"protocol differs: p1 has {PROTOCOL}, p2 has 1; run one version of openclust"


def test_a_broker_of_another_cluster_with_the_same_key_is_refused() -> None:
    mine = admission(own=hello("p1", uuid="one"))
    error = refusal(mine, dial(), introduce(hello("p2", uuid="other"), "n", "s"))
    assert "uuid differs" in error.text
    assert admit(mine, dial(), introduce(hello("p2"), "n", "s")).name == "p2", "one that never had a root has no uuid"


def test_a_broker_that_reaches_itself_notices() -> None:
    error = refusal(admission(), dial(), introduce(hello("p1"), "n", "s"))
    assert "reached itself" in error.text
    error = refusal(admission(own=hello("p1", life="a")), dial(), introduce(hello("p1", life="b"), "n", "s"))
    assert "the name 'p1' is taken by this broker" in error.text


def test_a_secondary_need_not_know_the_primaries() -> None:
    assert admit(admission(), dial(), introduce(secondary("s1"), "n", "s")).role == "secondary"


def test_secondaries_do_not_link_to_each_other() -> None:
    error = refusal(admission(own=secondary("s2")), dial(), introduce(secondary("s1"), "n", "s"))
    assert "secondary joins primaries" in error.text


def test_a_secondary_admits_the_primaries_it_joined() -> None:
    assert admit(admission(own=secondary("s2")), dial(), introduce(hello("p1"), "n", "s")).name == "p1"


def test_a_primary_that_is_not_on_the_list_is_refused() -> None:
    error = refusal(admission(), dial(), introduce(hello("p9"), "n", "s"))
    assert error.code == 530 and "'p9' is no primary of this cluster" in error.text


def test_a_secondary_with_the_name_of_a_primary_is_refused() -> None:
    """It would take the place of that primary's links."""
    error = refusal(admission(), dial(), introduce(secondary("p2"), "n", "s"))
    assert error.code == 530 and "'p2' is a primary's name" in error.text


def test_a_newer_link_takes_the_place_of_the_older_which_is_closed() -> None:
    mine = admission()
    first, second = dial("n"), dial("m")
    for connection in (first, second):
        admit(mine, connection, introduce(hello("p2"), connection.nonce, "s"))
    assert "newer link" in first.closed[0] and not second.closed  # type: ignore[attr-defined]
    assert mine.lost(first) is None, "the peer is still there"
    assert mine.connections == {"p2": second}
    assert mine.lost(second) == hello("p2")
    assert not mine.connections and not mine.hellos


def test_a_name_is_its_brokers_as_long_as_that_is_heard() -> None:
    mine = admission()
    first = dial()
    admit(mine, first, introduce(hello("p2", life="one", peer="10.0.0.2:5673"), "n", "s"))
    for _ in range(10):
        mine.beat()
        mine.heard("p2")
        error = refusal(mine, dial(), introduce(hello("p2", life="other"), "n", "s"))
        assert error.code == 530
        assert "'p2' is taken by a broker at 10.0.0.2, its peers at 10.0.0.2:5673: give one of the two" in error.text
    assert mine.connections == {"p2": first}


@pytest.mark.parametrize(
    ("of", "silent_beats"), [(hello("p2", life="one"), 3), (msgspec.structs.replace(secondary("s1"), life="one"), 30)]
)
def test_who_comes_back_after_a_crash_gets_in_when_its_last_life_is_missed(of: Hello, silent_beats: int) -> None:
    mine = admission()
    first, second = dial(), dial()
    admit(mine, first, introduce(of, "n", "s"))
    back = introduce(msgspec.structs.replace(of, life="two"), "n", "s")
    for _ in range(silent_beats):
        mine.beat()
        refusal(mine, second, back)
    mine.beat()
    assert mine.former(mine.check(second, back)) is first
    admit(mine, second, back)
    assert mine.connections == {of.name: second}
    assert mine.former(mine.check(second, back)) is None, "of the same life"


def test_a_broker_that_refuses_a_name_asks_whether_the_link_that_has_it_is_alive() -> None:
    mine = admission()
    first = dial()
    admit(mine, first, introduce(hello("p2", life="one"), "n", "s"))
    refusal(mine, dial(), introduce(hello("p2", life="two"), "n", "s"))
    assert first.sent == [HEARTBEAT]  # type: ignore[attr-defined]


def test_a_client_that_ends_was_no_peer() -> None:
    client = cast(Connection, SimpleNamespace(peer=Peer("127.0.0.1", 1, True), user=login("p2")))
    assert peer_name(client) == "" and admission().lost(client) is None
    assert peer_name(dial()) == "", "who has not introduced itself has no name"


def test_the_user_of_a_broker_may_speak_to_brokers_and_nothing_else() -> None:
    user = login("p2")
    assert (user.name, user.type, user.password_hash) == ("peer:p2", "cluster", "")
    assert user.may("write", "", "amq.cluster")
    assert not user.may("read", "", "amq.cluster") and not user.may("configure", "", "amq.cluster")
    assert not user.may_enter("/")
