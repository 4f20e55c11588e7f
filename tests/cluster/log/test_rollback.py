"""How entries of the log are undone: what they took out is back in its place, and what they brought is gone."""

from __future__ import annotations

from typing import Any

import pytest

from openclust.broker.backlog.backlog import Entry
from openclust.broker.journal.batch import Batch, encode_batch
from openclust.broker.journal.journal import KEPT, Journal
from openclust.broker.journal.store_rows import Contents, Keep, StoredRow
from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import DeclareQueue
from openclust.broker.model.message import Message, delivery_suffix
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.cluster.log import rollback as module
from openclust.cluster.log.rollback import Rollback
from openclust.cluster.protocol.status import Position
from openclust.wire.properties import Properties, encode_header
from tests.support.client import Client, new_broker
from tests.support.cluster.joined import Joined


@pytest.fixture
def broker() -> Broker:
    return new_broker(journal=Journal("shared"))


def declare(broker: Broker, **arguments: Any) -> Queue:
    Client(broker).queue("q", durable=True, **arguments)
    broker.journal.is_in_charge = False
    return broker.vhosts["/"].queues["q"]


def at(number: int) -> Position:
    return Position(1, number)


def entry_at(seq: int, body: bytes = b"1", **properties: Any) -> Entry:
    header = encode_header(Properties(**properties), len(body))
    return Entry(Message("", "q", header, body, delivery_suffix("", "q")), seq, recorded=KEPT)


def enter(undo: Rollback, queue: Queue, number: int, *seqs: int, is_own: bool = False, **properties: Any) -> None:
    """An entry of the log brings these."""
    left = [(queue, replaced) for seq in seqs if (replaced := queue.restore(entry_at(seq, **properties))) is not None]
    undo.did(at(number), left, [(queue, seq) for seq in seqs], is_own=is_own)


def leave(undo: Rollback, queue: Queue, number: int, *seqs: int) -> None:
    """An entry of the log takes these out."""
    undo.did(at(number), [(queue, entry) for seq in seqs if (entry := queue.remove(seq)) is not None], [])


def places(queue: Queue) -> list[int]:
    return [entry.seq for entry in queue.backlog]


class NoPages:
    """A store of which nobody asks anything back."""

    def page(self, number: int) -> bytes:
        raise OSError(2, "no such page")

    def spooled(self, part: int) -> bytes:
        raise OSError(2, "no such part")


def pages(broker: Broker) -> list[tuple[int, int]]:
    """Which messages a checkpoint has: of each page the first place and the last."""
    return [(page.first, page.last) for page in broker.journal.page_store.collect(0, 0, "", []).pages if page.count]


def test_what_came_goes_and_what_went_is_back(broker: Broker) -> None:
    queue, undo = declare(broker), Rollback()
    enter(undo, queue, 1, 1, 2, 3)
    held = broker.memory_accounts.held_bytes
    leave(undo, queue, 2, 2)
    enter(undo, queue, 3, 4)
    assert undo.back_to(at(1)) == []
    assert places(queue) == [1, 2, 3] and queue.ready_bytes == 3
    assert broker.memory_accounts.held_bytes == held and all(entry.recorded > 0 for entry in queue.backlog)


def test_what_an_own_reign_brought_is_given_out_but_not_what_was_taken_of_it(broker: Broker) -> None:
    queue, undo = declare(broker), Rollback()
    enter(undo, queue, 1, 1)
    enter(undo, queue, 2, 2, 3, is_own=True)
    enter(undo, queue, 3, 4)
    leave(undo, queue, 4, 2)
    adrift = undo.back_to(at(1))
    assert adrift is not None and [entry.seq for _, entry in adrift] == [3]
    assert places(queue) == [1]


def test_the_last_value_before_is_the_last_value_again(broker: Broker) -> None:
    queue, undo = declare(broker, x_last_value_key="k"), Rollback()
    enter(undo, queue, 1, 1, headers={"k": "a"})
    enter(undo, queue, 2, 2, headers={"k": "a"})
    assert places(queue) == [2]
    assert undo.back_to(at(1)) == []
    assert places(queue) == [1]
    enter(undo, queue, 2, 5, headers={"k": "a"})
    assert places(queue) == [5], "it is known by its key"


