"""Messages that only a former root has go to the next root, one by one, and each is kept here until that has it.

They are all messages of queues whose contents are not replicated; and of replicated queues, those that the former root
had taken in but could not put on enough brokers: strays (`keep`). Without this, a root that steps down, or comes back
after it was cut off, would keep messages that no client can get.

In a last-value queue they replace no value that a later root has taken in: they arrive after it, but are older.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.amqp.publishing import decode_publish
from openclust.broker.model.durability_level import SHARED
from openclust.broker.model.message import Message, delivery_suffix
from openclust.cluster.protocol.messages import Lane
from openclust.cluster.protocol.outbox import HANDOVER_LANE
from openclust.cluster.relay.lanes import Reach, frames
from openclust.cluster.relay.relay_lane import RelayLane
from openclust.wire.text import decode_text, encode_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker
    from openclust.cluster.log.rollback import Rollback
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.protocol.messages import Settled
    from openclust.cluster.transactions.commit_registry import CommitRegistry

UNDERWAY_BYTES_MAX = 1_048_576
_FLAGS = int(Reach.SHARED | Reach.CONFIRM)


class _Letter(msgspec.Struct):
    """A message that is under way. A stray has no place in its queue any more."""

    entry: Entry
    is_stray: bool


class Handover:
    """Call `begin` when there is a link to a root, `log_is_joined` when the log here is a part of that root's, `stop`
    when there is none, `take_in` when this broker is root.
    """

    def __init__(
        self,
        broker: Broker,
        links: Links,
        leadership: Leadership[object],
        rollback: Rollback,
        registry: CommitRegistry,
        *,
        is_in_touch: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._rollback = rollback
        self._registry = registry
        # Whether the log here is a part of the root's.
        self._is_in_touch = is_in_touch
        self._queues: deque[Queue] = deque()
        self._strays: dict[Queue, deque[Entry]] = {}
        # The first place that strays of a queue had. All strays are of this broker's last reign: a message that has
        # this place in the log, or a later one, was taken in by a later root. 0 if a stray was never in the log.
        self._since: dict[Queue, int] = {}
        # The first place that the open lane has told.
        self._told_since = 0
        self._underway: dict[int, _Letter] = {}
        self._underway_bytes = 0
        self._count = 0
        self._run = 0
        self._waits_for_log = False

    @property
    def waiting(self) -> int:
        """How many strays are here: messages of replicated queues that are in no log."""
        underway = sum(letter.is_stray for letter in self._underway.values())
        return underway + sum(len(strays) for strays in self._strays.values())

    # -- what is in no log

    def resign(self, entered: list[tuple[Queue, Entry]], left: list[tuple[Queue, Entry]]) -> None:
        """The reign has ended, and all deliveries are back in their queues.

        Messages that `entered` by the open batch of the journal are in no log: they become strays. Messages that `left`
        by it are still in the log: they are put back. Messages that were to be dead-lettered go back too.
        """
        letters = self._broker.dead_letters
        for queue, _, _, entry in letters:
            if entry is not None and queue.owner is None and queue.is_alive:
                queue.reinstate(entry)
        letters[:] = [each for each in letters if each[3] is None or each[0].owner is not None]
        taken = [(queue, found) for queue, entry in entered if (found := queue.take_back(entry.seq)) is not None]
        self._rollback.put_back(left)
        self.keep(taken)

    def keep(self, strays: list[tuple[Queue, Entry]]) -> None:
        """Send these strays to the root. They were taken out of their queues, where others have their places now."""
        self._add(strays)
        if self._links.root_outbox() is not None and not self._queues:
            self.begin()

    def _add(self, strays: list[tuple[Queue, Entry]], *, of_log: bool = True) -> None:
        accounts = self._broker.memory_accounts
        changed: dict[Queue, int] = {}
        for queue, entry in strays:
            if queue.is_alive and not self._registry.forget_place(queue, entry.seq):
                accounts.hold(entry.message)
                self._strays.setdefault(queue, deque()).append(entry)
                changed[queue] = min(entry.seq if of_log else 0, changed.get(queue, entry.seq))
        for queue, first in changed.items():
            self._since[queue] = min(first, self._since.get(queue, first))
            self._strays[queue] = deque(sorted(self._strays[queue], key=lambda entry: entry.seq))
            if self._since[queue]:
                self._strays[queue], replaced = queue.newest_of(self._strays[queue])
                for entry in replaced:
                    self._drop(queue, entry)

    def take_in(self) -> None:
        """This broker is root: put its strays into the queues as if they came now."""
        self.stop()
        strays, self._strays = self._strays, {}
        since, self._since = self._since, {}
        for queue, entries in strays.items():
            for entry in entries:
                if queue.is_alive:
                    _adopt(queue, entry.message, since.get(queue, 0), redelivered=_is_again(queue, entry))
                self._drop(queue, entry)

    def _drop(self, queue: Queue, entry: Entry) -> None:
        """Forget a stray: the root has it, or its queue is gone."""
        self._broker.memory_accounts.release(entry.message)
        if entry.recorded < 0:
            self._broker.journal.left(queue, entry)

    # -- on its way

    def begin(self) -> None:
        """Send all there is, with the messages that were under way to an earlier root.

        Strays wait until the log is joined to the root's: the messages that it loses by that are older than they are.
        """
        self.stop()
        self._waits_for_log = not self._is_in_touch()
        for _, vhost in sorted(self._broker.vhosts.items()):
            self._queues += [queue for queue in vhost.queues.values() if self._has_some(queue)]
        for queue in [each for each in self._strays if not each.is_alive]:
            self._since.pop(queue, None)
            for entry in self._strays.pop(queue):
                self._drop(queue, entry)
        if self._queues:
            strays = 0 if self._waits_for_log else self.waiting
            waiting = strays + sum(len(queue) for queue in self._queues if queue.durability_level != SHARED)
            self._broker.note("info", f"{waiting} messages go to the root {self._leadership.root}")
            self._open_lane()

    def log_is_joined(self) -> None:
        """The log here is a part of the root's now: strays need not wait any longer."""
        if self._waits_for_log and self._is_in_touch():
            self._waits_for_log = False
            if not self._queues:
                self.begin()

    def _has_some(self, queue: Queue) -> bool:
        if queue in self._strays:
            return not self._waits_for_log
        return queue.owner is None and queue.durability_level != SHARED and bool(queue.backlog)

    def stop(self) -> None:
        """The root is lost: messages that it has not settled go back to where they were."""
        self._waits_for_log = False
        if self._underway:
            queue = self._queues[0]
            for letter in reversed(self._underway.values()):
                if letter.is_stray:
                    self._strays.setdefault(queue, deque()).appendleft(letter.entry)
                else:
                    queue.put_back(letter.entry)
            self._underway.clear()
        self._underway_bytes = 0
        self._queues.clear()
        journal = self._broker.journal
        if journal.strays:
            strays, journal.strays = journal.strays, []
            self._add(strays, of_log=False)

    def _open_lane(self) -> None:
        """Open the lane of the first queue. Queues are sent one after another, each with a lane that names it."""
        self._run += 1
        self._count = 0
        queue = self._queues[0]
        outbox = self._links.root_outbox()
        if outbox is not None:
            vhost, name = encode_text(queue.vhost.name), encode_text(queue.name)
            self._told_since = self._since.get(queue, 0)
            outbox.open_lane(
                Lane(
                    number=HANDOVER_LANE,
                    vhost=vhost,
                    flags=_FLAGS,
                    queue=name,
                    run=self._run,
                    epoch=self._leadership.epoch,
                    since=self._told_since,
                )
            )
            self._go_on()

    def _go_on(self) -> None:
        outbox = self._links.root_outbox()
        while outbox is not None and self._queues:
            queue = self._queues[0]
            while self._underway_bytes < UNDERWAY_BYTES_MAX and not outbox.is_full:
                letter = self._next(queue)
                if letter is None:
                    break
                entry = letter.entry
                self._count += 1
                self._underway[self._count] = letter
                self._underway_bytes += entry.message.cost
                again = _is_again(queue, entry)
                outbox.relay(frames(HANDOVER_LANE, outbox.frame_max, entry.message, redelivered=again))
            if self._underway:
                return
            self._queues.popleft()
            if queue not in self._strays:
                self._since.pop(queue, None)
            if not self._queues and not self._waits_for_log:
                # Strays that have come meanwhile.
                self._queues += [each for each in self._strays if each.is_alive]
            if self._queues:
                self._open_lane()
                return

    def _next(self, queue: Queue) -> _Letter | None:
        if not queue.is_alive:
            return None
        strays = self._strays.get(queue)
        if strays is not None:
            if self._since.get(queue, 0) != self._told_since:
                # Older strays have come than the lane has told: they get a lane of their own.
                return None
            entry = strays.popleft()
            if not strays:
                del self._strays[queue]
            return _Letter(entry, is_stray=True)
        if queue.durability_level == SHARED:
            return None
        popped = queue.backlog.pop()
        if popped is None:
            return None
        # It counts as delivered; but nothing expires here.
        queue.ready_bytes -= len(popped.message.body)
        queue.unacked += 1
        return _Letter(popped, is_stray=False)

    def settled(self, message: Settled) -> None:
        """The root has these messages; or it has no such queue any more, and they are gone with it."""
        if message.run != self._run or not self._queues:
            return
        queue = self._queues[0]
        for first, last, _ in message.verdicts:
            for number in range(first, last + 1):
                letter = self._underway.pop(number, None)
                if letter is not None:
                    self._underway_bytes -= letter.entry.message.cost
                    if letter.is_stray:
                        self._drop(queue, letter.entry)
                    else:
                        queue.forget(letter.entry)
        self._go_on()


