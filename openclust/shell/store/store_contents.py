"""Reads all that a store holds, and finds what is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeAlias

from openclust.broker.journal.store_rows import Contents, Keep, PageInfo, StoredRow
from openclust.shell.host.gc_pause import no_collector
from openclust.shell.store.checksum import checksum
from openclust.shell.store.tables import checkpoint_facts, page_facts
from openclust.wire.text import decode_text

Damaged: TypeAlias = Callable[[str], None]
"""Called with each damage and its place. It may raise an exception."""

NO_CHECKPOINT = (0, 0, 0, 0, 0)

PAGES = """
SELECT pages.number, vhost, queue, first, last, count, size, pages.crc, dead.crc, dead.sequences, bodies.number IS NULL
FROM pages LEFT JOIN dead USING (number) LEFT JOIN bodies USING (number) ORDER BY pages.number
"""


def read_contents(connection: sqlite3.Connection, damaged: Damaged) -> Contents:
    """All but the bodies of pages, which are read and checked later."""
    with no_collector():
        return _read_contents(connection, damaged)


def _read_contents(connection: sqlite3.Connection, damaged: Damaged) -> Contents:
    epoch, sequence, told, definitions, pages = _checkpoint(connection, damaged)
    contents = Contents(
        epoch,
        sequence,
        _definitions(connection, damaged),
        _pages(connection, damaged),
        _rows(connection, told, damaged),
    )
    if len(contents.definitions) != definitions:
        damaged(f"definitions: {len(contents.definitions)} of {definitions} are there")
    if len(contents.pages) != pages:
        damaged(f"pages: {len(contents.pages)} of {pages} are there")
    first = next((kept.row.sequence for kept in contents.rows if kept.row.sequence), sequence + 1)
    if first > sequence + 1:
        damaged(f"rows: the log goes on at {first}, after a checkpoint at {sequence}")
    return contents


def _checkpoint(connection: sqlite3.Connection, damaged: Damaged) -> tuple[int, int, int, int, int]:
    row = connection.execute("SELECT epoch, sequence, told, definitions, pages, crc FROM checkpoint").fetchone()
    if row is None:
        return NO_CHECKPOINT
    epoch, sequence, told, definitions, pages, crc = row
    if checksum("checkpoint", epoch, sequence, checkpoint_facts(told, definitions, pages)) != crc:
        damaged("checkpoint: its checksum is wrong")
    return epoch, sequence, told, definitions, pages


def _definitions(connection: sqlite3.Connection, damaged: Damaged) -> list[bytes]:
    found = []
    for number, crc, body in connection.execute("SELECT id, crc, body FROM definitions ORDER BY id"):
        if checksum("definition", 0, number, body) != crc:
            damaged(f"definition {number}: its checksum is wrong")
        found.append(body)
    return found


def _pages(connection: sqlite3.Connection, damaged: Damaged) -> list[PageInfo]:
    found = []
    for number, vhost, queue, first, last, count, size, crc, dead_crc, dead, is_bare in connection.execute(PAGES):
        if checksum("page", 0, number, page_facts(vhost, queue, first, last, count, size)) != crc:
            damaged(f"page {number}: its checksum is wrong")
        if dead is not None and checksum("dead", 0, number, dead) != dead_crc:
            damaged(f"page {number}: the checksum of what it has lost is wrong")
        if is_bare:
            damaged(f"page {number}: its body is missing")
        found.append(PageInfo(number, decode_text(vhost), decode_text(queue), first, last, count, size, dead or b""))
    return found


def _rows(connection: sqlite3.Connection, told: int, damaged: Damaged) -> list[StoredRow]:
    """The rows in order. Those after the checkpoint are numbered without a gap; entries of the log have a sequence."""
    found = []
    after = told
    last = 0
    for number, kind, epoch, sequence, crc, body in connection.execute(
        "SELECT id, kind, epoch, sequence, crc, body FROM rows ORDER BY id"
    ):
        if checksum(kind, epoch, sequence, body) != crc:
            damaged(f"row {number}: its checksum is wrong")
        if number > told:
            if number != after + 1:
                damaged(f"row {after + 1}: is missing, the next is {number}")
            after = number
        if not kind:
            continue  # it was cut
        if sequence:
            if last and sequence != last + 1:
                damaged(f"row {number}: has sequence {sequence} of the log, after {last}")
            last = sequence
        found.append(StoredRow(Keep(kind, epoch, sequence, body), number <= told))
    return found
