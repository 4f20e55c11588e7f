"""Writes outboxes to sockets, 64 at a time, so that heartbeats do not wait for ten thousand subscribers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from openclust.broker.amqp.connection import Connection
from openclust.shell.net.stream import Transport

WRITES_AT_ONCE = 64
"""So many outboxes are written before the event loop looks at sockets and timers again."""


class OutboxFlush:
    """`add` writes some connections at once, the others in the next rounds of the loop, and then calls `on_written`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_written: Callable[[], None]) -> None:
        self._loop = loop
        self._on_written = on_written
        self._waiting: deque[Connection] = deque()
        self._is_planned = False

    def add(self, connections: Iterable[Connection]) -> None:
        self._waiting.extend(connections)
        if not self._is_planned:
            self._write()

    def _write(self) -> None:
        self._is_planned = False
        waiting = self._waiting
        for _ in range(min(len(waiting), WRITES_AT_ONCE)):
            cast(Transport, waiting.popleft().transport).flush()
        if waiting:
            self._is_planned = True
            self._loop.call_soon(self._write)
        else:
            self._on_written()