def _is_again(queue: Queue, entry: Entry) -> bool:
    """Whether a message may have been delivered before: in this life of the broker or in an earlier one."""
    return entry.deliveries > 0 or (bool(entry.recorded) and entry.seq <= queue.reached)


def _adopt(queue: Queue, message: Message, since: int, *, redelivered: bool) -> int:
    """As root: take a message in, unless its key has a newer value; then its confirm waits for that value."""
    if since and queue.has_value(message, since):
        return queue.vhost.broker.journal.repeated(message, queue.durability_level)
    return queue.adopt(message, redelivered=redelivered)


class HandoverLane(RelayLane):
    """The receiving end of a handover: its messages go into one queue, past all exchanges."""

    __slots__ = ()

    def publish(self, arguments: bytes, header: bytes, body: bytes) -> None:
        if not self._confirms:
            # This lane was for an earlier reign: its messages are sent again to the root.
            return
        self.count += 1
        vhost = self.broker.vhosts.get(decode_text(self.lane.vhost))
        queue = vhost.queues.get(decode_text(self.lane.queue)) if vhost is not None else None
        places = 0
        if queue is not None and queue.owner is None:
            method = decode_publish(arguments)
            exchange, key = method.exchange, method.routing_key
            message = Message(exchange, key, header, body, delivery_suffix(exchange, key))
            places = _adopt(queue, message, self.lane.since, redelivered=method.mandatory)
        self._settle(True)
        if places:
            # Its sender forgets it when it is told.
            self._gates.add(self.count, self.broker.journal.number, places)

    def publish_run(self, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """0: the messages come one by one, for each is confirmed."""
        return 0
