"""The thread that writes: one transaction for all that waits, and the same writes until they are on disk."""

from __future__ import annotations

import resource
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from openclust.shell.store.store_schema import PAGE_BYTES, connect
from openclust.shell.store.tables import Tables, Written
from tests.support.opened_store import Opened, checkpoint, found, keep, kept, page


class Disk:
    """Stands before the tables: can hold a transaction up, or have it fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.transactions: list[int] = []
        self.error: Exception | None = None
        self.free = threading.Event()
        self.free.set()
        perform = Tables.perform

        def slow(tables: Tables, writes: Sequence[Written]) -> None:
            self.transactions.append(len(writes))
            assert self.free.wait(20)
            if self.error is not None:
                raise self.error
            perform(tables, writes)

        monkeypatch.setattr(Tables, "perform", slow)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    opened = Opened(tmp_path)
    yield opened
    if not opened.loop.is_closed():
        opened.close()


def test_all_that_waits_is_one_transaction(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.free.clear()
    opened.give(keep(1))
    opened.wait(lambda: disk.transactions == [1])
    for number in range(2, 102):
        opened.give(keep(number))
    disk.free.set()
    opened.wait(lambda: 101 in opened.done)
    assert opened.done == [1, 101]
    assert disk.transactions == [1, 100]
    assert opened.store.transactions is not None and sum(opened.store.transactions.counts) == 2


def test_a_transaction_has_a_bound_and_no_turn_is_split(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclust.shell.store.writer.GROUP_BYTES_MAX", 10_000)
    disk = Disk(monkeypatch)
    disk.free.clear()
    opened.give(keep(1))
    opened.wait(lambda: disk.transactions == [1])
    for number in (2, 5, 8):
        opened.give(*[keep(number + each, bytes(3_000)) for each in range(3)])
    disk.free.set()
    opened.wait(lambda: 10 in opened.done)
    assert disk.transactions == [1, 6, 3]


def test_a_write_that_fails_is_told_once_and_tried_until_it_succeeds(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    disk.error = OSError(5, "Input/output error")
    opened.give(keep(1))
    opened.give(keep(2), checkpoint(2, pages=[page(1)]))
    opened.wait(lambda: len(disk.transactions) > 3)
    assert opened.failures == [opened.store.failing] == [f"{tmp_path}: cannot write: Input/output error"]
    assert opened.done == []
    disk.error = None
    opened.write(keep(3))
    assert (opened.store.failing, opened.failures[1:], opened.done[-1]) == ("", [], 4)
    opened.close()
    assert found(tmp_path).rows == kept(keep(3))


def test_a_second_failure_is_told_again(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    for number in (1, 2):
        disk.error = sqlite3.OperationalError("no")
        opened.give(keep(number))
        opened.wait(lambda: len(opened.failures) == number)  # noqa: B023  it is called before the next round
        disk.error = None
        opened.write()


def test_a_mistake_of_ours_is_told_and_does_not_end_the_thread(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.error = TypeError("no such thing")
    opened.give(keep(1))
    opened.wait(lambda: bool(opened.failures))
    assert "this is a mistake in openclust, please report it: TypeError" in opened.failures[0]
    disk.error = None
    opened.write()


def test_nothing_of_a_group_is_kept_when_a_part_of_it_fails(tmp_path: Path, opened: Opened) -> None:
    opened.write(checkpoint(1, pages=[page(1)]))
    opened.give(keep(2), checkpoint(2, definitions=[b"a"], pages=[page(1)]))  # a page number that is used twice
    opened.wait(lambda: bool(opened.failures))
    assert "UNIQUE constraint failed: pages.number" in opened.failures[0]
    assert not opened.close(wait_s=0.01)
    assert (found(tmp_path).sequence, found(tmp_path).definitions, found(tmp_path).rows) == (1, [], [])


def test_closing_gives_up_a_write_that_fails(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.error = OSError(28, "No space left on device")
    opened.give(keep(1))
    assert not opened.close(wait_s=0.05)


def test_closing_does_not_wait_for_a_disk_that_hangs(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch)
    disk.free.clear()
    opened.give(keep(1))
    opened.wait(lambda: disk.transactions == [1])
    assert not opened.close(wait_s=0.05)
    disk.free.set()


@pytest.mark.parametrize("at_once", [1, 100])
def test_a_file_that_may_not_grow_fails_with_the_systems_words_and_recovers(
    opened: Opened, tmp_path: Path, at_once: int
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = [keep(number, bytes([number]) * 20_000) for number in range(1, 101)]
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, before[1]))
        for start in range(0, 100, at_once):
            opened.give(*rows[start : start + at_once])
        opened.wait(lambda: bool(opened.failures))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert opened.failures[0].startswith(f"{tmp_path}: cannot write: ")
    assert "(SQLITE_IOERR_WRITE)" in opened.failures[0]
    opened.write()
    opened.close()
    assert found(tmp_path).rows == kept(*rows)


def test_the_log_of_writes_does_not_grow_without_end(opened: Opened, tmp_path: Path) -> None:
    for number in range(1, 200):
        opened.write(keep(number, bytes(100_000)))
        if number % 50 == 0:
            opened.write(checkpoint(number))
    assert (tmp_path / "store.sqlite-wal").stat().st_size < 4 << 20
    assert (tmp_path / "store.sqlite").stat().st_size < 12 << 20


def test_the_file_shrinks_when_most_of_it_is_free(opened: Opened, tmp_path: Path) -> None:
    for number in range(1, 200):
        opened.give(keep(number, bytes(100_000)))
    opened.write(checkpoint(199))
    with closing(connect(str(tmp_path / "store.sqlite"), is_read_only=True)) as reader:
        opened.wait(lambda: bool(reader.execute("PRAGMA page_count").fetchone()[0] * PAGE_BYTES < 3 << 20))
    assert opened.close()
    assert (tmp_path / "store.sqlite").stat().st_size < 3 << 20
