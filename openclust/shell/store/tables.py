"""Writes as SQL: all of a group in one transaction, in few large statements.

Before and after each statement the thread waits for the interpreter's lock, which the event loop may hold for
milliseconds. So many rows share one statement, and the usual group, which has rows only, is a single statement and its
own transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TypeAlias, assert_never

import msgspec

from openclust.broker.journal.store_rows import Ahead, Checkpoint, Cut, Keep, Page, Restart, Spool, Write
from openclust.shell.store.checksum import GONE, checksum
from openclust.wire.text import encode_text

ROWS_MAX = 64
PAGES_MAX = 16


class Meta(msgspec.Struct, frozen=True):
    """A note in the store about itself: a name and a value."""

    name: str
    value: str


Written: TypeAlias = Write | Meta
Column: TypeAlias = str | int | bytes


class Tables:
    """The tables of one store. `perform` from one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        told, last, left = connection.execute(
            "SELECT ifnull((SELECT told FROM checkpoint), 0), ifnull((SELECT max(id) FROM rows), 0), "
            "EXISTS(SELECT 1 FROM ahead)"
        ).fetchone()
        self._next: int = max(told, last) + 1
        # Pages of a snapshot that was not installed when its broker ended: their numbers will be used again.
        self._has_left = bool(left)

    def perform(self, writes: Sequence[Written]) -> None:
        """Perform all of these; they are on disk when this returns. After an error none is: try again."""
        if len(writes) <= ROWS_MAX and all(type(write) is Keep for write in writes):
            self._next = self._keep(writes)  # type: ignore[arg-type]
            return
        connection = self._connection
        before = self._next
        try:
            connection.execute("BEGIN IMMEDIATE")
            if self._has_left:
                _forget_snapshot(connection)
            self._perform(writes)
            connection.execute("COMMIT")
            self._has_left = False
        except BaseException:
            self._next = before
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _perform(self, writes: Sequence[Written]) -> None:
        keeps: list[Keep] = []
        for write in writes:
            if type(write) is Keep:
                keeps.append(write)
                continue
            self._next = self._keep(keeps)
            keeps.clear()
            if isinstance(write, Checkpoint):
                self._check(write)
            elif isinstance(write, Cut):
                self._connection.execute(
                    f"UPDATE rows SET kind='', epoch=0, sequence=0, crc={GONE}, body=x'' WHERE sequence > ?",
                    (write.sequence,),
                )
            elif isinstance(write, Spool):
                self._spool(write)
            elif isinstance(write, Ahead):
                self._page("ahead", write.pages)
            elif isinstance(write, Restart):
                self._restart(write)
            elif isinstance(write, Meta):
                self._connection.execute("REPLACE INTO meta VALUES (?, ?)", (write.name, write.value))
            else:
                assert not isinstance(write, Keep), "kept above"
                assert_never(write)
        self._next = self._keep(keeps)

    def _keep(self, keeps: Sequence[Keep]) -> int:
        number = self._next
        rows: list[Column] = []
        for keep in keeps:
            kind, epoch, sequence, body = keep.kind, keep.epoch, keep.sequence, keep.body
            rows += (number, kind, epoch, sequence, checksum(kind, epoch, sequence, body), body)
            number += 1
        self._insert("INSERT INTO rows VALUES ", rows, 6, ROWS_MAX)
        return number

    def _check(self, checkpoint: Checkpoint) -> None:
        execute = self._connection.execute
        execute("DELETE FROM rows WHERE sequence <= ?", (checkpoint.keep_after,))
        if checkpoint.definitions is not None:
            self._define(checkpoint.definitions)
        self._page("pages", checkpoint.pages)
        dead: list[Column] = []
        for number, sequences in checkpoint.dead:
            dead += (number, checksum("dead", 0, number, sequences), sequences)
        self._insert("REPLACE INTO dead VALUES ", dead, 3, ROWS_MAX)
        for start in range(0, len(checkpoint.gone), ROWS_MAX):
            gone = checkpoint.gone[start : start + ROWS_MAX]
            places = ",".join("?" * len(gone))
            for table in ("pages", "bodies", "dead"):
                execute(f"DELETE FROM {table} WHERE number IN ({places})", gone)
        self._tell(checkpoint.epoch, checkpoint.sequence)

    def _define(self, definitions: list[bytes]) -> None:
        self._connection.execute("DELETE FROM definitions")
        rows: list[Column] = []
        for number, body in enumerate(definitions):
            rows += (number, checksum("definition", 0, number, body), body)
        self._insert("INSERT INTO definitions VALUES ", rows, 3, ROWS_MAX)

    def _page(self, table: str, pages: list[Page]) -> None:
        facts: list[Column] = []
        bodies: list[Column] = []
        for page in pages:
            number, vhost, queue = page.number, encode_text(page.vhost), encode_text(page.queue)
            told = page_facts(vhost, queue, page.first, page.last, page.count, page.size)
            facts += (number, vhost, queue, page.first, page.last, page.count, page.size)
            facts.append(checksum("page", 0, number, told))
            bodies += (number, checksum("body", 0, number, page.body), page.body)
        self._insert(f"INSERT INTO {table} VALUES ", facts, 8, ROWS_MAX)
        self._insert("INSERT INTO bodies VALUES ", bodies, 3, PAGES_MAX)

    def _spool(self, spool: Spool) -> None:
        if spool.part == 0:
            _forget_snapshot(self._connection)
        row = (spool.part, checksum("spool", 0, spool.part, spool.body), spool.body)
        self._connection.execute("REPLACE INTO spool VALUES (?, ?, ?)", row)

    def _restart(self, restart: Restart) -> None:
        execute = self._connection.execute
        for table in ("rows", "definitions", "spool"):
            execute(f"DELETE FROM {table}")
        execute("CREATE TEMP TABLE IF NOT EXISTS kept(number INTEGER PRIMARY KEY)")
        execute("DELETE FROM kept")
        self._insert("INSERT INTO kept VALUES ", list(restart.kept), 1, ROWS_MAX)
        execute("INSERT INTO pages SELECT * FROM ahead")
        execute("DELETE FROM ahead")
        for table in ("pages", "bodies", "dead"):
            execute(f"DELETE FROM {table} WHERE number NOT IN kept")
        self._tell(restart.epoch, restart.sequence)

    def _tell(self, epoch: int, sequence: int) -> None:
        """Note that definitions and pages stand for all rows so far, and their number, so that a loss is noticed."""
        execute = self._connection.execute
        counts = execute("SELECT (SELECT count(*) FROM definitions), (SELECT count(*) FROM pages)").fetchone()
        told = (self._next - 1, *counts)
        crc = checksum("checkpoint", epoch, sequence, checkpoint_facts(*told))
        execute("REPLACE INTO checkpoint VALUES (1, ?, ?, ?, ?, ?, ?)", (epoch, sequence, *told, crc))

    def _insert(self, start: str, values: list[Column], width: int, rows_max: int) -> None:
        place = f"({','.join('?' * width)})"
        step = width * rows_max
        for at in range(0, len(values), step):
            some = values[at : at + step] if len(values) > step else values
            self._connection.execute(start + ",".join([place] * (len(some) // width)), some)


def _forget_snapshot(connection: sqlite3.Connection) -> None:
    """Delete a snapshot that did not arrive as a whole: it is sent again."""
    connection.execute("DELETE FROM spool")
    connection.execute("DELETE FROM bodies WHERE number IN (SELECT number FROM ahead)")
    connection.execute("DELETE FROM ahead")


def page_facts(vhost: bytes, queue: bytes, first: int, last: int, count: int, size: int) -> bytes:
    """The facts about a page that its checksum covers."""
    return b"%b\0%b\0%d %d %d %d" % (vhost, queue, first, last, count, size)


def checkpoint_facts(told: int, definitions: int, pages: int) -> bytes:
    """The facts about a checkpoint that its checksum covers."""
    return b"%d %d %d" % (told, definitions, pages)
