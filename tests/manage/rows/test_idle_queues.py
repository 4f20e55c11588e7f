"""Since when nothing has happened to a queue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openclust.manage.rows import idle_queues
from openclust.manage.rows.idle_queues import IdleQueues
from tests.support.client import Client, new_broker


@pytest.fixture
def client() -> Client:
    client = Client(new_broker())
    client.queue("q")
    client.broker.set_clock(client.broker.now_ms, 1_700_000_000_000)
    return client


def test_a_queue_is_idle_since_it_was_first_seen_as_it_is(client: Client) -> None:
    idle = IdleQueues(client.broker)
    queue = client.broker.vhosts["/"].queues["q"]
    assert idle.look(queue) is None
    client.broker.now_ms += 60_000
    assert idle.look(queue) == idle.look(queue) == "2023-11-14T22:13:20.000+00:00"


@pytest.mark.parametrize(
    "happens",
    [
        lambda client: client.publish("q", b"x"),
        lambda client: client.consume("q", no_ack=True),
        lambda client: (client.publish("q", b"x"), client.get("q")),
    ],
    ids=["publish", "consume", "publish and get"],
)
def test_a_queue_to_which_something_happens_is_not_idle(client: Client, happens: Callable[[Client], object]) -> None:
    idle = IdleQueues(client.broker)
    queue = client.broker.vhosts["/"].queues["q"]
    idle.look(queue)
    happens(client)
    assert idle.look(queue) is None
    assert idle.look(queue) is not None


def test_a_queue_whose_messages_pass_straight_to_a_consumer_is_not_idle(client: Client) -> None:
    idle = IdleQueues(client.broker)
    queue = client.broker.vhosts["/"].queues["q"]
    client.consume("q", no_ack=True)
    idle.look(queue)
    client.publish("q", b"x")
    assert idle.look(queue) is None


def test_only_so_many_queues_are_remembered(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_queues, "QUEUES_MAX", 1)
    idle = IdleQueues(client.broker)
    client.queue("r")
    queues = client.broker.vhosts["/"].queues
    for name in ("q", "r", "q"):
        assert idle.look(queues[name]) is None