def test_the_last_value_that_was_again_and_is_no_more_is_in_no_page(broker: Broker) -> None:
    broker.journal.page_store.source = NoPages()
    queue, undo = declare(broker, x_last_value_key="k"), Rollback()
    enter(undo, queue, 1, 1, headers={"k": "a"})
    enter(undo, queue, 2, 2, headers={"k": "a"})
    undo.back_to(at(1))
    enter(undo, queue, 2, 5, headers={"k": "a"})
    assert pages(broker) == [(5, 5)]


def test_a_head_that_was_dropped_and_comes_back_and_goes_again_is_in_no_page(broker: Broker) -> None:
    broker.journal.page_store.source = NoPages()
    queue, undo = declare(broker), Rollback()
    enter(undo, queue, 1, 1, 2)
    leave(undo, queue, 2, 1)
    undo.back_to(at(1))
    assert places(queue) == [1, 2]
    leave(undo, queue, 2, 1)
    assert pages(broker) == [(2, 2)]


def test_what_is_back_in_its_place_is_in_a_page(broker: Broker) -> None:
    broker.journal.page_store.source = NoPages()
    queue, undo = declare(broker), Rollback()
    enter(undo, queue, 1, 1, 2)
    leave(undo, queue, 2, 1)
    undo.back_to(at(1))
    assert pages(broker) == [(1, 2)]


def test_a_refused_delivery_that_is_back_is_out_no_more(broker: Broker) -> None:
    queue = declare(broker, x_dead_letter_exchange="amq.fanout")
    queue.restore(entry_at(1))
    broker.journal.is_in_charge = True
    refused = queue.get(no_ack=False)
    assert refused is not None
    queue.reject(refused)
    assert list(queue.recorded_unacked) == [1], "its dead letter is nowhere yet"
    queue.reinstate(refused)
    assert places(queue) == [1] and not queue.recorded_unacked


def test_keys_of_a_dedup_window_are_forgotten_with_what_brought_them(broker: Broker) -> None:
    queue, undo = declare(broker, x_message_deduplication=True), Rollback()
    enter(undo, queue, 1, 1, message_id="a")
    assert queue.dedup is not None and "a" in queue.dedup
    undo.back_to(at(0))
    assert "a" not in queue.dedup


def test_no_further_than_a_definition(broker: Broker) -> None:
    queue, undo = declare(broker), Rollback()
    enter(undo, queue, 1, 1)
    undo.cannot(at(2))
    enter(undo, queue, 3, 2)
    assert undo.back_to(at(1)) is None and places(queue) == [1, 2]
    assert undo.back_to(at(2)) == [] and places(queue) == [1]


def test_what_is_committed_is_not_undone(broker: Broker) -> None:
    queue, undo = declare(broker), Rollback()
    enter(undo, queue, 1, 1)
    enter(undo, queue, 2, 2)
    undo.forget(at(1))
    assert undo.back_to(at(0)) is None
    assert undo.back_to(at(1)) == [] and places(queue) == [1]


def test_only_so_many_steps_and_so_much_of_what_left_is_kept(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS_MAX", 3)
    monkeypatch.setattr(module, "BYTES_MAX", 10)
    queue, undo = declare(broker), Rollback()
    for number in range(1, 6):
        enter(undo, queue, number, number)
    assert undo.base == at(2)
    undo.did(at(6), [(queue, entry_at(9, bytes(11)))], [])
    assert undo.base == at(6)


def test_a_queue_that_is_gone_is_left_alone(broker: Broker) -> None:
    queue, undo = declare(broker), Rollback()
    enter(undo, queue, 1, 1, 2)
    leave(undo, queue, 2, 1)
    broker.vhosts["/"].delete_queue("q")
    assert undo.back_to(at(0)) == []
    assert broker.memory_accounts.held_bytes == 0


def test_of_what_a_broker_begins_with_no_definition_is_undone() -> None:
    change = encode_change(DeclareQueue(vhost="/", name="q"))
    nothing = encode_batch(Batch([], []))
    rows = [Keep("opening", 1, 1, b"uuid"), Keep("change", 1, 2, change), Keep("work", 1, 3, nothing)]
    membership = Joined("p1", "p2", "p3", wait_for_root=False)["p1"]
    membership.recover(Contents(rows=[StoredRow(row, False) for row in rows]))
    undo = membership.replica.rollback
    assert undo.back_to(at(1)) is None, "the queue would stay"
    assert undo.back_to(at(2)) == []
