"""How brokers know each other: what each says of itself, and the proof."""

from __future__ import annotations

import msgspec
import pytest

from openclust.cluster.hello import PROTOCOL, Hello, Introduction, difference, digest, introduce, is_proven

HELLO = Hello(cluster_key="k", name="p1", primaries=digest(["p1", "p2"]))


def received(nonce: str, secret: str, hello: Hello = HELLO) -> Introduction:
    return msgspec.json.decode(introduce(hello, nonce, secret), type=Introduction)


def test_who_holds_the_secret_proves_it_without_sending_it() -> None:
    assert is_proven(received("nonce", "secret"), "nonce", "secret")
    assert b"secret" not in introduce(HELLO, "nonce", "secret")


@pytest.mark.parametrize(("nonce", "secret"), [("nonce", "another"), ("another", "secret"), ("nonce", "")])
def test_another_secret_or_an_old_nonce_proves_nothing(nonce: str, secret: str) -> None:
    assert not is_proven(received(nonce, secret), "nonce", "secret")


def test_a_proof_is_for_the_name_it_was_made_for() -> None:
    stolen = received("nonce", "secret")
    forged = msgspec.structs.replace(stolen, hello=msgspec.structs.replace(HELLO, name="p2"))
    assert not is_proven(forged, "nonce", "secret")


def test_brokers_of_one_cluster_differ_in_nothing_but_their_names() -> None:
    assert difference(HELLO, msgspec.structs.replace(HELLO, name="p2")) is None


@pytest.mark.parametrize(
    ("item", "value"),
    [("protocol", PROTOCOL + 1), ("cluster_key", "other"), ("primaries", digest(["p1"])), ("heartbeat_ms", 250)],
)
def test_what_differs_is_named_with_both_values(item: str, value: object) -> None:
    theirs = msgspec.structs.replace(HELLO, name="p2", **{item: value})
    problem = difference(HELLO, theirs)
    assert problem is not None
    assert item in problem and repr(value) in problem and repr(getattr(HELLO, item)) in problem


def test_a_broker_that_meets_itself_notices() -> None:
    problem = difference(HELLO, HELLO)
    assert problem is not None and "itself" in problem


def test_the_order_of_the_primaries_does_not_matter() -> None:
    assert digest(["a", "b"]) == digest(["b", "a"]) != digest(["a", "c"])
