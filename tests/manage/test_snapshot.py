"""The level of reliability that a queue is shown with."""

from __future__ import annotations

import pytest

from openclust.broker.changes import DeclareQueue, perform
from openclust.broker.journal import Journal
from openclust.manage import snapshot
from tests.cluster.test_checkpoints import Life, publish
from tests.simulator.store import ModelStore
from tests.support.client import new_broker

TRANSIENT = {"transient": "fully transient", "persistent": "fully transient"}
PERSISTENT = {"transient": "fully transient", "persistent": "persistent"}
IN_MEMORIES = {"transient": "reliable transient", "persistent": "reliable transient"}
RELIABLE = {"transient": "reliable transient", "persistent": "reliable persistent"}


@pytest.mark.parametrize(
    ("journal", "durable", "replicate", "shown", "level"),
    [
        (Journal("shared", has_disk=True), True, None, "messages", RELIABLE),
        (Journal("shared", has_disk=True), False, "messages", "messages", RELIABLE),
        (Journal("shared", has_disk=True), True, "configuration", "configuration", PERSISTENT),
        (Journal("shared", has_disk=True), True, "none", "none", PERSISTENT),
        (Journal("shared", has_disk=True), False, None, "configuration", TRANSIENT),
        (Journal("shared"), True, None, "messages", IN_MEMORIES),
        (Journal("shared"), True, "none", "none", TRANSIENT),
        (Journal("alone", has_disk=True), True, None, "messages", PERSISTENT),
        (Journal("alone", has_disk=True), False, None, "configuration", TRANSIENT),
        (Journal("alone"), True, None, "messages", TRANSIENT),
    ],
)
def test_a_queue_is_shown_with_its_level(
    journal: Journal, durable: bool, replicate: str | None, shown: str, level: dict[str, str]
) -> None:
    broker = new_broker(journal=journal)
    arguments = {} if replicate is None else {"x-replicate": replicate}
    perform(broker, DeclareQueue(vhost="/", name="q", durable=durable, arguments=arguments))
    row = snapshot.queue(broker.vhosts["/"].queues["q"])
    assert (row["replicate"], row["level"]) == (shown, level)


def test_messages_that_are_on_disk_alone_are_counted() -> None:
    life = Life(ModelStore())
    queue = life.declare("q")
    for number in range(300):
        publish(queue, number)
        life.turn()
    row = snapshot.queue(queue)
    assert row["messages_ready"] == 300
    assert 0 < row["messages_paged_out"] < 300
