"""Which kind of backlog a queue has."""

from __future__ import annotations

from openclust.broker.backlog import Backlog, FifoBacklog
from openclust.broker.last_value_backlog import LastValueBacklog
from openclust.broker.priority_backlog import PriorityBacklog
from openclust.broker.queue_args import QueueArgs


def backlog_for(args: QueueArgs) -> Backlog:
    """A new one, for a queue that was declared with these."""
    if args.last_value_key is not None:
        return LastValueBacklog()
    if args.max_priority is not None:
        return PriorityBacklog(args.max_priority)
    return FifoBacklog()
