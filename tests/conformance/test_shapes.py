"""Our answers have RabbitMQ's statuses, and every field of its answers in the same type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.record import SHAPES, recorded
from tests.conformance.scene import Broker
from tests.conformance.shapes import Shape, differences, shape_of
from tests.support.manage.running_api import running_api

pytestmark = pytest.mark.sockets

THEIRS: dict[str, Any] = json.loads(SHAPES.read_text(encoding="utf-8"))

NOT_YET = frozenset(SHAPES.with_name("not_yet.txt").read_text(encoding="utf-8").splitlines())
"""Calls that do not answer as RabbitMQ does. The list may only get shorter: what answers rightly must be taken off."""


@pytest.fixture(scope="module")
def ours() -> Iterator[dict[str, Any]]:
    with running_api() as api:
        host, port = api.on_loop(lambda server: server.listeners[0].address)
        yield recorded(Broker((host, port), ("127.0.0.1", api.port)))


@pytest.mark.parametrize("question", sorted(THEIRS))
def test_an_answer_has_the_shape_of_rabbitmqs(ours: dict[str, Any], question: str) -> None:
    wanted, found = THEIRS[question], ours[question]
    problems = differences(wanted["shape"], found["shape"])
    if found["status"] != wanted["status"]:
        problems.insert(0, f"the status is {found['status']}, not {wanted['status']}")
    if question in NOT_YET:
        assert problems, f"take '{question}' off not_yet.txt: it answers as RabbitMQ does"
    else:
        assert not problems, "\n".join(problems)


def test_a_field_that_is_missing_or_of_another_type_is_found() -> None:
    wanted: Shape = shape_of({"items": [{"name": "q", "messages": 1}], "page": 1})
    assert differences(wanted, shape_of({"items": [{"name": "q", "messages": 1, "more": 2}], "page": 1})) == []
    assert differences(wanted, shape_of({"items": [{"name": 1}], "page": 1})) == [
        "items[].messages is missing (number)",
        "items[].name is number, not string",
    ]


def test_what_there_is_nothing_of_may_be_missing_but_is_of_the_right_type() -> None:
    wanted: Shape = shape_of([{"garbage_collection": {"minor_gcs": 1}, "reductions": 1}])
    assert differences(wanted, shape_of([{}])) == []
    assert differences(wanted, shape_of([{"reductions": "many"}])) == ["[].reductions is string, not number"]
