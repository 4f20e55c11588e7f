"""The broker's store, driven: its contents are read at start, then the writes of each turn go to it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from openclust.shell.cluster.data_directory import check_owner
from openclust.shell.config.schema import ConfigError
from openclust.shell.host.clock import monotonic_ms
from openclust.shell.store import MemoryStore, Store, open_store

if TYPE_CHECKING:
    from openclust.broker.counts.histogram import Histogram
    from openclust.broker.journal.store_rows import Write
    from openclust.cluster.membership.membership import Membership
    from openclust.node import Node
    from openclust.shell.config.schema import Config
    from openclust.shell.users.logins import Logins

log = logging.getLogger("openclust.store")

WELL_WAIT_S = 10.0
ILL_WAIT_S = 1.0
"""How long a broker that ends waits for its disk: longer for one that works than for one that fails."""


def new_store(config: Config) -> Store:
    """The store of the data directory; one in memory where there is none."""
    directory = config.cluster.data_dir
    if directory is None:
        return MemoryStore()
    return open_store(
        directory, cluster_key=config.cluster_key, name=config.name, owned=partial(check_owner, config, directory)
    )


class StoreDriver:
    """Call `begin` before the broker listens, `write` what each turn of the node gives, `stop` at the end."""

    def __init__(self, config: Config, store: Store, node: Node, turn_soon: Callable[[], None]) -> None:
        self._config = config
        self._store = store
        self._node = node
        self._turn_soon = turn_soon

    @property
    def transactions(self) -> Histogram | None:
        """How many seconds each transaction of the store took; None where there is no disk."""
        return self._store.transactions

    @property
    def failing(self) -> str:
        """Why the disk takes nothing now; empty where it does."""
        return self._store.failing

    def begin(self, loop: asyncio.AbstractEventLoop, logins: Logins) -> None:
        """Fill the broker from the store; ConfigError if the store cannot be read."""
        broker, membership = self._node.broker, self._node.membership
        began = time.monotonic()
        contents = self._store.contents()
        try:
            membership.recover(contents, self._store)
        except ValueError as error:
            place = self._config.cluster.data_dir
            raise ConfigError(
                f"{place}: a row of the store is damaged: {error}; openclust store verify tells all that is"
            ) from None
        if membership.is_alone:
            logins.log_says(broker.users)
            if self._config.auth.users_file is not None:
                # A broker alone goes by its users file, whichever users its store has.
                broker.replace_users(logins.users.values())
        if contents.rows or contents.definitions:
            waiting = sum(len(queue) for vhost in broker.vhosts.values() for queue in vhost.queues.values())
            took_s = time.monotonic() - began
            log.info("%d messages and the log up to %s read in %.1f s", waiting, _end(membership), took_s)
        self._store.start(loop, self._stored, self._failed)

    def write(self, writes: list[Write]) -> None:
        """Give these to the store."""
        self._store.write(writes)
        self._node.membership.disk_health.waits(self._store.waiting_bytes)

    def look(self) -> None:
        """Every heartbeat: tell the node whether the disk works, and how much waits for it."""
        store = self._store
        # Clients are told the reason: it must not show them the path of the data directory.
        failure = store.failing.rpartition(": cannot write: ")[2]
        self._node.disk_is(failure, store.waiting_bytes, monotonic_ms())

    def _stored(self, done: int) -> None:
        self._node.stored(done, monotonic_ms())
        disk = self._node.membership.disk_health
        disk.waits(self._store.waiting_bytes)
        if disk.illness:
            self.look()
        self._turn_soon()

    def _failed(self, text: str) -> None:
        """A write failed. The store has logged the reason, and goes on trying."""
        self.look()
        self._turn_soon()

    def stop(self) -> None:
        writes = self._node.membership.store_writes.take_writes()
        if writes:
            self.write(writes)
        # A disk that already fails will not take everything in time.
        if not self._store.close(ILL_WAIT_S if self._store.failing else WELL_WAIT_S):
            log.error("the broker ends with writes that its disk has not taken")


def _end(membership: Membership) -> str:
    last = membership.replica.position
    return f"{last.sequence} of epoch {last.epoch}"
