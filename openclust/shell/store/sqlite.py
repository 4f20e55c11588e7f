"""The store on disk: one SQLite file in the data directory, written by one thread, read by the event loop's."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from typing import NoReturn, TypeAlias

from openclust.broker.counts.histogram import Histogram
from openclust.broker.journal.store_rows import Contents, Write
from openclust.shell.config.schema import ConfigError
from openclust.shell.store.checksum import checksum
from openclust.shell.store.disk_failure import is_damage, reason_of
from openclust.shell.store.lock import DirectoryLock
from openclust.shell.store.size import OVERHEAD_BYTES, size_of
from openclust.shell.store.space import FREE_BYTES, WAL_BYTES, Space
from openclust.shell.store.store import WritesDone, WritesFailed
from openclust.shell.store.store_contents import read_contents
from openclust.shell.store.store_schema import FORMAT, STORE_FILE, TABLES, connect, connect_writer, is_empty, read_meta
from openclust.shell.store.tables import Meta, Tables, Written
from openclust.shell.store.writer import WriteGroup, Writer

log = logging.getLogger("openclust.store")

Owned: TypeAlias = Callable[[dict[str, str] | None], dict[str, str]]
"""Called with the store's notes, None if there is no store. Returns further notes; ConfigError refuses the store."""

RETRY_MS = 200
WAY_OUT = (
    "in a cluster move the directory away and start the broker without it, the others bring it up to date; a broker of "
    "one needs a copy of the directory (openclust store verify tells all that is damaged)"
)


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def open_store(
    data_dir: str,
    *,
    cluster_key: str,
    name: str = "",
    owned: Owned | None = None,
    retry_ms: int = RETRY_MS,
    wal_bytes: int = WAL_BYTES,
    free_bytes: int = FREE_BYTES,
    now_ms: Callable[[], int] = monotonic_ms,
) -> SqliteStore:
    """Open the store of a directory, or make both. ConfigError if that fails, or the store is another broker's.

    `owned` is called before anything is written, and may raise ConfigError too.
    """
    try:
        os.makedirs(data_dir, mode=0o700, exist_ok=True)
        lock = DirectoryLock(data_dir)
    except OSError as error:
        raise ConfigError(f"{data_dir}: cannot be the data directory: {error.strerror}") from None
    try:
        return SqliteStore(
            data_dir,
            lock,
            cluster_key,
            name,
            owned,
            retry_ms=retry_ms,
            wal_bytes=wal_bytes,
            free_bytes=free_bytes,
            now_ms=now_ms,
        )
    except sqlite3.Error as error:
        lock.release()
        raise refusal(data_dir, error) from None
    except BaseException:
        lock.release()
        raise


def refusal(data_dir: str, error: sqlite3.Error) -> ConfigError:
    """The error for a user whose file SQLite refuses."""
    path = os.path.join(data_dir, STORE_FILE)
    if is_damage(error):
        return ConfigError(f"{path}: damaged: {error}; {WAY_OUT}")
    return ConfigError(f"{path}: cannot be opened: {reason_of(error, data_dir)}")


