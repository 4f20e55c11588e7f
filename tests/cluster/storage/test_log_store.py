"""The log's rows in the store: in their order, and never on disk before the disk has said so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.journal.journal import Journal
from openclust.broker.journal.store_rows import Cut, Keep
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.status import Position
from openclust.cluster.storage.log_store import LogStore
from openclust.cluster.storage.store_writes import StoreWrites
from tests.support.examples import examples


def new_store(*, has_disk: bool = True) -> tuple[StoreWrites, LogStore]:
    """Without checkpoints: nothing is told of rows."""
    writes = StoreWrites(Journal(has_disk=has_disk))
    nothing: Any = SimpleNamespace(kept=lambda *_: None, is_cut=lambda _: None, restart=lambda: None)
    return writes, LogStore(writes, nothing)


def entry(sequence: int, epoch: int = 1) -> LogEntry:
    return LogEntry(Position(epoch, sequence), "work", b"x")


def test_an_entry_is_on_disk_when_its_row_is() -> None:
    writes, log_store = new_store()
    log_store.keep(entry(1))
    log_store.keep(entry(2))
    assert [type(each) for each in writes.take_writes()] == [Keep, Keep]
    assert log_store.on_disk == Position() and not log_store.stored()
    writes.done = 1
    assert log_store.stored() and log_store.on_disk == Position(1, 1)
    assert not log_store.stored(), "there is nothing new"
    writes.done = 2
    assert log_store.stored() and log_store.on_disk == Position(1, 2)


def test_writes_are_taken_once_and_in_their_order() -> None:
    writes, log_store = new_store()
    log_store.keep(entry(1))
    log_store.cut(Position(1, 0))
    assert [type(each) for each in writes.take_writes()] == [Keep, Cut]
    assert writes.take_writes() == [] and (writes.given, writes.done) == (2, 0)


def test_without_a_disk_all_is_there_at_once() -> None:
    writes, log_store = new_store(has_disk=False)
    log_store.keep(entry(1))
    assert log_store.on_disk == Position(1, 1)
    assert (writes.given, writes.done) == (1, 1) and writes.take_writes() == []
    log_store.cut(Position())
    assert log_store.on_disk == Position()


def test_an_entry_that_was_cut_is_not_on_disk_though_its_row_was_written() -> None:
    writes, log_store = new_store()
    for sequence in (1, 2, 3):
        log_store.keep(entry(sequence))
    writes.done = 1
    log_store.stored()
    log_store.cut(Position(1, 2))
    writes.done = 3
    assert not log_store.stored() and log_store.on_disk == Position(1, 1)
    writes.done = 4
    assert log_store.stored() and log_store.on_disk == Position(1, 2)


def test_the_disk_is_not_ahead_of_a_log_that_was_cut_shorter() -> None:
    writes, log_store = new_store()
    for sequence in (1, 2, 3):
        log_store.keep(entry(sequence))
    writes.done = 3
    log_store.stored()
    log_store.cut(Position(1, 1))
    assert log_store.on_disk == Position(1, 1), "before the disk has followed"


def test_a_snapshot_is_where_the_log_begins() -> None:
    writes, log_store = new_store()
    log_store.keep(entry(1))
    log_store.restart(Position(4, 900))
    assert log_store.on_disk == Position()
    writes.done = writes.given
    assert log_store.stored() and log_store.on_disk == Position(4, 900)


@examples(50)
@given(st.lists(st.one_of(st.just("keep"), st.integers(0, 5).map(lambda back: ("cut", back)), st.just("disk"))))
def test_the_disk_is_never_ahead_of_the_log_and_gets_there(steps: list[Any]) -> None:
    writes, log_store = new_store()
    last = 0
    for step in steps:
        if step == "keep":
            last += 1
            log_store.keep(entry(last))
        elif step == "disk":
            writes.done = min(writes.given, writes.done + 1)
            log_store.stored()
        else:
            last = max(0, last - step[1])
            log_store.cut(Position(1, last) if last else Position())
        assert log_store.on_disk <= Position(1, last)
    writes.done = writes.given
    log_store.stored()
    assert log_store.on_disk.sequence == last
