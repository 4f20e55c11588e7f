"""Finds the pages in a broker's store as it starts: by what the store says of them, without reading them.

But for queues whose order is not that of their places: those have all in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.backlog.backlog import FifoBacklog
from openclust.broker.backlog.page import PageState, decode_page, found_page
from openclust.broker.backlog.paged_backlog import PagedBacklog

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.journal.store_rows import PageInfo
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker


def find_pages(broker: Broker, pages: list[PageInfo]) -> None:
    """Call it when the definitions are there. ValueError where a page is not what it should be, or cannot be read."""
    page_store = broker.journal.page_store
    if page_store.source is None:
        if pages:
            raise ValueError("there are pages, and nothing to read them from")
        return
    page_store.number = max((info.number for info in pages), default=0) + 1
    in_memory: list[tuple[Queue, PageState]] = []
    for info in pages:
        vhost = broker.vhosts.get(info.vhost)
        queue = vhost.queues.get(info.queue) if vhost is not None else None
        if not info.count and not info.queue:
            page_store.queue_notes.found_places(broker, info.number, _read(broker, info.number))
        elif queue is None or queue.owner is not None:
            page_store.lost(info.number)
        elif not info.count:
            page_store.queue_notes.found_keys(queue, info.number, _read(broker, info.number))
        else:
            page = found_page(info.number, info.first, info.last, info.count, info.size, info.dead)
            if not page.alive:
                page_store.lost(info.number)
                continue
            if type(queue.backlog) is FifoBacklog:
                queue.backlog = PagedBacklog(queue, page_store, queue.backlog, queue.vhost.broker.memory_accounts)
            elif not isinstance(queue.backlog, PagedBacklog):
                in_memory.append((queue, page))
            page_store.page_index(queue).add(page)
            queue.ready_bytes += page.size(page.alive)
            queue.next_seq = max(queue.next_seq, info.last)
    loaded: dict[Queue, list[Entry]] = {}
    for queue, page in in_memory:
        loaded.setdefault(queue, []).extend(_load(broker, queue, page))
    for queue, entries in loaded.items():
        # The places of one page lie among those of others. In ascending order each entry is the last of its backlog, so
        # that no backlog is searched, or put in order again, for each of them.
        for entry in sorted(entries, key=_by_place):
            queue.restore(entry)


def _by_place(entry: Entry) -> int:
    return entry.seq


def _load(broker: Broker, queue: Queue, page: PageState) -> list[Entry]:
    page_store = broker.journal.page_store
    entries = decode_page(page, page.alive, _read(broker, page.number), page_store.mark(queue), broker.wall_offset_ms)
    page_store.page_index(queue).mark_loaded(page, page.alive)
    queue.ready_bytes -= page.size(page.alive)
    return entries


def _read(broker: Broker, number: int) -> bytes:
    source = broker.journal.page_store.source
    assert source is not None, "asked before"
    try:
        return source.page(number)
    except OSError as error:
        raise ValueError(f"page {number} cannot be read: {error}") from None
