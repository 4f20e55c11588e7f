"""Finds the pages in a broker's store as it starts: by what the store says of them, without reading them.

But for queues whose order is not that of their places: those have all in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.backlog.backlog import FifoBacklog
from openclust.broker.backlog.page import Leaf, decode_page, found_leaf
from openclust.broker.backlog.paged_backlog import PagedBacklog

if TYPE_CHECKING:
    from openclust.broker.journal.store_rows import PageInfo
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker


def find_pages(broker: Broker, pages: list[PageInfo]) -> None:
    """Call it when the definitions are there. ValueError where a page is not what it should be, or cannot be read."""
    library = broker.journal.library
    if library.source is None:
        if pages:
            raise ValueError("there are pages, and nothing to read them from")
        return
    library.number = max((info.number for info in pages), default=0) + 1
    in_memory: list[tuple[Queue, Leaf]] = []
    for info in pages:
        vhost = broker.vhosts.get(info.vhost)
        queue = vhost.queues.get(info.queue) if vhost is not None else None
        if not info.count and not info.queue:
            library.notebook.found_sheet(broker, info.number, _read(broker, info.number))
        elif queue is None or queue.owner is not None:
            library.lost(info.number)
        elif not info.count:
            library.notebook.found_slip(queue, info.number, _read(broker, info.number))
        else:
            leaf = found_leaf(info.number, info.first, info.last, info.count, info.size, info.dead)
            if not leaf.alive:
                library.lost(info.number)
                continue
            if type(queue.backlog) is FifoBacklog:
                queue.backlog = PagedBacklog(queue, library, queue.backlog, queue.vhost.broker.books)
            elif not isinstance(queue.backlog, PagedBacklog):
                in_memory.append((queue, leaf))
            library.shelf(queue).add(leaf)
            queue.ready_bytes += leaf.size(leaf.alive)
            queue.next_seq = max(queue.next_seq, info.last)
    for queue, leaf in in_memory:
        _bring(broker, queue, leaf)


def _bring(broker: Broker, queue: Queue, leaf: Leaf) -> None:
    library = broker.journal.library
    entries = decode_page(leaf, leaf.alive, _read(broker, leaf.number), library.mark(queue), broker.wall_offset_ms)
    library.shelf(queue).bring(leaf, leaf.alive)
    queue.ready_bytes -= leaf.size(leaf.alive)
    for entry in entries:
        queue.restore(entry)


def _read(broker: Broker, number: int) -> bytes:
    source = broker.journal.library.source
    assert source is not None, "asked before"
    try:
        return source.page(number)
    except OSError as error:
        raise ValueError(f"page {number} cannot be read: {error}") from None
