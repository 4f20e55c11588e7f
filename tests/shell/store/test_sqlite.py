"""The store on disk: what is written is found again, and who may open it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openclust.broker.journal.store_rows import Ahead, Contents, Cut, Keep, Restart, Spool
from openclust.shell.config.schema import ConfigError
from openclust.shell.store import open_store
from tests.support.opened_store import Opened, change, checkpoint, found, info, keep, kept, page, written


def test_a_new_directory_holds_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "new" / "data") == Contents()
    assert (tmp_path / "new" / "data" / "store.sqlite").stat().st_mode & 0o777 == 0o600


def test_rows_are_found_in_their_order(tmp_path: Path) -> None:
    rows = [Keep("opening", 1, 1, b""), keep(0, b"local"), keep(2, bytes(100_000)), keep(3, b"\0\xff", epoch=2)]
    written(tmp_path, *rows)
    assert found(tmp_path) == Contents(rows=kept(*rows))


def test_many_rows_of_one_turn_are_kept(tmp_path: Path) -> None:
    rows = [keep(number) for number in range(1, 1_000)]
    written(tmp_path, *rows)
    assert found(tmp_path).rows == kept(*rows)


def test_done_counts_all_writes_since_the_start(tmp_path: Path) -> None:
    written(tmp_path, keep(1), keep(2))
    opened = Opened(tmp_path)
    opened.write(keep(3))
    opened.write(keep(4), keep(5), Cut(4))
    assert opened.done == [1, 4]
    opened.close()


def test_a_cut_takes_the_rows_of_the_log_but_no_local_ones(tmp_path: Path) -> None:
    written(tmp_path, keep(1), keep(2), keep(0, b"local"), keep(3), Cut(1), keep(2, b"other", epoch=2))
    assert found(tmp_path).rows == kept(keep(1), keep(0, b"local"), keep(2, b"other", epoch=2))


def test_a_checkpoint_takes_the_place_of_the_rows_before_it(tmp_path: Path) -> None:
    first, second = page(1), page(2, "caf\udce9")
    writes = [keep(1), keep(0), keep(2), checkpoint(2, definitions=[b"a", b"b"], pages=[first, second]), keep(3)]
    written(tmp_path, *writes)
    expected = Contents(1, 2, [b"a", b"b"], [info(first), info(second)], kept(keep(3)))
    assert found(tmp_path) == expected


def test_a_checkpoint_leaves_rows_that_followers_may_need(tmp_path: Path) -> None:
    written(tmp_path, keep(1), keep(0), keep(2), keep(3), checkpoint(3, keep_after=1), keep(4))
    assert found(tmp_path).rows == kept(keep(2), keep(3), is_told=True) + kept(keep(4))


def test_a_checkpoint_without_definitions_leaves_those_before(tmp_path: Path) -> None:
    written(tmp_path, checkpoint(1, definitions=[b"a"]), checkpoint(2), checkpoint(3))
    assert found(tmp_path) == Contents(1, 3, [b"a"])
    written(tmp_path, checkpoint(4, definitions=[]))
    assert found(tmp_path) == Contents(1, 4)


def test_a_page_loses_messages_and_goes(tmp_path: Path) -> None:
    pages = [page(number) for number in range(1, 100)]
    written(tmp_path, checkpoint(1, pages=pages, dead=[(1, b"x")]))
    written(tmp_path, checkpoint(2, dead=[(1, b"xy"), (2, b"z")], gone=list(range(3, 100))))
    assert found(tmp_path).pages == [info(pages[0], b"xy"), info(pages[1], b"z")]
    written(tmp_path, checkpoint(3, gone=[1]))
    assert found(tmp_path).pages == [info(pages[1], b"z")]


def test_a_snapshot_takes_the_place_of_everything(tmp_path: Path) -> None:
    written(tmp_path, keep(1), checkpoint(1, definitions=[b"a"], pages=[page(1)], dead=[(1, b"x")]), keep(2))
    written(tmp_path, Restart(3, 70))
    assert found(tmp_path) == Contents(3, 70)
    new = page(2)
    written(tmp_path, Restart(3, 80), checkpoint(80, definitions=[b"b"], pages=[new]), keep(81))
    assert found(tmp_path) == Contents(1, 80, [b"b"], [info(new)], kept(keep(81)))


def test_pages_that_were_laid_ahead_count_when_a_snapshot_keeps_them(tmp_path: Path) -> None:
    pages = {number: page(number) for number in range(1, 5)}
    opened = Opened(tmp_path)
    opened.write(checkpoint(1, pages=[pages[1], pages[2]], dead=[(1, b"x"), (2, b"y")]))
    opened.write(Spool(0, b"part"), Ahead([pages[3], pages[4]]))
    assert opened.store.page(3) == pages[3].body
    opened.write(Restart(3, 70, [2, 4]))
    assert opened.store.page(4) == pages[4].body
    for gone in (1, 3):
        with pytest.raises(OSError, match="missing"):
            opened.store.page(gone)
    opened.close()
    assert found(tmp_path).pages == [info(pages[2], b"y"), info(pages[4])]


def test_pages_that_were_laid_ahead_do_not_outlive_their_snapshot(tmp_path: Path) -> None:
    """Neither another one's beginning, nor the end of the broker: their numbers are given to others then."""
    opened = Opened(tmp_path)
    opened.write(checkpoint(1, pages=[page(1)]))
    opened.write(Ahead([page(2), page(3)]))
    opened.write(Spool(0, b"another"), Ahead([page(2)]))
    opened.close()
    assert found(tmp_path).pages == [info(page(1))]
    opened = Opened(tmp_path)
    anew = page(2, body=b"other")
    opened.write(checkpoint(2, pages=[anew]))
    assert opened.store.page(2) == b"other"
    opened.write(Spool(0, b"yet another"))
    assert opened.store.page(2) == b"other"
    opened.close()


