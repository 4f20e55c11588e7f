"""The trace of this broker: a file with the events of sampled messages and, each second, the state of the broker."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import psutil

from openclust import __version__
from openclust.broker.amqp.trace import DELIVER, TraceEvent, Tracer
from openclust.shell.host.event_log import fields
from openclust.shell.tracing.trace_file import TraceFile
from openclust.shell.tracing.trace_lines import BeginLine, EndLine, LostLine, StatusLine

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.membership.membership import Membership
    from openclust.shell.config.schema import Config

log = logging.getLogger("openclust.trace")

MB = 1_048_576
STATUS_EVERY_US = 1_000_000
CLIENTS_EVERY_US = 100_000
"""While clients come and go, their number is written at most this often."""
HANDED_MAX = 10_000
"""So many deliveries wait until their bytes are written to the sockets; further ones have no time of that."""
END_ROOM_BYTES = 1_000


def wall_us() -> int:
    return time.time_ns() // 1_000


def new_tracing(
    config: Config, broker: Broker, loop: asyncio.AbstractEventLoop, now_us: Callable[[], int] = wall_us
) -> TraceWriter | None:
    """The trace of the configuration, None if it has none or its file cannot be written. Sets the broker's tracer."""
    if not config.trace.file:
        return None
    path = config.trace.file.replace("{name}", config.name)
    tracing = TraceWriter(config, broker, loop, now_us)
    try:
        tracing.open(path)
    except OSError as error:
        log.error("no trace is written: %s: %s", path, error.strerror or error)
        return None
    if not tracing.tracer.is_on:
        return None  # the file was full already
    broker.tracer = tracing.tracer
    return tracing


class TraceWriter:
    """Call `look` after each turn, `tick` each heartbeat, `written` after the outboxes are, and `stop` at the end."""

    def __init__(
        self, config: Config, broker: Broker, loop: asyncio.AbstractEventLoop, now_us: Callable[[], int]
    ) -> None:
        self._config = config
        self._broker = broker
        self._loop = loop
        self._now_us = now_us
        self._name = config.name
        self._bytes_max = config.trace.max_mb * MB
        self._path = ""
        self._file: TraceFile | None = None
        self._encode = msgspec.json.Encoder().encode
        self._process = psutil.Process()
        self._handed: list[TraceEvent] = []
        self._root: str | None = None
        self._clients = 0
        self._status_us = 0
        self.tracer = Tracer(config.trace.sample, self._message)

    def open(self, path: str) -> None:
        """Begin the trace. OSError if the file cannot be written."""
        self._path = path
        self._file = TraceFile(path, self._failed_in_thread)
        if self._is_full():
            return
        self._add(
            BeginLine(
                at_us=self._now_us(),
                broker=self._name,
                cluster=self._config.cluster_key,
                role="secondary" if self._config.cluster.join else "primary",
                sample=self._config.trace.sample,
                openclust=__version__,
            )
        )
        log.info("tracing one in %d messages", self._config.trace.sample, extra=fields(file=path))

    # -- events of messages

    def _message(self, event: TraceEvent) -> None:
        event.at_us = self._now_us()
        event.broker = self._name
        if event.event == DELIVER and len(self._handed) < HANDED_MAX:
            self._handed.append(event)
        else:
            self._add(event)

    def written(self) -> None:
        """The bytes of all deliveries so far have been written to their sockets."""
        if self._handed:
            now_us = self._now_us()
            handed, self._handed = self._handed, []
            for event in handed:
                event.written_us = now_us
                self._add(event)

    # -- the state of the broker

    def look(self, membership: Membership) -> None:
        """Write a status line if the root or the number of clients has changed."""
        clients = membership.client_count()
        others = clients != self._clients and self._now_us() - self._status_us >= CLIENTS_EVERY_US
        if others or membership.root != self._root:
            self._tell_status(membership, clients)

    def tick(self, membership: Membership) -> None:
        """Write a status line each second."""
        self.look(membership)
        if self._now_us() - self._status_us >= STATUS_EVERY_US:
            self._tell_status(membership, membership.client_count())
            if self._file is not None:
                self._file.flush()

    def _tell_status(self, membership: Membership, clients: int) -> None:
        self._root, self._clients, self._status_us = membership.root, clients, self._now_us()
        self._add(
            StatusLine(
                at_us=self._status_us,
                broker=self._name,
                root=membership.root,
                clients=clients,
                cpu_us=time.process_time_ns() // 1_000,
                memory_bytes=self._process.memory_info().rss,
                published=self._broker.published,
            )
        )

    # -- lines

    def _add(self, line: TraceEvent | BeginLine | StatusLine | LostLine) -> None:
        file = self._file
        if file is None or self._is_full():
            return
        if file.lost:
            lost, file.lost = file.lost, 0
            file.add(self._encode(LostLine(at_us=self._now_us(), broker=self._name, count=lost)) + b"\n")
        file.add(self._encode(line) + b"\n")

    def _is_full(self) -> bool:
        """Whether the file has its largest size; then the trace is ended here."""
        if self._file is None or self._file.size < self._bytes_max - END_ROOM_BYTES:
            return False
        text = f"{self._path} has {self._bytes_max // MB} MB (trace.max_mb)"
        log.warning("no more is traced: %s", text)
        self._end(f"full: {self._bytes_max // MB} MB (trace.max_mb)")
        return True

    def stop(self) -> None:
        """The broker ends."""
        self.written()
        if self._file is not None:
            self._end("stopped", wait=True)

    def _end(self, why: str, *, wait: bool = False) -> None:
        file, self._file = self._file, None
        self._quiet()
        if file is not None:
            if file.size < self._bytes_max:
                file.add(self._encode(EndLine(at_us=self._now_us(), broker=self._name, why=why)) + b"\n")
            file.stop(wait=wait)

    def _quiet(self) -> None:
        """Have the broker trace no more messages."""
        self.tracer.is_on = False
        self._broker.tracer = None
        self._handed.clear()

    def _failed_in_thread(self, why: str) -> None:
        self._loop.call_soon_threadsafe(self._failed, why)

    def _failed(self, why: str) -> None:
        log.error("no more is traced: %s: %s", self._path, why)
        file, self._file = self._file, None
        self._quiet()
        if file is not None:
            file.stop()
