"""The store that keeps nothing."""

from __future__ import annotations

import pytest

from openclust.broker.journal.store_rows import Ahead, Contents, Restart, Spool
from openclust.shell.store import MemoryStore
from tests.support.opened_store import Opened, checkpoint, keep, page


def test_all_is_done_at_once_and_nothing_is_kept() -> None:
    opened = Opened(MemoryStore())
    assert opened.contents == Contents()
    opened.write(keep(1), keep(2))
    opened.write(keep(3))
    assert opened.done == [2, 3]
    assert (opened.store.waiting_bytes, opened.store.oldest_waits_ms(), opened.store.failing) == (0, 0, "")
    assert opened.close()


def test_a_page_can_be_read_until_it_goes() -> None:
    opened = Opened(MemoryStore())
    opened.write(checkpoint(1, pages=[page(1), page(2)]))
    assert opened.store.page(1) == b"page"
    opened.write(checkpoint(2, gone=[1]))
    with pytest.raises(OSError, match="No such file or directory: 'page 1'"):
        opened.store.page(1)
    opened.write(Ahead([page(3), page(4)]))
    opened.write(Restart(1, 9, [4]))
    for gone in (2, 3):
        with pytest.raises(OSError, match=f"page {gone}"):
            opened.store.page(gone)
    assert opened.store.page(4) == b"page"
    opened.close()


def test_a_part_can_be_read_until_a_snapshot_begins_anew() -> None:
    opened = Opened(MemoryStore())
    opened.write(Spool(0, b"zero"), Spool(1, b"one"))
    assert opened.store.spooled(1) == b"one"
    opened.write(Spool(0, b"new"))
    assert opened.store.spooled(0) == b"new"
    with pytest.raises(OSError, match="part of the snapshot 1"):
        opened.store.spooled(1)
    opened.close()
