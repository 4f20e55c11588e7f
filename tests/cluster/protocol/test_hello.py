"""How brokers know each other: what each says of itself, and the proof."""

from __future__ import annotations

import msgspec
import pytest

from openclust.cluster.protocol.hello import Hello, Introduction, difference, introduce, is_proven

HELLO = Hello(cluster_key="k", name="p1", primaries=("p1", "p2"))


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


@pytest.mark.parametrize(("item", "value"), [("cluster_key", "other"), ("heartbeat_ms", 250)])
def test_what_differs_is_named_with_both_values_and_whose_each_is(item: str, value: object) -> None:
    theirs = msgspec.structs.replace(HELLO, name="p2", **{item: value})
    assert difference(HELLO, theirs) == f"{item} differs: p1 has {getattr(HELLO, item)!r}, p2 has {value!r}"


def test_of_two_lists_of_primaries_both_are_shown() -> None:
    theirs = msgspec.structs.replace(HELLO, name="p2", primaries=("p1", "p2", "p4"))
    assert difference(HELLO, theirs) == "primaries differ: p1 has p1, p2; p2 has p1, p2, p4"


def test_of_two_long_lists_of_primaries_only_what_differs_is_shown() -> None:
    """A peer is told 255 bytes, and would not hear the end of the second list."""
    many = tuple(f"broker-{number:02}.example.com" for number in range(9))
    mine = msgspec.structs.replace(HELLO, primaries=many)
    theirs = msgspec.structs.replace(HELLO, name="p2", primaries=(*many[1:], "other.example.com"))
    expected = "primaries differ: only p1 has broker-00.example.com; only p2 has other.example.com"
    assert difference(mine, theirs) == expected


def test_a_broker_that_meets_itself_notices() -> None:
    problem = difference(HELLO, HELLO)
    assert problem is not None and "itself" in problem
