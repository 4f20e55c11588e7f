"""The tables of `store.sqlite`, and how it is opened.

A row is never changed but by a cut. What a queue's page loses is kept beside it (`dead`), so that its body is written
once. Names are bytes: AMQP allows more in them than UTF-8 does.
"""

from __future__ import annotations

import os
import sqlite3
from urllib.parse import quote

FORMAT = 2
STORE_FILE = "store.sqlite"
PAGE_BYTES = 8_192
CACHE_KIB = 4_096
WAL_KEPT_BYTES = 67_108_864
BUSY_S = 1.0

TABLES = """
BEGIN IMMEDIATE;
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rows(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,
    crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE checkpoint(id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, sequence INTEGER NOT NULL,
    told INTEGER NOT NULL, definitions INTEGER NOT NULL, pages INTEGER NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE definitions(id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE pages(number INTEGER PRIMARY KEY, vhost BLOB NOT NULL, queue BLOB NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, count INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE bodies(number INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE dead(number INTEGER PRIMARY KEY, crc INTEGER NOT NULL, sequences BLOB NOT NULL);
CREATE TABLE ahead(number INTEGER PRIMARY KEY, vhost BLOB NOT NULL, queue BLOB NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, count INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE spool(part INTEGER PRIMARY KEY, crc INTEGER NOT NULL, body BLOB NOT NULL);
COMMIT;
"""


def connect(path: str, *, is_read_only: bool = False) -> sqlite3.Connection:
    """A connection that begins no transaction by itself. It may be used in another thread."""
    connection = sqlite3.connect(
        f"file:{quote(os.path.abspath(path))}?mode={'ro' if is_read_only else 'rw'}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        timeout=BUSY_S,
    )
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    return connection


def connect_writer(path: str) -> sqlite3.Connection:
    """The connection that writes. sqlite3.Error if the file is no database, or its file system allows no WAL mode."""
    connection = connect(path)
    try:
        # Both have an effect only on an empty file.
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise sqlite3.OperationalError(f"the file system allows no write-ahead log (journal mode {mode})")
        connection.execute("PRAGMA synchronous=FULL")
        # Some builds of SQLite overwrite deleted rows with zeros, which costs as much as writing them.
        connection.execute("PRAGMA secure_delete=OFF")
        # The writer moves the write-ahead log into the file by itself, after it has reported its writes as done.
        connection.execute("PRAGMA wal_autocheckpoint=0")
        # Up to this size the write-ahead log's file is overwritten and not cut: that is quicker than growing again.
        connection.execute(f"PRAGMA journal_size_limit={WAL_KEPT_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def read_meta(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, value FROM meta").fetchall())
