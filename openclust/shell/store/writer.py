"""The thread that writes: it takes all waiting writes, performs them in one transaction, and tells the event loop."""

from __future__ import annotations

import logging
import queue
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from openclust.broker.counts.histogram import Histogram
from openclust.broker.journal.store_rows import Keep
from openclust.shell.host.event_log import one_line
from openclust.shell.store.disk_failure import reason_of
from openclust.shell.store.space import Space
from openclust.shell.store.tables import Tables, Written

log = logging.getLogger("openclust.store")

GROUP_BYTES_MAX = 16_777_216
SWITCH_S = 0.000_5
TRANSACTIONS_S = (0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
"""Bounds of the histogram of the time that a transaction takes."""


class WriteGroup(msgspec.Struct, frozen=True):
    """Writes of one turn, performed all or none. `count` of them are the broker's; the others are the store's own."""

    writes: list[Written]
    count: int
    size: int


CountTold: TypeAlias = Callable[[int], None]
Failing: TypeAlias = Callable[[str], None]


class Writer:
    """`put` never waits. `told` and `failing` are called in the thread, once a transaction and once a failure."""

    def __init__(
        self, tables: Tables, space: Space, data_dir: str, *, retry_ms: int, told: CountTold, failing: Failing
    ) -> None:
        self._tables = tables
        self._space = space
        self._data_dir = data_dir
        self._retry_s = retry_ms / 1000
        self._told = told
        self._failing = failing
        self._queue: queue.SimpleQueue[WriteGroup | None] = queue.SimpleQueue()
        self._ends = False
        self._gives_up = threading.Event()
        self._done = 0
        self._is_well = True
        self.transactions = Histogram(TRANSACTIONS_S)
        self._thread = threading.Thread(target=self._run, name="openclust-store", daemon=True)

    def start(self) -> None:
        # A busy event loop releases the interpreter's lock only for the instants of its system calls. A thread that
        # misses them demands the lock after this time: with the default of 5 ms a confirm may take 300 ms.
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_S))
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def put(self, group: WriteGroup) -> None:
        self._queue.put(group)

    def close(self, wait_s: float) -> bool:
        """Whether all waiting writes were done in time. A disk that hangs keeps the thread, but not the process."""
        if not self._thread.is_alive():
            return self._queue.empty()
        self._queue.put(None)
        self._thread.join(wait_s)
        self._gives_up.set()  # a failing write is not tried again
        self._thread.join(self._retry_s + 1)
        return self._is_well and not self._thread.is_alive()

    def _run(self) -> None:
        while groups := self._take():
            writes = groups[0].writes if len(groups) == 1 else [write for group in groups for write in group.writes]
            if not self._write(writes):
                return
            self._done += sum([group.count for group in groups])
            self._told(self._done)
            has_freed = any(type(write) is not Keep for write in writes)
            self._space.used(sum([group.size for group in groups]), has_freed=has_freed)
            while self._queue.empty() and self._space.shrink():
                pass

    def _take(self) -> list[WriteGroup]:
        """All waiting groups, up to the bound of a transaction; it waits for one. Empty only at the end."""
        groups: list[WriteGroup] = []
        size = 0
        try:
            while not self._ends and size < GROUP_BYTES_MAX:
                group = self._queue.get(block=not groups)
                if group is None:
                    self._ends = True
                else:
                    groups.append(group)
                    size += group.size
        except queue.Empty:
            pass
        return groups

    def _write(self, writes: list[Written]) -> bool:
        """Try these writes until they are on disk: none may be left out or overtaken. False if the broker ends."""
        while True:
            began = time.perf_counter()
            try:
                self._tables.perform(writes)
            except Exception as error:  # our own mistakes too, or the thread would end without a word
                if self._is_well:
                    self._is_well = False
                    self._failing(f"{self._data_dir}: cannot write: {self._reason(error)}")
                if self._gives_up.wait(self._retry_s):
                    return False
            else:
                self.transactions.add(time.perf_counter() - began)
                self._is_well = True
                return True

    def _reason(self, error: Exception) -> str:
        if isinstance(error, sqlite3.Error | OSError):
            return reason_of(error, self._data_dir)
        return f"this is a mistake in openclust, please report it: {one_line(error)}"
