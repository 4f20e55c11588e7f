"""`openclust status`: what it tells of all brokers together."""

from __future__ import annotations

from typing import Any

import click
import msgspec
import pytest

from openclust.cli.cluster.cluster_view import ClusterView
from openclust.cli.cluster.whole_cluster import ask_whole, whole_lines
from openclust.cli.http_client import HttpAnswer
from tests.support.cli.fake_client import FakeClient
from tests.support.manage.fake_member import seen_by_root

NUMBERS = {
    "queue_totals": {"messages": 42, "messages_ready": 40, "messages_unacknowledged": 2},
    "object_totals": {"queues": 7, "connections": 9},
    "message_stats": {"publish_details": {"rate": 12.0}, "deliver_get_details": {"rate": 0.5}, "publish": 99},
}
WELL = [{"name": "p1", "mem_alarm": False, "disk_free_alarm": False}]


def view(**changed: Any) -> ClusterView:
    return msgspec.convert(seen_by_root() | changed, ClusterView)


def lines(*answers: Any, of: ClusterView | None = None) -> list[str]:
    seen = of or view()
    return whole_lines(ask_whole(FakeClient(*answers), seen))


def test_depth_and_rates_are_those_of_all_brokers() -> None:
    assert lines(NUMBERS, WELL) == [
        "all brokers: 42 messages (40 ready, 2 unacknowledged) in 7 queues, 9 connections",
        "all brokers: 12/s published, 0.5/s delivered",
    ]


def test_alarms_name_the_broker_and_what_is_short() -> None:
    nodes = [
        {"name": "p1", "mem_alarm": True, "disk_free_alarm": True},
        {"name": "s1\x1b", "mem_alarm": True},
        {"name": "s2", "running": False},
    ]
    assert lines({}, nodes) == ["alarm: p1 memory", "alarm: p1 disk", "alarm: s1\\x1b memory"]


def test_publishers_that_wait_are_told_by_broker() -> None:
    blocked = view(publishers={"is_blocked": True, "reason": "low on memory", "waiting": 7})
    blocked.brokers[1].is_blocked = True
    assert lines({}, WELL, of=blocked) == ["publishers wait at p2, p1"]


def test_brokers_that_did_not_answer_are_named() -> None:
    answers = HttpAnswer(200, {}, ("s1",)), HttpAnswer(200, WELL, ("s1", "s2"))
    assert lines(*answers) == ["no answer from s1, s2: its numbers are left out"]


def test_a_broker_that_cannot_tell_is_still_worth_its_own_view(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(HttpAnswer(500, {}, ()), HttpAnswer(404, {}, ())) == []

    def refuse(*_: object) -> HttpAnswer:
        raise click.ClickException("no answer")

    client = FakeClient({})
    monkeypatch.setattr(client, "ask", refuse)
    assert whole_lines(ask_whole(client, view())) == []