def test_pages_and_parts_are_read_while_others_are_written(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.write(checkpoint(1, pages=[page(7, body=bytes(300_000))]), Spool(0, b"zero"), Spool(1, b"one"))
    opened.give(*[keep(number, bytes(50_000)) for number in range(2, 100)])
    assert opened.store.page(7) == bytes(300_000)
    assert [opened.store.spooled(part) for part in (0, 1)] == [b"zero", b"one"]
    with pytest.raises(OSError, match="page 8 is missing"):
        opened.store.page(8)
    with pytest.raises(OSError, match="part of the snapshot 2 is missing"):
        opened.store.spooled(2)
    opened.close()


def test_part_0_begins_a_snapshot_anew(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.write(Spool(0, b"old"), Spool(1, b"old"))
    opened.write(Spool(0, b"new"))
    assert opened.store.spooled(0) == b"new"
    with pytest.raises(OSError, match="missing"):
        opened.store.spooled(1)
    opened.close()


def test_a_part_of_a_snapshot_does_not_outlive_the_broker(tmp_path: Path) -> None:
    written(tmp_path, Spool(0, b"old"))
    opened = Opened(tmp_path)
    with pytest.raises(OSError, match="missing"):
        opened.store.spooled(0)
    opened.close()


def test_a_page_that_was_changed_is_not_given(tmp_path: Path) -> None:
    written(tmp_path, checkpoint(1, pages=[page(1)]))
    change(tmp_path, "UPDATE bodies SET body=x'00'")
    opened = Opened(tmp_path)
    with pytest.raises(OSError, match="page 1: its checksum is wrong"):
        opened.store.page(1)
    opened.close()


def test_the_uuid_is_kept_and_counts_as_no_write(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    assert opened.store.uuid == ""
    opened.store.save_uuid("u-1")
    opened.write(keep(1))
    assert opened.store.uuid == "u-1"
    assert opened.done[-1] == 1
    opened.close()
    again = open_store(str(tmp_path), cluster_key="shop")
    assert again.uuid == "u-1"
    again.close()


def test_what_waits_is_told_in_bytes_and_in_time(tmp_path: Path) -> None:
    now = [1_000]
    store = open_store(str(tmp_path), cluster_key="shop", now_ms=lambda: now[0])
    store.write([keep(1, bytes(5_000))])
    now[0] = 1_250
    store.write([checkpoint(1, pages=[page(1, body=bytes(7_000))])])
    assert store.oldest_waits_ms() == 250
    assert 12_000 <= store.waiting_bytes < 13_000
    opened = Opened(store)
    opened.wait(lambda: 2 in opened.done)
    assert (store.waiting_bytes, store.oldest_waits_ms()) == (0, 0)
    opened.close()


def test_closing_finishes_what_waits(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    rows = [keep(number, bytes(1_000)) for number in range(1, 2_000)]
    for row in rows:
        opened.give(row)
    assert opened.close()
    assert found(tmp_path).rows == kept(*rows)
    assert sorted(os.listdir(tmp_path)) == ["store.lock", "store.sqlite"]


def test_another_clusters_store_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(ConfigError) as refused:
        open_store(str(tmp_path), cluster_key="other")
    assert "\n" not in str(refused.value)
    for word in (str(tmp_path), "'shop'", "'other'", "take another directory"):
        assert word in str(refused.value)
    assert found(tmp_path) == Contents()  # and the lock is free again


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    change(tmp_path, "UPDATE meta SET value='3' WHERE name='format'")
    with pytest.raises(
        ConfigError, match=r"store\.sqlite: has format 3, and this openclust knows 2; start the version"
    ):
        found(tmp_path)


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    change(tmp_path, "CREATE TABLE songs(title)")
    with pytest.raises(ConfigError, match=r"store\.sqlite: is not a store of openclust; take another directory"):
        found(tmp_path)


def test_two_brokers_cannot_have_one_directory(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    with pytest.raises(ConfigError, match=f"{tmp_path}: in use by process {os.getpid()}; stop it"):
        open_store(str(tmp_path), cluster_key="shop")
    opened.close()
    assert found(tmp_path) == Contents()


def test_a_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file/data: cannot be the data directory: Not a directory"):
        open_store(str(tmp_path / "file" / "data"), cluster_key="shop")
