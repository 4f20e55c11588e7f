"""What queue.declare's arguments may be, in which words they are refused, and how policies join them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.model.field_type import comparable
from openclust.broker.model.queue_arguments import (
    NO_ARGS,
    QueueArgs,
    check_properties,
    difference,
    inequivalent,
    parse_queue_args,
    with_policy,
)
from openclust.wire.table import Timestamp


def parsed(arguments: dict[str, Any] | None) -> QueueArgs:
    return parse_queue_args(arguments, queue="q", vhost="/")


def refusal(arguments: dict[str, Any]) -> str:
    with pytest.raises(ValueError) as refused:
        parsed(arguments)
    return str(refused.value)


def test_every_argument_lands_in_its_field() -> None:
    assert parsed(
        {
            "x-message-ttl": 0,
            "x-expires": 1,
            "x-max-length": 2,
            "x-max-length-bytes": 3,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
            "x-dead-letter-strategy": "at-most-once",
            "x-max-priority": 255,
            "x-single-active-consumer": True,
            "x-delivery-limit": 4,
            "x-consumer-timeout": 5,
            "x-message-deduplication": True,
            "x-deduplication-size": 6,
            "x-deduplication-ttl": 7,
            "x-deduplication-header": "h",
            "x-replicate": "none",
            "x-queue-type": "classic",
        }
    ) == QueueArgs(
        message_ttl_ms=0,
        expires_ms=1,
        max_length=2,
        max_length_bytes=3,
        overflow="reject-publish-dlx",
        dead_letter_exchange="",
        dead_letter_routing_key="k",
        dead_letter_strategy="at-most-once",
        max_priority=255,
        single_active_consumer=True,
        delivery_limit=4,
        consumer_timeout_ms=5,
        dedup=True,
        dedup_size=6,
        dedup_ttl_ms=7,
        dedup_header="h",
        replicate="none",
    )
    assert parsed({"x-last-value-key": "h"}).last_value_key == "h"


@pytest.mark.parametrize("arguments", [None, {}, {"x-nonsense": 3, "other": None}, {"x-queue-mode": "lazy"}])
def test_queues_without_effective_arguments_share_one_object(arguments: dict[str, Any] | None) -> None:
    assert parsed(arguments) is NO_ARGS


def test_a_ttl_may_be_any_whole_number_of_milliseconds_up_to_two_to_the_53() -> None:
    assert parsed({"x-message-ttl": 2**53}).message_ttl_ms == 2**53
    assert "out of range" in refusal({"x-message-ttl": 2**53 + 1})


def test_a_delivery_limit_of_minus_one_is_none() -> None:
    assert parsed({"x-delivery-limit": -1}).delivery_limit is None


def test_a_quorum_queue_replicates_its_messages() -> None:
    assert parsed({"x-queue-type": "quorum"}).replicate == "messages"


@pytest.mark.parametrize("key", ["x-message-ttl", "x-expires", "x-max-length", "x-max-priority", "x-delivery-limit"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("a", "longstr"),
        (True, "bool"),
        (None, "void"),
        (1.0, "double"),
        (Decimal(1), "decimal"),
        (Timestamp(1), "timestamp"),
        (b"1", "binary"),
        ([1], "array"),
        ({"a": 1}, "table"),
    ],
)
def test_a_number_must_be_an_integer(key: str, value: object, kind: str) -> None:
    assert refusal({key: value}).startswith(
        f"invalid arg '{key}' for queue 'q' in vhost '/': expected integer, got {kind} "
    )


@pytest.mark.parametrize(
    ("arguments", "key", "words"),
    [
        ({"x-message-ttl": -1}, "x-message-ttl", "-1 is out of range, expected 0 to 9007199254740992"),
        ({"x-expires": 0}, "x-expires", "0 is out of range, expected 1 to"),
        ({"x-max-length": -1}, "x-max-length", "out of range"),
        ({"x-max-priority": 256}, "x-max-priority", "256 is out of range, expected 0 to 255"),
        ({"x-delivery-limit": -2}, "x-delivery-limit", "out of range"),
        ({"x-deduplication-size": 10**9}, "x-deduplication-size", "out of range"),
        ({"x-overflow": "x"}, "x-overflow", "'x' is unknown, expected drop-head, reject-publish or"),
        ({"x-overflow": 3}, "x-overflow", "expected longstr, got signedint '3'"),
        ({"x-queue-type": "foo"}, "x-queue-type", "'foo' is unknown, expected classic or quorum"),
        ({"x-queue-mode": "foo"}, "x-queue-mode", "expected default or lazy"),
        ({"x-single-active-consumer": 1}, "x-single-active-consumer", "expected bool, got signedint '1'"),
        ({"x-dead-letter-exchange": 2**40}, "x-dead-letter-exchange", "expected longstr, got long"),
        ({"x-dead-letter-routing-key": "k"}, "x-dead-letter-routing-key", "no x-dead-letter-exchange"),
        (
            {"x-dead-letter-routing-key": "\u00e9" * 128, "x-dead-letter-exchange": "x"},
            "x-dead-letter-routing-key",
            "longer than 255 bytes",
        ),
        ({"x-last-value-key": ""}, "x-last-value-key", "must not be empty"),
        ({"x-last-value-key": "k", "x-max-priority": 1}, "x-last-value-key", "cannot have x-max-priority"),
        ({"x-queue-type": "quorum", "x-max-priority": 1}, "x-max-priority", "cannot have priorities"),
        ({"x-queue-type": "quorum", "x-replicate": "none"}, "x-replicate", "replicates its messages"),
    ],
)
def test_a_wrong_value_is_refused_with_argument_queue_and_reason(
    arguments: dict[str, Any], key: str, words: str
) -> None:
    text = refusal(arguments)
    assert text.startswith(f"invalid arg '{key}' for queue 'q' in vhost '/': ") and words in text


def test_a_refusal_stays_one_short_line_whatever_the_value() -> None:
    text = refusal({"x-overflow": "a\r\n\udcff" * 10_000})
    assert len(text) < 300 and text.isprintable() and text.encode()


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 300), st.sampled_from(["", "none", "quorum", "drop-head"]), st.just([])
)
KEYS = st.sampled_from(["x-message-ttl", "x-max-priority", "x-overflow", "x-queue-type", "x-replicate", "x-other"])


@given(arguments=st.dictionaries(KEYS, VALUES), other=st.dictionaries(KEYS, VALUES))
def test_any_arguments_are_parsed_or_refused_and_never_break(arguments: dict[str, Any], other: dict[str, Any]) -> None:
    try:
        assert isinstance(parsed(arguments), QueueArgs)
    except ValueError as refused:
        assert str(refused).startswith("invalid arg 'x-")
    found = difference(arguments, other)
    assert found is None or comparable(arguments.get(found[0])) != comparable(other.get(found[0]))


@pytest.mark.parametrize(
    ("wanted", "existing", "text"),
    [
        ({"x-message-ttl": 20}, {"x-message-ttl": 10}, "received '20' but current is '10'"),
        ({"x-message-ttl": 20}, {}, "received the value '20' of type 'signedint' but current is none"),
        ({}, {"x-message-ttl": 20}, "received none but current is the value '20' of type 'signedint'"),
        ({}, {"x-max-length": 5, "x-message-ttl": 20}, "received none but current is the value '20'"),
        ({"x-message-ttl": 1.0}, {"x-message-ttl": 1}, "received '1.0' but current is '1'"),
        ({"x-message-ttl": True}, {"x-message-ttl": 1}, "received 'true' but current is '1'"),
    ],
)
def test_a_differing_argument_is_named_with_both_values(
    wanted: dict[str, Any], existing: dict[str, Any], text: str
) -> None:
    found = difference(wanted, existing)
    assert found is not None
    said = inequivalent(*found, queue="q", vhost="/")
    assert said.startswith(f"inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': {text}")


def test_a_flag_is_named_as_rabbitmq_writes_it() -> None:
    found = difference({"x-single-active-consumer": False}, {"x-single-active-consumer": True})
    assert found is not None
    assert inequivalent(*found, queue="q", vhost="/").endswith("received 'false' but current is 'true'")


@pytest.mark.parametrize(
    ("wanted", "existing"),
    [
        ({}, {}),
        ({"x-nonsense": 1}, {"x-nonsense": 2}),
        ({"x-queue-type": "classic"}, {}),
        ({}, {"x-queue-type": "classic"}),
        ({"x-max-length": 1, "x-expires": 2}, {"x-expires": 2, "x-max-length": 1}),
    ],
)
def test_arguments_that_mean_the_same_are_equivalent(wanted: dict[str, Any], existing: dict[str, Any]) -> None:
    assert difference(wanted, existing) is None


def test_a_quorum_queue_is_not_a_classic_one() -> None:
    assert difference({"x-queue-type": "quorum"}, {}) == ("x-queue-type", "quorum", None)


def test_of_an_argument_and_a_policy_the_smaller_limit_holds() -> None:
    args = parsed({"x-max-length": 5, "x-message-ttl": 5})
    both = with_policy(args, {"max-length": 3, "message-ttl": 9, "expires": 7})
    assert (both.max_length, both.message_ttl_ms, both.expires_ms) == (3, 5, 7)


def test_what_is_no_limit_comes_from_the_argument_first_and_the_policy_else() -> None:
    args = parsed({"x-overflow": "drop-head", "x-message-deduplication": False})
    policy = {"overflow": "reject-publish", "dead-letter-exchange": "dlx", "message-deduplication": True}
    both = with_policy(args, policy)
    assert (both.overflow, both.dead_letter_exchange, both.dedup) == ("drop-head", "dlx", False)


def test_a_policy_without_news_gives_the_same_object_back() -> None:
    assert with_policy(NO_ARGS, {}) is NO_ARGS
    assert with_policy(NO_ARGS, {"alternate-exchange": "x", "queue-mode": "lazy", "delivery-limit": -1}) is not None
    assert with_policy(parsed({"x-max-length": 1}), {"max-length": 2}).max_length == 1


@pytest.mark.parametrize(
    ("durable", "exclusive", "auto_delete", "name"),
    [(False, False, False, "non-durable"), (True, True, False, "exclusive"), (True, False, True, "auto-delete")],
)
def test_a_quorum_queue_is_durable_and_shared(durable: bool, exclusive: bool, auto_delete: bool, name: str) -> None:
    flags = {"durable": durable, "exclusive": exclusive, "auto_delete": auto_delete}
    with pytest.raises(ValueError, match=f"invalid property '{name}' for queue 'q' in vhost '/'"):
        check_properties(parsed({"x-queue-type": "quorum"}), queue="q", vhost="/", **flags)
    check_properties(NO_ARGS, queue="q", vhost="/", **flags)
