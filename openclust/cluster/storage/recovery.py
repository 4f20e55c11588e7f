"""A broker starts with what its store has kept: definitions, messages of queues, and the newest entries of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from openclust.broker.backlog.paged_backlog import PagedBacklog
from openclust.broker.journal.batch import apply_batch, decode_batch
from openclust.broker.journal.journal import KEPT
from openclust.broker.journal.store_rows import Contents, StoreReader
from openclust.broker.model.changes import Change, DeleteExchange, DeleteQueue
from openclust.broker.model.durability_level import SHARED
from openclust.broker.server.change_performer import perform
from openclust.cluster.protocol.log_entry import LogEntry
from openclust.cluster.protocol.status import Position
from openclust.cluster.storage.batch_commit import OWN
from openclust.cluster.storage.page_recovery import find_pages

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry as QueueEntry
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker
    from openclust.cluster.log.replica import Replica
    from openclust.cluster.storage.batch_commit import BatchCommit
    from openclust.cluster.storage.checkpointing import Checkpointing
    from openclust.cluster.storage.log_store import LogStore


def recover(
    broker: Broker,
    replica: Replica,
    log_store: LogStore,
    checkpoints: Checkpointing,
    batch_commit: BatchCommit,
    contents: Contents,
    reader: StoreReader | None,
    *,
    is_alone: bool,
) -> None:
    """Call it before anything else happens to a new member. ValueError where a row is not what it should be.

    Checkpoints are made from now on, if there is a `reader` for pages.
    """
    journal = broker.journal
    journal.page_store.source = reader if journal.has_disk else None
    is_in_charge, journal.is_in_charge = journal.is_in_charge, False
    if contents.definitions:
        replica.definitions.install([contents.definitions])
        replica.definitions.install_on(to_the_end=True)
    find_pages(broker, contents.pages)
    told = Position(contents.epoch, contents.sequence)
    first = next((kept.row for kept in contents.rows if kept.row.kind != OWN), None)
    base = Position(contents.epoch, contents.sequence)
    if first is not None and first.sequence <= contents.sequence:
        # The entry before it is not kept, so its epoch is not known: this one's will do.
        base = Position(first.epoch, first.sequence - 1)
    replica.begin_at(told, base, journal.page_store.queue_notes)
    for kept in contents.rows:
        row = kept.row
        if row.kind == OWN:
            if not kept.is_told:
                apply_batch(broker, decode_batch(row.body), -KEPT)
            continue
        entry = LogEntry(Position(row.epoch, row.sequence), row.kind, row.body)
        replica.log.append(entry)
        if not kept.is_told:
            replica.apply(entry)
        if kept.is_told or entry.kind != "work":
            # Its effects are here, but not what is needed to undo them.
            replica.rollback.cannot(entry.position)
    if any(kept.row.kind == OWN and not kept.is_told for kept in contents.rows):
        journal.strays += _strays(broker)
    since = [kept.row for kept in contents.rows if not kept.is_told]
    checkpoints.found(
        Position(contents.epoch, contents.sequence),
        len(since),
        sum(len(row.body) for row in since),
        is_changed=not contents.definitions or any(row.kind == "change" for row in since),
    )
    log_store.on_disk = replica.log.last
    journal.is_in_charge = is_in_charge
    replica.tell_position()
    if is_alone:
        # The log gets them with the next reign. Whoever declares such a queue until then declares a new one.
        batch_commit.passing = list(passing(broker))
        for change in batch_commit.passing:
            perform(broker, change)


def _strays(broker: Broker) -> Iterator[tuple[Queue, QueueEntry]]:
    """Messages that only this broker kept, of queues that are replicated by now: the log does not have them."""
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            if queue.durability_level == SHARED:
                backlog = queue.backlog.memory if isinstance(queue.backlog, PagedBacklog) else queue.backlog
                yield from [(queue, queue.detach(each)) for each in list(backlog) if each.recorded < 0]


def passing(broker: Broker) -> Iterator[Change]:
    """The changes that delete all queues and exchanges that are not durable: the only broker that had them was gone."""
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            if not queue.durable:
                yield DeleteQueue(vhost=vhost.name, name=queue.name)
        for exchange in vhost.exchanges.values():
            if not exchange.durable:
                yield DeleteExchange(vhost=vhost.name, name=exchange.name)
