"""When the rows of this broker's store are replaced by a checkpoint, and what the checkpoint holds.

It says all that the rows before it have done, and is made when the journal's batch is in them. Definitions that have
changed are taken over several turns, while rows go on; the checkpoint follows when they are all there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openclust.broker.journal.store_rows import Ahead, Checkpoint, Restart
from openclust.cluster.protocol.status import Position
from openclust.cluster.snapshot.snapshot import Making

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.definitions.definitions import Definitions
    from openclust.cluster.log.cluster_uuid import ClusterUuid
    from openclust.cluster.log.log import Log
    from openclust.cluster.log.rollback import Rollback
    from openclust.cluster.protocol.bounds import Bounds
    from openclust.cluster.protocol.log_entry import LogEntry
    from openclust.cluster.storage.store_writes import StoreWrites
    from openclust.cluster.transactions.commit_registry import CommitRegistry

ROW_BYTES = 100
"""Bytes that a row costs beside its body."""
PAGES_MAX = 800
"""A checkpoint with more new or changed pages takes too long for a turn: the next ones come sooner."""
SHARE_MIN = 16
"""But not sooner than after this part of the usual bytes or messages: a sixteenth."""


class Checkpointing:
    """Tell it what is `kept`; call `flush` at the end of a turn. Another must follow soon while it `is_busy`.

    Set `is_wanted` where a checkpoint must come in this turn, `restart` where nothing in the store counts any more.
    """

    def __init__(
        self,
        broker: Broker,
        writes: StoreWrites,
        log: Log,
        rollback: Rollback,
        definitions: Definitions,
        registry: CommitRegistry,
        cluster_uuid: ClusterUuid,
        bounds: Bounds,
        *,
        is_alone: bool,
    ) -> None:
        self._broker = broker
        self._page_store = broker.journal.page_store
        self._writes = writes
        self._log = log
        self._rollback = rollback
        self._definitions = definitions
        self._registry = registry
        self._cluster_uuid = cluster_uuid
        self._is_alone = is_alone
        self._bytes_max = bounds.checkpoint_bytes
        self._messages_max = bounds.checkpoint_messages
        self._slice_max = bounds.slice_max
        self.is_wanted = False
        # The log's end at the last checkpoint.
        self.position = Position()
        self._bytes = 0
        # The next checkpoint comes after the bounds divided by this.
        self._share = 1
        self._is_changed = True
        self._defined_bytes = 0
        self._making: Making | None = None

    @property
    def is_busy(self) -> bool:
        return self._making is not None

    def kept(self, size: int, entry: LogEntry | None = None) -> None:
        """A row was given to the store, perhaps an entry of the log."""
        self._bytes += size + ROW_BYTES
        if entry is not None and entry.kind == "change":
            self._is_changed = True
            if self._making is not None:
                self._making.changed(entry.body)

    def found(self, position: Position, rows: int, rows_bytes: int, *, is_changed: bool) -> None:
        """The broker starts with a checkpoint there, and so many rows since; `is_changed`: some are changes."""
        self.position = position
        self._bytes = rows_bytes + rows * ROW_BYTES
        self._is_changed = is_changed

    def is_cut(self, position: Position) -> None:
        """The log was cut there: a checkpoint with the effects of later entries must be replaced at once."""
        if position < self.position:
            self.is_wanted = True

    # -- making one

    def flush(self, seal: Callable[[], None]) -> None:
        """Make a checkpoint if it is time to. `seal` ends the journal's batch and gives its rows.

        Not for a broker that cannot read its pages again, nor while a snapshot is installed.
        """
        if self._making is None:
            if not self._is_due():
                return
            if self._is_changed:
                self._making = Making(self._definitions.in_passing(), self._slice_max)
                self._is_changed = False
        if self._making is not None:
            self._making.advance(self._log.last)
            while self.is_wanted and not self._making.is_made:
                self._making.advance(self._log.last)
            if not self._making.is_made:
                return
        if not self._broker.journal.is_empty:
            seal()
        self._make()

    def _is_due(self) -> bool:
        if self.is_wanted:
            return True
        least = 2 * self._defined_bytes if self._is_changed else 0
        is_much = (
            self._bytes * self._share >= self._bytes_max or self._page_store.count * self._share >= self._messages_max
        )
        return is_much and self._bytes >= least

    def _make(self) -> None:
        making, self._making = self._making, None
        definitions = [body for part in making.parts for body in part] if making is not None else None
        if definitions is not None:
            self._defined_bytes = sum(map(len, definitions))
        last = self._log.last
        sure = last.sequence if self._is_alone else self._rollback.base.sequence
        commits = self._registry.names(last)
        found = self._page_store.collect(last.sequence, sure, self._cluster_uuid.uuid, commits)
        keep_after = last.sequence if self._is_alone else self._log.base.sequence
        checkpoint = Checkpoint(last.epoch, last.sequence, keep_after, definitions, found.pages, found.dead, found.gone)
        self._writes.give(checkpoint)
        is_long = len(found.pages) + len(found.dead) + len(found.gone) > PAGES_MAX
        self._share = min(2 * self._share, SHARE_MIN) if is_long else max(self._share // 2, 1)
        self._page_store.written(self._writes.given)
        self.position = last
        self._bytes = 0
        self.is_wanted = False

    # -- a snapshot

    def lay_ahead(self) -> int:
        """Have full pages written while a snapshot is installed; the number of that write, 0 where there are none."""
        pages = self._page_store.lay_ahead() if self._page_store.source is not None else []
        if not pages:
            return 0
        self._writes.give(Ahead(pages))
        self._page_store.written(self._writes.given)
        return self._writes.given

    def restart(self) -> None:
        """A snapshot is in force, at the log's end: the store begins with that, and with the pages that are there.

        Restart and checkpoint are given in one turn, and come to the disk together or not at all.
        """
        if self._page_store.source is None:
            return
        last = self._log.last
        vhosts = self._broker.vhosts.values()
        kept = self._page_store.begin_anew(
            queue for vhost in vhosts for queue in vhost.queues.values() if queue.durability_level
        )
        self._writes.give(Restart(last.epoch, last.sequence, kept))
        self._making = None
        self._is_changed = True
        self.is_wanted = True
        self.flush(lambda: None)