class SqliteStore:
    """A `Store`. Made by `open_store`, which has the lock of the directory."""

    def __init__(
        self,
        data_dir: str,
        lock: DirectoryLock,
        cluster_key: str,
        name: str,
        owned: Owned | None = None,
        *,
        retry_ms: int,
        wal_bytes: int,
        free_bytes: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._lock = lock
        self._now_ms = now_ms
        self.path = os.path.join(data_dir, STORE_FILE)
        owned = owned or (lambda meta: {})
        connection = _opened(self.path, owned)
        try:
            self.uuid = _introduced(connection, data_dir, cluster_key, name, owned)
            self._reader = connect(self.path, is_read_only=True)
            tables = Tables(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        space = Space(connection, self.path, wal_bytes=wal_bytes, free_bytes=free_bytes)
        self._writer = Writer(tables, space, data_dir, retry_ms=retry_ms, told=self._written, failing=self._failed)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: WritesDone | None = None
        self._tell_failed: WritesFailed | None = None
        self.failing = ""
        self.waiting_bytes = 0
        self._given = 0
        self._waiting: deque[tuple[int, int, int]] = deque()  # of each group: the count up to it, its size, since when

    # -- reading

    def contents(self) -> Contents:
        """All that is in the store. Call it once, before the first write; ConfigError if the store is damaged."""
        try:
            return read_contents(self._reader, self._damaged)
        except sqlite3.Error as error:
            raise refusal(os.path.dirname(self.path), error) from None

    def page(self, number: int) -> bytes:
        """The body of a page; OSError if it cannot be read."""
        return self._read("SELECT crc, body FROM bodies WHERE number=?", number, "body", "page")

    def spooled(self, part: int) -> bytes:
        """A part of the snapshot that is arriving; OSError if it cannot be read."""
        return self._read("SELECT crc, body FROM spool WHERE part=?", part, "spool", "part of the snapshot")

    # -- writing

    def start(self, loop: asyncio.AbstractEventLoop, done: WritesDone, failed: WritesFailed) -> None:
        """Begin to perform writes. Both callbacks are called in `loop`, `failed` once when writes begin to fail."""
        self._loop, self._done, self._tell_failed = loop, done, failed
        self._writer.start()

    def write(self, writes: list[Write]) -> None:
        """Perform these in their order, all or none of them. It never waits. Do not change the list afterwards."""
        if writes:
            self._put(writes, len(writes), size_of(writes))  # type: ignore[arg-type]

    def save_uuid(self, uuid: str) -> None:
        """Save the cluster UUID after the writes that wait. `WritesDone` does not count it."""
        if uuid != self.uuid:
            self.uuid = uuid
            self._put([Meta("uuid", uuid)], 0, OVERHEAD_BYTES)

    def oldest_waits_ms(self) -> int:
        """How long the oldest unfinished write has waited; 0 if there is none."""
        return self._now_ms() - self._waiting[0][2] if self._waiting else 0

    def close(self, wait_s: float = 10.0) -> bool:
        """Finish the writes that wait, within this time. Whether all were done. There are no callbacks from now on."""
        self._loop = None
        is_done = self._writer.close(wait_s)
        if is_done or not self._writer.is_running:
            self._reader.close()
            self._connection.close()  # the last connection: SQLite moves its write-ahead log into the file
            self._lock.release()
        return is_done

    def _put(self, writes: list[Written], count: int, size: int) -> None:
        self._given += count
        self._waiting.append((self._given, size, self._now_ms()))
        self.waiting_bytes += size
        self._writer.put(WriteGroup(writes, count, size))

    @property
    def transactions(self) -> Histogram:
        """How many seconds each transaction with its fsync took."""
        return self._writer.transactions

    # -- callbacks from the thread

    def _written(self, count: int) -> None:
        self._call(self._on_written, count)

    def _failed(self, text: str) -> None:
        log.error("%s", text)
        self._call(self._on_failed, text)

    def _call(self, function: Callable[..., None], argument: object) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function, argument)

    def _on_written(self, count: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= count:
            self.waiting_bytes -= waiting.popleft()[1]
        if self.failing:
            self.failing = ""
            log.info("%s: can be written again", os.path.dirname(self.path))
        if self._loop is not None and self._done is not None:
            self._done(count)

    def _on_failed(self, text: str) -> None:
        self.failing = text
        if self._loop is not None and self._tell_failed is not None:
            self._tell_failed(text)

    # -- damage

    def _damaged(self, text: str) -> NoReturn:
        raise ConfigError(f"{self.path}: damaged: {text}; {WAY_OUT}")

    def _read(self, query: str, number: int, kind: str, what: str) -> bytes:
        try:
            rows = self._reader.execute(query, (number,)).fetchall()
        except sqlite3.Error as error:
            raise OSError(errno.EIO, f"{what} {number}: {error}", self.path) from None
        if not rows:
            raise OSError(errno.ENOENT, f"{what} {number} is missing", self.path)
        crc, body = rows[0]
        if checksum(kind, 0, number, body) != crc:
            raise OSError(errno.EIO, f"{what} {number}: its checksum is wrong", self.path)
        return bytes(body)


def _opened(path: str, owned: Owned) -> sqlite3.Connection:
    """The connection that writes. It makes the file if there is none."""
    log_file = path + "-wal"
    size = os.stat(path).st_size if os.path.exists(path) else 0
    if not size and os.path.exists(log_file) and os.stat(log_file).st_size:
        # SQLite would delete the write-ahead log and begin an empty file.
        raise ConfigError(f"{path}: damaged: it is gone, but {os.path.basename(log_file)} is there; {WAY_OUT}")
    if not size:
        owned(None)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be opened: {error.strerror}") from None
    return connect_writer(path)


def _introduced(connection: sqlite3.Connection, data_dir: str, cluster_key: str, name: str, owned: Owned) -> str:
    """Make an empty file a store of this cluster, or refuse that of another. Returns the cluster UUID that it has."""
    path = os.path.join(data_dir, STORE_FILE)
    if is_empty(connection):
        owned(None)
        connection.executescript(TABLES)
        Tables(connection).perform([Meta("format", str(FORMAT)), Meta("cluster_key", cluster_key)])
    try:
        meta = read_meta(connection)
    except sqlite3.OperationalError:
        raise ConfigError(f"{path}: is not a store of openclust; take another directory") from None
    if meta.get("format") != str(FORMAT):
        raise ConfigError(
            f"{path}: has format {meta.get('format')}, and this openclust knows {FORMAT}; start the version that wrote "
            "it, or take another directory"
        )
    if meta.get("cluster_key") != cluster_key:
        raise ConfigError(
            f"{data_dir}: is the store of cluster {meta.get('cluster_key')!r}, not of {cluster_key!r}; take another "
            "directory, or start with the cluster key it was made with"
        )
    noted = {**owned(meta), **({"name": name} if name else {})}
    changed = [Meta(each, value) for each, value in noted.items() if meta.get(each) != value]
    if changed:
        Tables(connection).perform(list(changed))
    with contextlib.suppress(sqlite3.OperationalError):  # on a full disk: the rows do no harm
        connection.execute("DELETE FROM spool")  # of a snapshot that did not arrive as a whole: it is sent again
    return meta.get("uuid", "")
