"""Queues: messages wait here, in order, for consumers. `delivery/consumer_rotation.py` chooses the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.backlog.backlog_kinds import backlog_for
from openclust.broker.backlog.last_value_backlog import LastValueBacklog
from openclust.broker.backlog.paged_backlog import PagedBacklog, PageReader, UnloadedEntries, size_of
from openclust.broker.counts.message_counts import QueueCounts
from openclust.broker.delivery.consumer import Consumer, OriginHost
from openclust.broker.delivery.consumer_rotation import ConsumerRotation
from openclust.broker.model.durability_level import NOTHING, SHARED
from openclust.broker.model.message import Message
from openclust.broker.model.outcome import REFUSED
from openclust.broker.model.queue_arguments import NO_ARGS, QueueArgs
from openclust.broker.queues.dedup import DedupWindow, dedup_window
from openclust.broker.routing.route import ExchangeHost
from openclust.broker.routing.route_counts import RouteCounts
from openclust.wire.errors import PRECONDITION_FAILED, ChannelError
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.model.deadlines import Deadlines
    from openclust.broker.model.limits import Limits
    from openclust.broker.model.memory_accounts import MemoryAccounts
    from openclust.broker.routing.exchange import Binding, Targets


EXPIRED = "expired"
MAX_LENGTH = "maxlen"


class Owner(Protocol):
    """The connection that has declared an exclusive queue."""

    def own(self, queue: Queue) -> None: ...
    def disown(self, queue: Queue) -> None: ...
    def close(self, code: int, text: str) -> None: ...


class QueuePageStore(PageReader["Queue"], Protocol):
    """The pages of a store, to the queues whose messages lie in them; see `journal/page_store.py`."""

    def entered(self, queue: Queue, entry: Entry) -> None: ...
    def put_back(self, queue: Queue, entry: Entry) -> None: ...
    def left(self, queue: Queue, entry: Entry) -> None: ...
    def returned(self, queue: Queue, entry: Entry) -> None: ...
    def mentioned(self, queue: Queue) -> None: ...
    def dropped(self, queue: Queue) -> None: ...
    def emptied(self, queue: Queue) -> None: ...


class QueueJournal(Protocol):
    """The journal, to the queues that tell it what enters and leaves them; see `journal/journal.py`."""

    has_disk: bool
    is_in_charge: bool
    number: int
    since: int
    strays: list[tuple[Queue, Entry]]

    @property
    def mark(self) -> int: ...
    @property
    def page_store(self) -> QueuePageStore: ...

    def level(self, queue: Queue) -> int: ...
    def entered(self, queue: Queue, entry: Entry, level: int) -> int: ...
    def repeated(self, message: Message, level: int) -> int: ...
    def left(self, queue: Queue, entry: Entry) -> None: ...
    def returned(self, queue: Queue, entry: Entry) -> None: ...
    def reached(self, queue: Queue, level: int) -> None: ...


class QueueBroker(Protocol):
    """What queues and their journal ask of their broker."""

    limits: Limits
    memory_accounts: MemoryAccounts
    deadlines: Deadlines
    now_ms: int
    wall_offset_ms: int
    dead_letters: list[tuple[Queue, Message, str, Entry | None]]
    dead_lettered: dict[str, int]

    @property
    def journal(self) -> QueueJournal: ...
    @property
    def vhosts(self) -> Mapping[str, QueueHost]: ...

    def note(
        self, level: Literal["debug", "info", "warning", "error"], event: str, connection: None = None, **fields: Any
    ) -> None: ...


class QueueHost(OriginHost, ExchangeHost, Protocol):
    """The virtual host, to its queues."""

    queues: dict[str, Queue]
    route_counts: RouteCounts

    @property
    def name(self) -> str: ...
    @property
    def broker(self) -> QueueBroker: ...
    def queue_unused(self, queue: Queue) -> None: ...


class Queue:
    """One queue.

    `direct` is a consumer that a message may be sent to without `publish`: the queue's only consumer, without
    acknowledgements, ready for more, and with no message waiting before it.

    A durability level (`model/durability_level.py`) other than `NOTHING` means that the journal records the messages.
    `recorded_unacked` are the recorded messages that were delivered and are not settled, by their places; the journal
    removes them. `reached` is the highest place of a recorded message that was delivered: after a crash, every message
    up to there may have been delivered before.
    """

    __slots__ = (
        "args",
        "arguments",
        "auto_delete",
        "backlog",
        "consumers",
        "deadline_ms",
        "dedup",
        "delivered",
        "delivered_no_ack",
        "direct",
        "durability_level",
        "durable",
        "entered",
        "got",
        "got_empty",
        "got_no_ack",
        "has_length_limit",
        "has_plain_entries",
        "incoming",
        "name",
        "next_seq",
        "owner",
        "reached",
        "ready_bytes",
        "recorded_unacked",
        "redelivered",
        "rejected",
        "returned",
        "routed",
        "settings",
        "unacked",
        "unused_since_ms",
        "vhost",
    )

    # See `Destination` and `Origin`.
    is_remote = False
    is_here = True
    is_void = False
    is_exchange = False

    def __init__(
        self,
        vhost: QueueHost,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        owner: Owner | None,
        arguments: Table,
        args: QueueArgs,
        settings: QueueArgs,
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = arguments
        self.args = args
        self.settings = NO_ARGS
        self.backlog = backlog_for(args, self._delivery_superseded)
        self.consumers = ConsumerRotation(single_active=args.single_active_consumer)
        self.incoming: dict[Binding, None] | None = None
        self.dedup: DedupWindow | None = None
        self.direct: Consumer | None = None
        self.next_seq = 0
        self.reached = 0
        self.durability_level = NOTHING
        self.recorded_unacked: dict[int, Entry] = {}
        self.ready_bytes = self.unacked = 0
        self.unused_since_ms = vhost.broker.now_ms
        self.deadline_ms = 0
        self.routed = self.entered = self.delivered = self.delivered_no_ack = 0
        self.got = self.got_no_ack = self.got_empty = self.redelivered = self.returned = self.rejected = 0
        self.follow(settings)

    def add_to(self, targets: Targets) -> None:
        targets.destinations[self] = None

    # -- counts

    def count_routed(self, count: int) -> int:
        self.routed += count
        return count

    def counts(self) -> QueueCounts:
        """How many messages passed, but for those that routes have not told of yet."""
        # Routes tell later than `publish` counts, so that the difference may be too small for a moment.
        straight = max(0, self.routed - self.entered)
        # Deliveries that need an ack wait for it, came back, were rejected, or are acknowledged.
        acknowledged = self.delivered + self.got - self.unacked - self.returned - self.rejected
        # By position: the statistics ask every queue, and names take twice the time.
        return QueueCounts(
            max(self.routed, self.entered),
            self.delivered,
            self.delivered_no_ack + straight,
            self.got,
            self.got_no_ack,
            self.got_empty,
            self.redelivered,
            max(0, acknowledged),
        )

    # -- publishing

    def publish(self, message: Message) -> int:
        """Take a message. Returns bits of `model/outcome.py`. A duplicate is accepted and dropped."""
        self.entered += 1
        if self.dedup is not None and self.dedup.repeats(message, self.vhost.broker.now_ms):
            return self.vhost.broker.journal.repeated(message, self.durability_level)
        if not self.backlog and self.settings.last_value_key is None:
            consumer = self.consumers.next()
            if consumer is not None:
                self.unacked += 1
                self.vhost.broker.memory_accounts.hold(message)
                entry = self._entry(message)
                outcome = 0
                if self.durability_level:
                    journal = self.vhost.broker.journal
                    outcome = journal.entered(self, entry, self.durability_level)
                    self.reached = entry.seq
                    if entry.recorded:
                        self.recorded_unacked[entry.seq] = entry
                    if not consumer.no_ack:
                        journal.reached(self, self.durability_level)
                if consumer.no_ack:
                    self.delivered_no_ack += 1
                else:
                    self.delivered += 1
                consumer.deliver(entry)
                return outcome
        if self.has_length_limit and self.settings.overflow not in (None, "drop-head") and self._is_full(message):
            if self.dedup is not None:
                self.dedup.forget_message(message)
            self._refuse(message)
            return REFUSED
        outcome = self._push(message)
        if self.consumers.ready:
            self.dispatch()
        return outcome

    def adopt(self, message: Message, *, redelivered: bool) -> int:
        """Take a message that was kept outside the log while there was no root, here or on another broker."""
        if (
            self.durability_level == SHARED
            and self.dedup is not None
            and self.dedup.repeats(message, self.vhost.broker.now_ms)
        ):
            return self.vhost.broker.journal.repeated(message, SHARED)
        outcome = self._push(message, 1 if redelivered else 0)
        self.dispatch()
        return outcome

    def pass_run(self, suffix: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Give messages that differ in their bodies only to the one consumer, with no place here. Returns how many."""
        if (
            self.backlog
            or self.durability_level
            or self.dedup is not None
            or not self.has_plain_entries
            or properties[0] & 0x01
        ):
            return 0
        consumer = self.consumers.only()
        if consumer is None or not consumer.waiting or not consumer.no_ack:
            return 0
        return consumer.pass_run(suffix, properties, bodies)

    def demand_room(self, count: int, size: int) -> None:
        """Raise 406 if the queue would refuse one of `count` messages with `size` bytes together.

        Messages that consumers would take meanwhile are not counted off.
        """
        settings = self.settings
        if not self.has_length_limit or settings.overflow != "reject-publish":
            return
        if (settings.max_length is not None and len(self) + count > settings.max_length) or (
            settings.max_length_bytes is not None and self.ready_bytes + size > settings.max_length_bytes
        ):
            text = f"queue '{self.name}' in vhost '{self.vhost.name}' has no room for all that the transaction"
            raise ChannelError(PRECONDITION_FAILED, f"{text} publishes to it: nothing of it was done")

    def _entry(self, message: Message) -> Entry:
        """A new entry for the message, at the next place."""
        self.next_seq = seq = self.next_seq + 1
        entry = Entry(message, seq)
        if not self.has_plain_entries or message.header[12] & 0x01:
            # The queue has a TTL, priorities or a last-value key, or the message an expiration.
            entry.expires_ms = self._expiry(message)
            if self.settings.max_priority is not None:
                entry.priority = min(message.properties.priority or 0, self.settings.max_priority)
        return entry

    def _push(self, message: Message, deliveries: int = 0) -> int:
        entry = self._entry(message)
        entry.deliveries = deliveries
        outcome = 0
        if self.durability_level:
            outcome = self.vhost.broker.journal.entered(self, entry, self.durability_level)
        self.take_in(entry)
        self.direct = None
        if self.has_length_limit:
            self._make_room()
        if 0 < entry.expires_ms <= self.vhost.broker.now_ms:
            self.expire()
        if entry.expires_ms:
            self.schedule()
        return outcome

    def take_in(self, entry: Entry) -> Entry | None:
        """Put an entry into the backlog. Returns the entry of the same last-value key that it replaces."""
        message = entry.message
        key = None if self.settings.last_value_key is None else self._value_key(message)
        self.vhost.broker.memory_accounts.hold(message)
        self.ready_bytes += len(message.body)
        replaced = self.backlog.push(entry, key)
        if replaced is not None:
            self.ready_bytes -= len(replaced.message.body)
            self.release(replaced)
        return replaced

    def _delivery_superseded(self, entry: Entry) -> None:
        """A newer value replaces this delivery: it has left the queue, even if its consumer rejects it."""
        if entry.recorded:
            self.vhost.broker.journal.left(self, entry)

    def release(self, entry: Entry) -> None:
        """A message has left the queue: tell the memory accounts and the journal."""
        self.vhost.broker.memory_accounts.release(entry.message)
        if entry.recorded:
            self.vhost.broker.journal.left(self, entry)

    # -- delivering

    def dispatch(self) -> None:
        """Deliver what waits to whoever is ready."""
        backlog = self.backlog
        now_ms = self.vhost.broker.now_ms
        while (head := backlog.peek()) is not None:
            if head.expires_ms and head.expires_ms <= now_ms and self._is_active:
                self.expire()
                continue
            consumer = self.consumers.next()
            if consumer is None:
                if head.expires_ms:
                    self.schedule()
                return
            entry = self._take()
            if consumer.no_ack:
                self.delivered_no_ack += 1
            else:
                self.delivered += 1
            consumer.deliver(entry)
        if backlog:  # The disk does not give the head now.
            self.vhost.broker.deadlines.wake(self, now_ms + 1_000)
        self.refresh_direct()

    def _take(self) -> Entry:
        entry = self.backlog.pop()
        assert entry is not None, "the caller saw a head"
        self.ready_bytes -= len(entry.message.body)
        self.unacked += 1
        if entry.recorded:
            self.recorded_unacked[entry.seq] = entry
            journal = self.vhost.broker.journal
            if entry.seq <= self.reached:
                # Another root, or this broker before its restart, may have delivered it.
                if not entry.deliveries and abs(entry.recorded) < journal.since:
                    entry.deliveries = 1
            else:
                self.reached = entry.seq
                journal.reached(self, self.durability_level)
        if entry.deliveries:
            self.redelivered += 1
        return entry

    def get(self, *, no_ack: bool) -> Entry | None:
        """Take the next message for basic.get. Then call `forget`, `reject` or `put_back` for it."""
        self.touch()
        self.expire()
        if self.backlog.peek() is None:
            self.got_empty += 1
            return None
        if no_ack:
            self.got_no_ack += 1
        else:
            self.got += 1
        entry = self._take()
        self.watch_head()
        return entry

    def forget(self, entry: Entry) -> None:
        """A delivery is done: it was acknowledged, or needs no acknowledgement."""
        self.unacked -= 1
        self.backlog.settle(entry)
        self.release(entry)

    def put_back(self, entry: Entry) -> None:
        """A delivery comes back to its old place, or leaves at its delivery limit. Then call `dispatch`."""
        self.unacked -= 1
        self.returned += 1
        if not self.is_alive:
            self.release(entry)
            return
        entry.deliveries += 1
        journal = self.vhost.broker.journal
        if not self._is_active:
            # The root decides about its delivery limit and its expiry.
            self._put_in_place(entry)
            return
        if entry.recorded:
            journal.returned(self, entry)
        limit = self.settings.delivery_limit
        if limit is not None and entry.deliveries > limit:
            self.backlog.settle(entry)
            self._dead_letter(entry, "delivery_limit")
            return
        self.direct = None
        if self._put_in_place(entry):
            if self.has_length_limit:
                self._make_room()
            self.schedule()

    def _put_in_place(self, entry: Entry) -> bool:
        """Put an entry back to its old place. False if a newer value has replaced it meanwhile."""
        self.recorded_unacked.pop(entry.seq, None)
        if self.backlog.put_back(entry):
            self.ready_bytes += len(entry.message.body)
            return True
        self.release(entry)
        return False

    def reject(self, entry: Entry) -> None:
        """A consumer rejects a delivery without requeueing it."""
        if not self.is_alive:
            self.forget(entry)
            return
        self.unacked -= 1
        self.rejected += 1
        self.backlog.settle(entry)
        self._dead_letter(entry, "rejected")

    # -- leaving other than to a consumer

    def expire(self) -> None:
        """Remove the messages at the head that have expired."""
        now_ms = self.vhost.broker.now_ms
        while self.backlog:
            due = self.backlog.next_expiry_ms()
            if not due or due > now_ms:
                return
            for entry in self.backlog.pop_expired(now_ms):
                self.ready_bytes -= len(entry.message.body)
                self._dead_letter(entry, EXPIRED)

    def _expiry(self, message: Message) -> int:
        """When a message that comes now expires: the earlier of its own time to live and the queue's, 0 for never."""
        own = message.properties.expiration if message.header[12] & 0x01 else None
        ttl = self.settings.message_ttl_ms
        if own is not None and (ttl is None or int(own) < ttl):
            ttl = int(own)
        return 0 if ttl is None else max(1, self.vhost.broker.now_ms + ttl)

    def _is_full(self, message: Message) -> bool:
        """Whether one more message would pass a length limit."""
        settings = self.settings
        return (settings.max_length is not None and len(self.backlog) >= settings.max_length) or (
            settings.max_length_bytes is not None and self.ready_bytes + len(message.body) > settings.max_length_bytes
        )

    def _make_room(self) -> None:
        """Drop heads until the queue is within its limits."""
        settings = self.settings
        if settings.overflow not in (None, "drop-head"):
            return
        backlog = self.backlog
        while backlog and (
            (settings.max_length is not None and len(backlog) > settings.max_length)
            or (settings.max_length_bytes is not None and self.ready_bytes > settings.max_length_bytes)
        ):
            victim = backlog.drop_head()
            if victim is None:
                # The head is on disk, which does not give it now.
                return
            self.ready_bytes -= len(victim.message.body)
            self._dead_letter(victim, MAX_LENGTH)
            self.watch_head()

    def _refuse(self, message: Message) -> None:
        """The queue is full: with reject-publish-dlx the message becomes a dead letter."""
        if self.settings.overflow == "reject-publish-dlx" and self.settings.dead_letter_exchange is not None:
            self._redirect(message, MAX_LENGTH, None)

    def _dead_letter(self, entry: Entry, reason: str) -> None:
        """A message leaves the queue; it becomes a dead letter if the queue has a dead-letter exchange."""
        if self.settings.dead_letter_exchange is None:
            self.release(entry)
            return
        self.vhost.broker.memory_accounts.release(entry.message)
        # The journal's batch that has the dead letter at its new place also removes it here.
        self._redirect(entry.message, reason, entry)

    def _redirect(self, message: Message, reason: str, entry: Entry | None) -> None:
        broker = self.vhost.broker
        broker.dead_lettered[reason] = broker.dead_lettered.get(reason, 0) + 1
        broker.dead_letters.append((self, message, reason, entry))

    # -- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        consumer.follow_prefetch(self.settings.consumer_prefetch_max)
        self.consumers.add(consumer)
        self.dispatch()

    def stop(self, consumer: Consumer) -> None:
        """Deliver nothing more to a consumer; `remove_consumer` must follow."""
        self.consumers.remove(consumer)
        self.refresh_direct()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer. Its deliveries, and the auto-delete of the queue, are up to the caller."""
        self.consumers.remove(consumer)
        self.touch()
        self.dispatch()

    def consumer_ready(self, consumer: Consumer) -> None:
        """A consumer of this queue may be sent messages again."""
        self.consumers.resume(consumer)
        self.dispatch()

    def refresh_direct(self) -> None:
        """Compute `direct` again."""
        self.direct = None
        consumer = self.consumers.only()
        if (
            consumer is not None
            and consumer.is_straight
            and self.dedup is None
            and not self.backlog
            and consumer.can_take()
        ):
            self.direct = consumer

    # -- time

    def touch(self) -> None:
        """Say that the queue is in use now; `x-expires` counts from here."""
        self.unused_since_ms = self.vhost.broker.now_ms
        if self.settings.expires_ms is not None:
            self.schedule()

    def schedule(self) -> None:
        """Ask for a call of `on_deadline` when the next head expires, or the queue itself."""
        due = self.backlog.next_expiry_ms()
        if self.settings.expires_ms is not None and not self.consumers.all:
            end = self.unused_since_ms + self.settings.expires_ms
            due = min(due, end) if due else end
        if due:
            self.vhost.broker.deadlines.wake(self, due)

    def watch_head(self) -> None:
        """The head is another message: see that it expires in time."""
        head = self.backlog.peek()
        if head is not None and head.expires_ms:
            self.schedule()

    def on_deadline(self, now_ms: int) -> None:
        if not self._is_active:
            return
        self.expire()
        expires_ms = self.settings.expires_ms
        if expires_ms is not None and not self.consumers.all and self.unused_since_ms + expires_ms <= now_ms:
            self.vhost.queue_unused(self)
            return
        self.schedule()
        self.dispatch()

    def take_charge(self) -> None:
        """This broker is root now: messages expire here, limits hold, and consumers get messages."""
        self.touch()
        if self.has_length_limit:
            self._make_room()
        self.schedule()
        self.dispatch()

    # -- settings and contents

    def follow(self, settings: QueueArgs) -> None:
        """Use these settings from now on: the queue's arguments under the policies in force."""
        before, self.settings = self.settings, settings
        self.has_length_limit = settings.max_length is not None or settings.max_length_bytes is not None
        self.has_plain_entries = (
            settings.message_ttl_ms is None and settings.max_priority is None and settings.last_value_key is None
        )
        if before.window != settings.window:
            self.dedup = dedup_window(settings, self.vhost.broker.limits.dedup_window_max)
        if before.consumer_timeout_ms != settings.consumer_timeout_ms:
            for consumer in self.consumers:
                consumer.follow_timeout(settings.consumer_timeout_ms)
        is_other_prefetch = before.consumer_prefetch_max != settings.consumer_prefetch_max
        if is_other_prefetch:
            for consumer in self.consumers:
                consumer.follow_prefetch(settings.consumer_prefetch_max)
        self._set_durability_level(self.vhost.broker.journal.level(self))
        if not self._is_active:
            return
        if self.has_length_limit:
            self._make_room()
        self.schedule()
        self.refresh_direct()
        if is_other_prefetch:
            for consumer in self.consumers:
                if not consumer.waiting:
                    consumer.wake()

    def purge(self) -> int:
        """Drop all ready messages. Returns how many there were."""
        count = len(self.backlog)
        for entry in self.backlog.clear():
            self.release(entry)
        self.ready_bytes = 0
        self.touch()
        self.refresh_direct()
        return count

    # -- as the store or the log tells it

    def restore(self, entry: Entry) -> Entry | None:
        """Put a recorded message to its place, unless it is there already. Returns an entry that it replaces.

        Nothing is delivered or expires before `take_charge`.
        """
        is_new = entry.seq > self.next_seq
        if not is_new and self.backlog.find(entry.seq) is not None:
            return None
        page_store = self.vhost.broker.journal.page_store
        if self.dedup is not None:
            self.dedup.repeats(entry.message, self.vhost.broker.now_ms)
        if is_new:
            self.next_seq = entry.seq
            page_store.entered(self, entry)
            replaced = self.take_in(entry)
            if replaced is not None:
                page_store.left(self, replaced)
            return replaced
        self.reinstate(entry)
        return None

    def reinstate(self, entry: Entry) -> None:
        """Put a message back that has left."""
        if isinstance(entry, UnloadedEntries):
            self.ready_bytes += size_of(entry)
            self.backlog.put_back(entry)
            return
        if entry.gone:
            # The backlog may still hold the entry that is gone: so a new one takes its place.
            entry, former = msgspec.structs.replace(entry, gone=False), entry
            former.recorded = 0
        # A rejected delivery is in there until its dead letter has a place.
        self.recorded_unacked.pop(entry.seq, None)
        self.vhost.broker.journal.page_store.put_back(self, entry)
        if isinstance(self.backlog, LastValueBacklog):
            key = self._value_key(entry.message)
            if key is not None:
                self.backlog.know(entry, key)
        self.vhost.broker.memory_accounts.hold(entry.message)
        self.ready_bytes += len(entry.message.body)
        self.backlog.put_back(entry)

    def remove(self, seq: int) -> Entry | None:
        """Remove the message with this place, which has left on the root. Returns it, or None."""
        entry = self.backlog.find(seq)
        if entry is not None:
            self._remove(entry)
        return entry

    def _remove(self, entry: Entry) -> None:
        self.ready_bytes -= size_of(entry)
        self.backlog.remove(entry)
        self.vhost.broker.memory_accounts.release(entry.message)
        self.vhost.broker.journal.page_store.left(self, entry)

    def remove_run(self, first: int, last: int) -> list[Entry]:
        """Remove all messages with these places. Those of one page that are only on disk are one entry."""
        backlog = self.backlog
        if isinstance(backlog, PagedBacklog) and last - first > len(backlog.memory):
            found = backlog.between(first, last)
            for entry in found:
                self._remove(entry)
            return found
        return [gone for seq in range(first, last + 1) if (gone := self.remove(seq)) is not None]

    def came_back(self, seq: int, deliveries: int) -> None:
        """A message that is ready here came back on the root; it was delivered this many times in all."""
        entry = self.backlog.find(seq)
        page_store = self.vhost.broker.journal.page_store
        if isinstance(entry, UnloadedEntries):
            page_store.came_back(self, entry.page, seq, deliveries)
        elif entry is not None:
            entry.deliveries = deliveries
            page_store.returned(self, entry)

    def _load_all(self) -> None:
        """Read all of its messages into memory."""
        if isinstance(self.backlog, PagedBacklog):
            self.backlog.load_all()

    def detach(self, entry: Entry) -> Entry:
        """Remove a message that only this broker has, and the caller keeps. The store still has it in this queue."""
        self.ready_bytes -= len(entry.message.body)
        self.backlog.remove(entry)
        self.vhost.broker.memory_accounts.release(entry.message)
        return entry

    def take_back(self, seq: int) -> Entry | None:
        """Remove the message with this place as if it had never come: for a rollback."""
        if isinstance(self.backlog, PagedBacklog):
            # Its dedup key is needed, and the next root may need the message.
            self.backlog.load_message(seq)
        entry = self.remove(seq) if self.is_alive else None
        if entry is not None and self.dedup is not None:
            self.dedup.discard(entry.message)
        return entry

    def forget_key(self, key: str) -> None:
        """Forget a dedup key, as if its message had never come: for a rollback."""
        if self.is_alive and self.dedup is not None:
            self.dedup.discard_key(key)
            self.vhost.broker.journal.page_store.mentioned(self)

    def _value_key(self, message: Message) -> str | None:
        """The key whose value a message is, in a last-value queue."""
        if self.settings.last_value_key is None:
            return None
        value = (message.properties.headers or {}).get(self.settings.last_value_key)
        return None if value is None else str(value)

    def has_value(self, message: Message, since: int) -> bool:
        """Whether the key of a message has a newer value, at place `since` or later."""
        backlog = self.backlog
        key = self._value_key(message)
        if key is None or not isinstance(backlog, LastValueBacklog):
            return False
        newest = backlog.newest(key)
        return newest is not None and newest.seq >= since

    def newest_of(self, entries: deque[Entry]) -> tuple[deque[Entry], list[Entry]]:
        """Splits messages, given in order: those that stay, and those that a newer value of their key replaces."""
        if self.settings.last_value_key is None:
            return entries, []
        stay: deque[Entry] = deque()
        replaced: list[Entry] = []
        keys: set[str] = set()
        for entry in reversed(entries):
            key = self._value_key(entry.message)
            if key is None or key not in keys:
                stay.appendleft(entry)
            else:
                replaced.append(entry)
            if key is not None:
                keys.add(key)
        return stay, replaced

    def _set_durability_level(self, level: int) -> None:
        """Record this much from now on, of the messages that are there already too."""
        before, self.durability_level = self.durability_level, level
        journal = self.vhost.broker.journal
        if before == level or not self.backlog:
            return
        self._load_all()
        if not journal.is_in_charge:
            if level == SHARED:
                # The places of this queue are those of the log from now on.
                journal.strays += [(self, self.detach(each)) for each in list(self.backlog) if each.recorded <= 0]
            return
        for entry in list(self.backlog):
            if entry.recorded:
                journal.left(self, entry)
            if level:
                journal.entered(self, entry, level)

    @property
    def _is_active(self) -> bool:
        """Whether messages may expire and be dropped here. Shared queues only follow those of the root."""
        return self.owner is not None or self.vhost.broker.journal.is_in_charge

    @property
    def is_private(self) -> bool:
        """Whether it is exclusive: then only this broker knows it."""
        return self.owner is not None

    @property
    def is_shared(self) -> bool:
        """Whether all brokers of the cluster know it."""
        return self.owner is None

    @property
    def is_deserted(self) -> bool:
        """Whether it is auto-delete and has lost its last consumer."""
        return self.auto_delete and not self.consumers.all

    @property
    def is_alive(self) -> bool:
        """Whether it has not been deleted."""
        return self.vhost.queues.get(self.name) is self

    def __len__(self) -> int:
        return len(self.backlog)

    def __bool__(self) -> bool:
        return True
