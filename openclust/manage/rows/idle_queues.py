"""Since when nothing has happened to a queue. Nothing is counted for it: looks at a queue are compared."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias

from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.cluster.shared_queues.consumer_proxy import ConsumerProxy

QUEUES_MAX = 20_000
"""So many queues are remembered: those that were looked at last."""

State: TypeAlias = tuple[int, ...]


class Look(NamedTuple):
    """What a queue was like, and since when it has been so."""

    state: State
    since_ms: int


class IdleQueues:
    """Remembers the queues that somebody has looked at."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._looks: OrderedDict[tuple[str, str], Look] = OrderedDict()

    def look(self, queue: Queue) -> str | None:
        """The first moment at which the queue was seen as it is now; None where it was different at the last look."""
        key, state = (queue.vhost.name, queue.name), _state(queue)
        before = self._looks.get(key)
        if before is None or before.state != state:
            self._looks[key] = Look(state, self._broker.now_ms)
            self._looks.move_to_end(key)
            if len(self._looks) > QUEUES_MAX:
                self._looks.popitem(last=False)
            return None
        self._looks.move_to_end(key)
        since_ms = before.since_ms + self._broker.wall_offset_ms
        return datetime.fromtimestamp(since_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def _state(queue: Queue) -> State:
    """Numbers of which at least one changes with all that happens to a queue."""
    deliveries = sum(
        each.number if isinstance(each, ConsumerProxy) else each.channel.delivery_tag for each in queue.consumers
    )
    return queue.next_seq, len(queue), queue.unacked, queue.unused_since_ms, len(queue.consumers), deliveries
