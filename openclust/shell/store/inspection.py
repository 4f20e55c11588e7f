"""For `openclust store`: what is in a store, what in it is damaged, and how it is made small."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import msgspec

from openclust.broker.journal.store_rows import Contents
from openclust.shell.config.schema import ConfigError
from openclust.shell.store.checksum import checksum
from openclust.shell.store.disk_failure import is_damage, reason_of
from openclust.shell.store.lock import DirectoryLock
from openclust.shell.store.space import size_of_file
from openclust.shell.store.store_contents import Damaged, read_contents
from openclust.shell.store.store_schema import FORMAT, STORE_FILE, connect, connect_writer, read_meta
from openclust.wire.text import decode_text

CHECK_LINES_MAX = 100


class QueueInside(msgspec.Struct, frozen=True):
    """The pages of a queue. Some of `messages` may have left it: only a broker reads which."""

    vhost: str
    queue: str
    pages: int
    messages: int
    bytes: int


class RowsInside(msgspec.Struct, frozen=True):
    """Rows of one kind. `is_told`: pages and definitions stand for them, and they are kept for the other brokers."""

    kind: str
    is_told: bool
    rows: int
    bytes: int


class Inside(msgspec.Struct, frozen=True):
    """The contents of a store in numbers."""

    cluster_key: str
    uuid: str
    name: str
    format: int
    epoch: int
    sequence: int
    last_epoch: int
    last_sequence: int
    definitions: int
    rows: list[RowsInside]
    queues: list[QueueInside]
    file_bytes: int
    log_bytes: int
    free_bytes: int


ROWS = """
SELECT kind, id <= ifnull((SELECT told FROM checkpoint), 0), count(*), sum(length(body))
FROM rows WHERE kind <> '' GROUP BY 1, 2 ORDER BY 2 DESC, 1
"""
QUEUES = """
SELECT vhost, queue, count(*), sum(count), sum(size) FROM pages GROUP BY vhost, queue ORDER BY vhost, queue
"""


def inspect(data_dir: str) -> Inside:
    """Look into a store without changing it. A broker may use it meanwhile."""
    path = path_of(data_dir)
    with _told(path), closing(connect(path, is_read_only=True)) as connection:
        connection.execute("BEGIN")  # one state, whatever a broker writes meanwhile
        one = connection.execute
        meta = _meta(connection, path)
        place = one("SELECT epoch, sequence FROM checkpoint").fetchone() or (0, 0)
        last = one("SELECT epoch, sequence FROM rows WHERE sequence > 0 ORDER BY id DESC LIMIT 1").fetchone() or place
        return Inside(
            cluster_key=meta.get("cluster_key", ""),
            uuid=meta.get("uuid", ""),
            name=meta.get("name", ""),
            format=FORMAT,
            epoch=place[0],
            sequence=place[1],
            last_epoch=last[0],
            last_sequence=last[1],
            definitions=one("SELECT count(*) FROM definitions").fetchone()[0],
            rows=[RowsInside(kind, bool(told), count, size) for kind, told, count, size in one(ROWS)],
            queues=[
                QueueInside(decode_text(vhost), decode_text(queue), *counts) for vhost, queue, *counts in one(QUEUES)
            ],
            file_bytes=size_of_file(path),
            log_bytes=size_of_file(path + "-wal"),
            free_bytes=one("PRAGMA freelist_count").fetchone()[0] * one("PRAGMA page_size").fetchone()[0],
        )


def verify(data_dir: str, damaged: Damaged) -> Contents | None:
    """Read everything, and call `damaged` with each damage. None if the file cannot be read."""
    path = path_of(data_dir)
    with _locked(data_dir):
        contents: list[Contents] = []
        try:
            with closing(connect(path, is_read_only=True)) as connection:
                _meta(connection, path)
                for check in (
                    lambda: contents.append(read_contents(connection, damaged)),
                    lambda: _bodies(connection, damaged),
                    lambda: _integrity(connection, damaged),
                ):
                    _run(check, damaged)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise ConfigError(f"{path}: {reason_of(error, data_dir)}") from None
            damaged(f"file: {error}")
        return contents[0] if contents else None


def compact(data_dir: str) -> tuple[int, int]:
    """Write the file anew without its free pages, and empty its write-ahead log. The sizes before and after."""
    path = path_of(data_dir)
    with _locked(data_dir), _told(path), closing(connect_writer(path)) as connection:
        _meta(connection, path)
        before = size_of_file(path) + size_of_file(path + "-wal")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before, size_of_file(path) + size_of_file(path + "-wal")


def path_of(data_dir: str) -> str:
    """The store's file in a data directory; ConfigError if there is none."""
    path = os.path.join(data_dir, STORE_FILE)
    if not os.path.isfile(path):
        raise ConfigError(f"{data_dir}: holds no store: there is no {STORE_FILE} in it")
    return path


def _meta(connection: sqlite3.Connection, path: str) -> dict[str, str]:
    try:
        meta = read_meta(connection)
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        raise ConfigError(f"{path}: is not a store of openclust") from None
    if meta.get("format") != str(FORMAT):
        raise ConfigError(f"{path}: has format {meta.get('format')}, and this openclust knows {FORMAT}")
    return meta


def _bodies(connection: sqlite3.Connection, damaged: Damaged) -> None:
    for number, crc, body in connection.execute("SELECT number, crc, body FROM bodies ORDER BY number"):
        if checksum("body", 0, number, body) != crc:
            damaged(f"page {number}: the checksum of its body is wrong")


def _integrity(connection: sqlite3.Connection, damaged: Damaged) -> None:
    """SQLite's own check of the file: trees, free pages, indexes."""
    for (line,) in connection.execute(f"PRAGMA integrity_check({CHECK_LINES_MAX})"):
        for each in str(line).splitlines():
            if each != "ok" and not each.startswith("***"):
                damaged(f"file: {each}")


def _run(check: Callable[[], object], damaged: Damaged) -> None:
    try:
        check()
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        damaged(f"file: {error}")


@contextmanager
def _locked(data_dir: str) -> Iterator[None]:
    lock = DirectoryLock(data_dir)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _told(path: str) -> Iterator[None]:
    """ConsumerRotation errors of SQLite into errors for users."""
    try:
        yield
    except sqlite3.Error as error:
        if is_damage(error):
            raise ConfigError(f"{path}: damaged: {error}; openclust store verify tells more") from None
        raise ConfigError(f"{path}: {reason_of(error, os.path.dirname(path))}") from None
