"""Installs a snapshot that has come: its definitions, the messages of queues, and the entries sent between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from openclust.broker.journal.batch import Batch, apply_batch, decode_batch
from openclust.broker.journal.journal import KEPT
from openclust.broker.model.durability_level import SHARED
from openclust.broker.queues.dedup import dedup_window
from openclust.cluster.protocol.messages import Snapshot
from openclust.cluster.snapshot.snapshot import Arriving
from openclust.wire.errors import AmqpError
from openclust.wire.text import decode_text

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.journal.batch import QueueBatch
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker
    from openclust.cluster.definitions.definitions import Definitions
    from openclust.cluster.log.rollback import Rollback
    from openclust.cluster.protocol.log_entry import LogEntry
    from openclust.cluster.storage.checkpointing import Checkpointing
    from openclust.cluster.storage.store_writes import StoreWrites

AHEAD_MAX = 16
"""So many writes of pages may be under way, a quarter of a megabyte each, which is in memory until then."""


class Installing:
    """Call `add` for each part. After the last one, call `advance` once a turn while it `is_under_way`.

    Private queues stay as they are. `keep_strays` is given the messages that are in no other log.
    """

    def __init__(
        self,
        broker: Broker,
        arriving: Arriving,
        definitions: Definitions,
        rollback: Rollback,
        writes: StoreWrites,
        checkpoints: Checkpointing,
        keep_strays: Callable[[list[tuple[Queue, Entry]]], None],
    ) -> None:
        self._broker = broker
        self._arriving = arriving
        self._definitions = definitions
        self._rollback = rollback
        self._writes = writes
        self._checkpoints = checkpoints
        self._keep_strays = keep_strays
        self._of: tuple[str, Snapshot] | None = None
        self._steps: Iterator[bool] | None = None
        # The part in which each queue's messages began: the effects of entries sent before it are in there.
        self._begun: dict[Queue, int] = {}
        # The numbers of the writes of the snapshot's pages.
        self._ahead: list[int] = []
        # Snapshots that were installed to their end.
        self.installed = 0

    @property
    def is_under_way(self) -> bool:
        """Whether all parts have come, and the snapshot is not installed yet."""
        return self._of is not None

    @property
    def is_arriving(self) -> bool:
        """Whether parts that came are on their way to the disk: the sender sends more when they are there."""
        return self._arriving.is_under_way

    @property
    def is_busy(self) -> bool:
        """Whether there is work that need not wait for the disk."""
        return self.is_under_way and not self._is_waiting()

    def _is_waiting(self) -> bool:
        ahead = self._ahead
        return len(ahead) >= AHEAD_MAX and ahead[-AHEAD_MAX] > self._writes.done

    def forget(self) -> None:
        """Drop the parts that have come."""
        self._arriving.forget()

    def add(self, peer: str, message: Snapshot) -> bool:
        """Take a part; False where it is not the next one."""
        if not self._arriving.add(peer, message):
            return False
        if message.is_last:
            self._of = peer, message
            self._definitions.install(self._arriving.definitions)
        return True

    def tell_arrived(self, heard: Callable[[], None]) -> None:
        """Tell the sender when more parts are on disk; `heard` is called then."""
        if self._arriving.tell():
            heard()

    def advance(self, *, to_the_end: bool = False) -> tuple[str, Snapshot] | None:
        """Do a turn's work, or all of it. When the snapshot is installed: its sender, and its last part.

        OSError or ValueError where a part cannot be read any more: the snapshot is given up.
        """
        if self._of is None:
            return None
        self._definitions.install_on(to_the_end=to_the_end)
        if self._definitions.is_installing:
            return None
        if self._steps is None:
            self._steps = self._install()
        if self._is_waiting() and not to_the_end:
            return None
        try:
            for is_much in self._steps:
                if is_much and not to_the_end:
                    return None
        except (OSError, ValueError):
            # The messages that were installed are on pages which no checkpoint names.
            for queue in self._replicated():
                _clear(queue)
            self._end()
            raise
        of = self._of
        self._end()
        self.installed += 1
        return of

    def _end(self) -> None:
        self._of = self._steps = None
        self._begun = {}
        self._ahead.clear()
        self._arriving.forget()

    def _install(self) -> Iterator[bool]:
        """Install messages and entries; each step says whether it is enough for a turn."""
        arriving = self._arriving
        if not arriving.contents:
            return
        self._keep_strays(self._rollback.drop_own(arriving.common))
        for queue in self._replicated():
            yield _clear(queue)
        # All messages first: then those of a queue come in ascending order, and those of later entries behind them.
        for part, is_contents in enumerate(arriving.contents):
            if is_contents:
                work = decode_batch(arriving.read(part).work)
                work.queues = [each for each in work.queues if self._begins(each, part)]
                apply_batch(self._broker, work, KEPT)
                self._lay_ahead()
                yield True
        for part, is_contents in enumerate(arriving.contents):
            if not is_contents:
                for entry in arriving.read(part).entries:
                    self._tell(entry, part)
                self._lay_ahead()
                yield True

    def _lay_ahead(self) -> None:
        """Have full pages written, so that they can leave memory."""
        number = self._checkpoints.lay_ahead()
        if number:
            self._ahead.append(number)

    def _replicated(self) -> list[Queue]:
        vhosts = self._broker.vhosts.values()
        return [each for vhost in vhosts for each in vhost.queues.values() if each.durability_level == SHARED]

    def _find(self, queue_batch: QueueBatch) -> Queue | None:
        vhost = self._broker.vhosts.get(decode_text(queue_batch.vhost))
        return None if vhost is None else vhost.queues.get(decode_text(queue_batch.name))

    def _begins(self, queue_batch: QueueBatch, part: int) -> bool:
        """Whether messages are for a queue that is here: those of a queue that was declared since come by entries."""
        queue = self._find(queue_batch)
        if queue is None or queue.durability_level != SHARED:
            return False
        self._begun.setdefault(queue, part)
        return True

    def _tell(self, entry: LogEntry, part: int) -> None:
        if entry.kind == "work":
            work = decode_batch(entry.body)
            later = [each for each in work.queues if self._begun.get(self._find(each), -1) < part]  # type: ignore[arg-type]
            apply_batch(self._broker, Batch(work.messages, later), KEPT)
        elif entry.kind == "change":
            try:
                self._definitions.follow(entry)
            except (AmqpError, ValueError) as error:
                self._broker.note("error", "a change of the root could not be made here", text=str(error))


def _clear(queue: Queue) -> bool:
    """Empty a queue, as if it was new. Whether it had many messages."""
    count = queue.purge()
    queue.vhost.broker.journal.page_store.emptied(queue)
    queue.next_seq = queue.reached = 0
    queue.dedup = dedup_window(queue.settings, queue.vhost.broker.limits.dedup_window_max)
    return count > 1_000
