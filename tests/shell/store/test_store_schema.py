"""How the file is opened."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from openclust.shell.store.store_schema import PAGE_BYTES, WAL_KEPT_BYTES, connect_writer
from tests.support.opened_store import written


def test_every_transaction_is_on_disk_when_it_ends_and_the_file_can_shrink(tmp_path: Path) -> None:
    written(tmp_path)
    with closing(connect_writer(str(tmp_path / "store.sqlite"))) as connection:
        expected = {
            "journal_mode": "wal",
            "synchronous": 2,  # FULL: each transaction is synced, not only each time the log is moved
            "wal_autocheckpoint": 0,
            "journal_size_limit": WAL_KEPT_BYTES,
            "secure_delete": 0,
            "auto_vacuum": 2,  # INCREMENTAL
            "page_size": PAGE_BYTES,
        }
        assert {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in expected} == expected


def test_what_the_store_makes_is_for_its_owner_only(tmp_path: Path) -> None:
    written(tmp_path / "data")
    for path in (tmp_path / "data", *(tmp_path / "data").iterdir()):
        assert os.stat(path).st_mode & 0o077 == 0, path
