"""Which kind of backlog a queue has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.backlog.backlog import Backlog, Entry, FifoBacklog
from openclust.broker.backlog.last_value_backlog import LastValueBacklog
from openclust.broker.backlog.priority_backlog import PriorityBacklog

if TYPE_CHECKING:
    from openclust.broker.queues.queue import Queue


def backlog_for(queue: Queue) -> Backlog:
    """A new one, for what the queue was declared with."""
    if queue.args.last_value_key is not None:

        def superseded(entry: Entry) -> None:
            # It will not come back: it has left, whatever its consumer says of it.
            if entry.recorded:
                queue.vhost.broker.journal.left(queue, entry)

        return LastValueBacklog(superseded)
    if queue.args.max_priority is not None:
        return PriorityBacklog(queue.args.max_priority)
    return FifoBacklog()
