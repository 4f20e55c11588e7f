"""The broker's store: what it has kept is read before anything else, and then it keeps what each turn gives."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from openclust.cluster.storage.recovery import recover
from openclust.shell.cluster.data_directory import check_owner
from openclust.shell.config.schema import ConfigError
from openclust.shell.store import MemoryStore, Store, open_store

if TYPE_CHECKING:
    from openclust.broker.journal.store_rows import Write
    from openclust.shell.config.schema import Config
    from openclust.shell.server import Server

log = logging.getLogger("openclust.store")

WELL_WAIT_S = 10.0
ILL_WAIT_S = 1.0
"""How long a broker that ends waits for its disk."""


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

    def __init__(self, server: Server, store: Store) -> None:
        self._server = server
        self.store = store

    def begin(self) -> None:
        """Become what the store has kept; ConfigError where that cannot be read."""
        server = self._server
        began = time.monotonic()
        contents = self.store.contents()
        try:
            recover(server.member.membership, contents, self.store)
        except ValueError as error:
            place = server.config.cluster.data_dir
            raise ConfigError(
                f"{place}: a row of the store is damaged: {error}; openclust store verify tells all that is"
            ) from None
        if server.member.membership.is_alone:
            server.logins.log_says(server.broker.users)
            if server.config.auth.users_file is not None:
                # The file says who the users are, whoever they were before.
                server.broker.replace_users(server.logins.users.values())
        if contents.rows or contents.definitions:
            waiting = sum(len(queue) for vhost in server.broker.vhosts.values() for queue in vhost.queues.values())
            took_s = time.monotonic() - began
            log.info("%d messages and the log up to %s read in %.1f s", waiting, _end(server), took_s)
        self.store.start(server.loop, self._stored, self._failed)

    def write(self, writes: list[Write]) -> None:
        """Have these written."""
        self.store.write(writes)
        self._server.member.membership.storing.disk.waits(self.store.waiting_bytes)

    def look(self) -> None:
        """Every heartbeat: tell how the disk is."""
        store = self.store
        # The directory is not for the clients who are told.
        failure = store.failing.rpartition(": cannot write: ")[2]
        self._server.node.disk_is(failure, store.waiting_bytes, self._server.now_ms())

    def _stored(self, done: int) -> None:
        server = self._server
        server.node.stored(done, server.now_ms())
        disk = server.member.membership.storing.disk
        disk.waits(self.store.waiting_bytes)
        if disk.illness:
            self.look()
        server.turn_soon()

    def _failed(self, text: str) -> None:
        """The store has logged it, and tries again."""
        self.look()
        self._server.turn_soon()

    def stop(self) -> None:
        writes = self._server.member.membership.storing.take_writes()
        if writes:
            self.write(writes)
        # A disk that does not even take what came before will not take it all in time.
        if not self.store.close(ILL_WAIT_S if self.store.failing else WELL_WAIT_S):
            log.error("not all could be written before the end")


def _end(server: Server) -> str:
    last = server.member.membership.replica.position
    return f"{last.sequence} of epoch {last.epoch}"
