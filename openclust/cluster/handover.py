"""What the shared queues of a former root still hold goes to the next root, message by message, each until it has it.

Without this, a root that steps down, or comes back from behind a cut, would keep messages that nobody can get.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from openclust.broker.message import Message, delivery_suffix
from openclust.broker.publishing import decode_publish
from openclust.cluster.messages import Lane, heard, said
from openclust.cluster.outbox import HANDOVER_LANE
from openclust.cluster.relay import Reach, RelayLane, frames

if TYPE_CHECKING:
    from openclust.broker.backlog import Entry
    from openclust.broker.queue import Queue
    from openclust.cluster.membership import Membership
    from openclust.cluster.messages import Settled

UNDERWAY_BYTES_MAX = 1_048_576
_FLAGS = int(Reach.SHARED | Reach.CONFIRM)


class Handover:
    """Call `begin` when there is a link to a root, `stop` when there is none, or this broker is root itself."""

    def __init__(self, membership: Membership) -> None:
        self._cluster = membership
        self._queues: deque[Queue] = deque()
        self._underway: dict[int, Entry] = {}
        self._underway_bytes = 0
        self._count = 0
        self._run = 0

    def begin(self) -> None:
        """Begin with what is here; what was underway to another root is here again."""
        self.stop()
        for _, vhost in sorted(self._cluster.broker.vhosts.items()):
            self._queues += [queue for queue in vhost.queues.values() if queue.owner is None and queue.backlog]
        if self._queues:
            waiting = sum(len(queue) for queue in self._queues)
            self._cluster.broker.note("info", f"{waiting} messages go to the root {self._cluster.root}")
            self._open_lane()

    def stop(self) -> None:
        """What is not known to be there stays here, in its old place."""
        if self._underway:
            queue = self._queues[0]
            for entry in self._underway.values():
                queue.put_back(entry)
            self._underway.clear()
        self._underway_bytes = 0
        self._queues.clear()

    def _open_lane(self) -> None:
        """One queue after another, each with a lane that says which it is."""
        self._run += 1
        self._count = 0
        queue = self._queues[0]
        outbox = self._cluster.root_outbox()
        if outbox is not None:
            vhost, name = said(queue.vhost.name), said(queue.name)
            outbox.open_lane(Lane(number=HANDOVER_LANE, vhost=vhost, flags=_FLAGS, queue=name, run=self._run))
            self._go_on()

    def _go_on(self) -> None:
        outbox = self._cluster.root_outbox()
        while outbox is not None and self._queues:
            queue = self._queues[0]
            while self._underway_bytes < UNDERWAY_BYTES_MAX and not outbox.is_full:
                entry = queue.get() if queue.is_alive else None
                if entry is None:
                    break
                self._count += 1
                self._underway[self._count] = entry
                self._underway_bytes += entry.message.cost
                again = entry.deliveries > 0
                outbox.relay(frames(HANDOVER_LANE, outbox.frame_max, entry.message, redelivered=again))
            if self._underway:
                return
            self._queues.popleft()
            if self._queues:
                self._open_lane()
                return

    def settled(self, message: Settled) -> None:
        """The root has them; or has no such queue any more, and then they are gone with it."""
        if message.run != self._run or not self._queues:
            return
        queue = self._queues[0]
        for first, last, _ in message.verdicts:
            for number in range(first, last + 1):
                entry = self._underway.pop(number, None)
                if entry is not None:
                    self._underway_bytes -= entry.message.cost
                    queue.forget(entry)
        self._go_on()


class HandoverLane(RelayLane):
    """The receiving end: messages for one queue, whatever the exchanges say of them."""

    __slots__ = ()

    def publish(self, arguments: bytes, header: bytes, body: bytes) -> None:
        self.count += 1
        vhost = self.broker.vhosts.get(heard(self.lane.vhost))
        queue = vhost.queues.get(heard(self.lane.queue)) if vhost is not None else None
        if queue is not None and queue.owner is None and self._cluster.is_root:
            method = decode_publish(arguments)
            exchange, key = method.exchange, method.routing_key
            message = Message(exchange, key, header, body, delivery_suffix(exchange, key))
            queue.adopt(message, redelivered=method.mandatory)
        self._settle(True)
