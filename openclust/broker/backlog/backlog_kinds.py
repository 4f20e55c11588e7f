"""Which kind of backlog a queue has."""

from __future__ import annotations

from collections.abc import Callable

from openclust.broker.backlog.backlog import Backlog, Entry, FifoBacklog
from openclust.broker.backlog.last_value_backlog import LastValueBacklog
from openclust.broker.backlog.priority_backlog import PriorityBacklog
from openclust.broker.model.queue_arguments import QueueArgs


def backlog_for(args: QueueArgs, superseded: Callable[[Entry], None]) -> Backlog:
    """A backlog for a queue with these arguments. `superseded` is called for deliveries that a newer value replaces."""
    if args.last_value_key is not None:
        return LastValueBacklog(superseded)
    if args.max_priority is not None:
        return PriorityBacklog(args.max_priority)
    return FifoBacklog()
