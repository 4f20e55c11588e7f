"""Which policies count, how they merge, and what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from openclust.broker.model.policy import Kind, Policy, PolicyTable, ignored_keys


def policy(
    name: str = "p", pattern: str = ".*", vhost: str = "/", definition: dict[str, Any] | None = None, **rest: Any
) -> Policy:
    return Policy(vhost=vhost, name=name, pattern=pattern, definition=definition or {"max-length": 5}, **rest)


def test_the_matching_policy_of_the_highest_priority_counts_alone() -> None:
    table = PolicyTable()
    table.set(policy("low", definition={"max-length": 1, "message-ttl": 1}, priority=1))
    table.set(policy("high", definition={"max-length": 2}, priority=2))
    table.set(policy("elsewhere", pattern="^other$", priority=9))
    assert table.effective("/", "classic_queue", "q") == {"max-length": 2}


def test_of_equal_priorities_the_first_name_counts() -> None:
    table = PolicyTable()
    table.set(policy("b", definition={"max-length": 2}))
    table.set(policy("a", definition={"max-length": 1}))
    assert table.effective("/", "classic_queue", "q") == {"max-length": 1}


def test_a_pattern_is_searched_for_anywhere_in_the_name() -> None:
    table = PolicyTable()
    table.set(policy(pattern="log"))
    assert table.effective("/", "classic_queue", "my.logs")
    assert not table.effective("/", "classic_queue", "my.lines")


def test_a_policy_holds_in_its_virtual_host_only() -> None:
    table = PolicyTable()
    table.set(policy(vhost="one"))
    assert table.effective("one", "classic_queue", "q") and not table.effective("two", "classic_queue", "q")
    table.delete_vhost("one")
    assert not table.effective("one", "classic_queue", "q")


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", {"exchange", "classic_queue", "quorum_queue"}),
        ("queues", {"classic_queue", "quorum_queue"}),
        ("classic_queues", {"classic_queue"}),
        ("quorum_queues", {"quorum_queue"}),
        ("exchanges", {"exchange"}),
    ],
)
def test_a_policy_applies_to_the_kinds_it_names(apply_to: Any, kinds: set[str]) -> None:
    table = PolicyTable()
    table.set(policy(apply_to=apply_to))
    every: list[Kind] = ["exchange", "classic_queue", "quorum_queue"]
    assert {kind for kind in every if table.effective("/", kind, "x")} == kinds


def test_of_a_policy_and_an_operator_policy_the_smaller_limit_holds_and_the_operator_has_the_last_word() -> None:
    table = PolicyTable()
    table.set(policy(definition={"max-length": 10, "message-ttl": 5, "overflow": "drop-head", "delivery-limit": -1}))
    limits = {"max-length": 3, "message-ttl": 9, "overflow": "reject-publish", "expires": 7, "delivery-limit": 4}
    table.set(policy("op", definition=limits), operator=True)
    assert table.effective("/", "quorum_queue", "q") == {
        "max-length": 3,
        "message-ttl": 5,
        "overflow": "reject-publish",
        "expires": 7,
        "delivery-limit": 4,
    }


def test_setting_a_policy_again_replaces_it_and_deleting_says_whether_it_was_there() -> None:
    table = PolicyTable()
    table.set(policy(definition={"max-length": 1}))
    table.set(policy(definition={"max-length": 2}))
    assert [one.definition for one in table.list()] == [{"max-length": 2}]
    assert table.list(operator=True) == []
    assert table.delete("/", "p") and not table.delete("/", "p")
    assert table.list() == []


def test_policies_are_listed_by_virtual_host_and_name() -> None:
    table = PolicyTable()
    for vhost, name, priority in [("b", "x", 1), ("a", "y", 1), ("a", "x", 0)]:
        table.set(policy(name, vhost=vhost, priority=priority))
    assert [(one.vhost, one.name) for one in table.list()] == [("a", "x"), ("a", "y"), ("b", "x")]
    assert [one.name for one in table.list("b")] == ["x"]


def test_keys_that_have_no_effect_load_and_are_named() -> None:
    definition = {"ha-mode": "all", "queue-mode": "lazy", "max-length": 1}
    table = PolicyTable()
    table.set(policy(definition=definition))
    assert ignored_keys(definition) == ["ha-mode", "queue-mode"]
    assert table.effective("/", "classic_queue", "q") == {"max-length": 1}


@pytest.mark.parametrize(
    ("wrong", "operator", "words"),
    [
        (policy(definition={"max-lenght": 1}), False, "max-lenght is no policy key, did you mean max-length?"),
        (policy(definition={"x-expires": 1}), False, "did you mean expires?"),
        (policy(definition={"max-priority": 1}), False, "argument of queue.declare (x-max-priority)"),
        (policy(definition={"single-active-consumer": True}), False, "(x-single-active-consumer)"),
        (policy(definition={"max-length": -1}), False, "max-length: -1 is out of range"),
        (policy(definition={"max-length": "5"}), False, "max-length: expected integer"),
        (policy(definition={"max-length": True}), False, "max-length: expected integer, got bool"),
        (
            policy(definition={"consumer-prefetch-max": 0}),
            False,
            "consumer-prefetch-max: 0 is out of range, expected 1 to 65535",
        ),
        (policy(definition={"consumer-prefetch-max": "9"}), True, "consumer-prefetch-max: expected integer"),
        (policy(definition={"consumer-prefetch": 9}), False, "did you mean consumer-prefetch-max?"),
        (policy(definition={"expires": 0}), False, "expires: 0 is out of range, expected 1 to"),
        (policy(definition={"overflow": "x"}), False, "overflow: 'x' is unknown, expected drop-head"),
        (policy(definition={"dead-letter-exchange": 1}), False, "dead-letter-exchange: expected longstr"),
        (policy(pattern="("), False, "pattern '(' is not a regular expression"),
        (policy(""), False, "the name must not be empty"),
        (policy(apply_to="queue"), False, "apply-to 'queue' is unknown, did you mean queues?"),
        (Policy(vhost="/", name="p", pattern="", definition={}), False, "the definition is empty"),
        (policy(definition={"dead-letter-exchange": "x"}), True, "cannot be set by an operator policy"),
    ],
)
def test_a_wrong_policy_is_refused_in_one_line_that_names_it(wrong: Policy, operator: bool, words: str) -> None:
    table = PolicyTable()
    with pytest.raises(ValueError) as refused:
        table.set(wrong, operator=operator)
    text = str(refused.value)
    assert words in text and f"policy '{wrong.name}' in vhost '/'" in text and "\n" not in text
    assert table.list() == table.list(operator=True) == []


def test_a_policy_reads_and_writes_as_in_a_definitions_file() -> None:
    raw = {
        "vhost": "/",
        "name": "p",
        "pattern": ".*",
        "apply-to": "queues",
        "definition": {"expires": 1},
        "priority": 3,
    }
    read = msgspec.convert(raw, Policy)
    assert read.apply_to == "queues" and msgspec.to_builtins(read) == raw
