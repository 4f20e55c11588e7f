"""The store's files: the write-ahead log is moved into the main file before it is long, and free pages are given back.

This happens between two transactions, after the first is reported as done: only the next one may have to wait.
"""

from __future__ import annotations

import logging
import os
import sqlite3

from openclust.shell.store.disk_failure import reason_of
from openclust.shell.store.store_schema import PAGE_BYTES

log = logging.getLogger("openclust.store")

WAL_BYTES = 8_388_608
COMMIT_BYTES = 2 * PAGE_BYTES
"""Roughly what a transaction adds to the write-ahead log beyond its bodies."""

FREE_BYTES = 67_108_864
"""More free pages than that are given back, if they are also more than half of the file."""

SHRINK_PAGES = 512


class Space:
    """Call `used` after each transaction, in the thread that has the connection."""

    def __init__(
        self, connection: sqlite3.Connection, path: str, *, wal_bytes: int = WAL_BYTES, free_bytes: int = FREE_BYTES
    ) -> None:
        self._connection = connection
        self._data_dir = os.path.dirname(path)
        self._wal_bytes = wal_bytes
        self._free_bytes = free_bytes
        self._in_wal = size_of_file(path + "-wal")
        self._may_shrink = True
        self._is_well = True

    def used(self, size: int, *, has_freed: bool = False) -> None:
        """A transaction of this size is done. `has_freed`: it deleted rows."""
        self._in_wal += size + COMMIT_BYTES
        self._may_shrink |= has_freed
        if self._in_wal < self._wal_bytes:
            return
        try:
            self._move()
        except sqlite3.Error as error:
            # Nothing is lost: the write-ahead log grows, and the next transaction tries again.
            if self._is_well:
                self._is_well = False
                reason = reason_of(error, self._data_dir)
                log.error("%s: cannot move the write-ahead log into the store: %s", self._data_dir, reason)
        else:
            self._is_well = True

    def shrink(self) -> bool:
        """Give some free pages back, if there are many. Whether another call is worth it."""
        if not self._may_shrink:
            return False
        try:
            free, pages = self._connection.execute(
                "SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count"
            ).fetchone()
            self._may_shrink = free * PAGE_BYTES > self._free_bytes and free * 2 > pages
            if self._may_shrink:
                # The pragma returns a row per page; `executescript` steps through them without the interpreter's lock.
                self._connection.executescript(f"PRAGMA incremental_vacuum({SHRINK_PAGES});")
                self.used(SHRINK_PAGES * PAGE_BYTES)
        except sqlite3.Error:
            self._may_shrink = False  # no harm: tried again after the next move of the write-ahead log
        return self._may_shrink

    def _move(self) -> None:
        """If another program reads the file, a part stays in the write-ahead log until the next move."""
        _, frames, moved = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self._in_wal = (frames - moved) * PAGE_BYTES
        self._may_shrink = True


def size_of_file(path: str) -> int:
    """0 where there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
