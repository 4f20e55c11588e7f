"""Queues: where messages wait, in order, for consumers. Who is served next is in `delivery/consumer_rotation.py`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.backlog.backlog_kinds import backlog_for
from openclust.broker.backlog.last_value_backlog import LastValueBacklog
from openclust.broker.backlog.paged_backlog import Away, PagedBacklog, PageLibrary, size_of
from openclust.broker.delivery.consumer import Consumer, OriginHost
from openclust.broker.delivery.consumer_rotation import Turns
from openclust.broker.model.durability_level import NOTHING, SHARED
from openclust.broker.model.message import Message
from openclust.broker.model.outcome import REFUSED
from openclust.broker.model.queue_arguments import NO_ARGS, QueueArgs
from openclust.broker.queues.dedup import DedupWindow, dedup_window
from openclust.broker.routing.route import ExchangeHost
from openclust.wire.errors import PRECONDITION_FAILED, ChannelError
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.model.deadlines import Deadlines
    from openclust.broker.model.limits import Limits
    from openclust.broker.model.memory_accounts import Books
    from openclust.broker.routing.exchange import Binding, Targets


EXPIRED = "expired"
MAX_LENGTH = "maxlen"


class Owner(Protocol):
    """The connection whose exclusive queue it is."""

    def own(self, queue: Queue) -> None: ...
    def disown(self, queue: Queue) -> None: ...
    def close(self, code: int, text: str) -> None: ...


class QueuePages(PageLibrary["Queue"], Protocol):
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
    def library(self) -> QueuePages: ...

    def level(self, queue: Queue) -> int: ...
    def entered(self, queue: Queue, entry: Entry, level: int) -> int: ...
    def repeated(self, message: Message, level: int) -> int: ...
    def left(self, queue: Queue, entry: Entry) -> None: ...
    def returned(self, queue: Queue, entry: Entry) -> None: ...
    def reached(self, queue: Queue, level: int) -> None: ...


class QueueBroker(Protocol):
    """What queues and their journal ask of their broker."""

    limits: Limits
    books: Books
    deadlines: Deadlines
    now_ms: int
    wall_offset_ms: int
    dead_letters: list[tuple[Queue, Message, str, Entry | None]]

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

    @property
    def name(self) -> str: ...
    @property
    def broker(self) -> QueueBroker: ...
    def queue_unused(self, queue: Queue) -> None: ...


class Queue:
    """One queue.

    `direct` is the consumer to which a message may be sent without a detour through the queue: the only one, without
    acknowledgements, ready, and with nothing waiting before it. All else goes through `publish`.
    """

    __slots__ = (
        "args",
        "arguments",
        "auto_delete",
        "backlog",
        "deadline_ms",
        "dedup",
        "direct",
        "durable",
        "incoming",
        "limited",
        "name",
        "next_seq",
        "out",
        "owner",
        "plain",
        "reached",
        "ready_bytes",
        "records",
        "settings",
        "turns",
        "unacked",
        "unused_since_ms",
        "vhost",
    )

    # To what it is given, a queue is where it is; to its consumers, what it has delivered stays delivered.
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
        self.backlog = backlog_for(args, self._superseded)
        self.turns = Turns(single_active=args.single_active_consumer)
        self.incoming: dict[Binding, None] | None = None
        self.dedup: DedupWindow | None = None
        self.direct: Consumer | None = None
        self.next_seq = 0
        # The highest place of a recorded message that was delivered: up to there, any may have been.
        self.reached = 0
        self.records = NOTHING
        # Recorded messages that were delivered and are not settled, by their places. The journal takes them out.
        self.out: dict[int, Entry] = {}
        self.ready_bytes = self.unacked = 0
        self.unused_since_ms = vhost.broker.now_ms
        self.deadline_ms = 0
        self.follow(settings)

    def add_to(self, targets: Targets) -> None:
        targets.destinations[self] = None

    # -- publishing

    def publish(self, message: Message) -> int:
        """Take a message; what became of it. A duplicate counts as taken, and goes no further."""
        if self.dedup is not None and self.dedup.repeats(message, self.vhost.broker.now_ms):
            return self.vhost.broker.journal.repeated(message, self.records)
        if not self.backlog and self.settings.last_value_key is None:
            consumer = self.turns.next()
            if consumer is not None:
                self.unacked += 1
                self.vhost.broker.books.hold(message)
                entry = self._entry(message)
                outcome = 0
                if self.records:
                    journal = self.vhost.broker.journal
                    outcome = journal.entered(self, entry, self.records)
                    self.reached = entry.seq
                    if entry.recorded:
                        self.out[entry.seq] = entry
                    if not consumer.no_ack:
                        journal.reached(self, self.records)
                consumer.deliver(entry)
                return outcome
        if self.limited and self.settings.overflow not in (None, "drop-head") and self._is_full(message):
            if self.dedup is not None:
                self.dedup.forget_message(message)
            self._refuse(message)
            return REFUSED
        outcome = self._push(message)
        if self.turns.waiting:
            self.dispatch()
        return outcome

    def adopt(self, message: Message, *, redelivered: bool) -> int:
        """Take a message that another broker has held for this queue, or this one while it was not in charge."""
        if self.records == SHARED and self.dedup is not None and self.dedup.repeats(message, self.vhost.broker.now_ms):
            return self.vhost.broker.journal.repeated(message, SHARED)
        outcome = self._push(message, 1 if redelivered else 0)
        self.dispatch()
        return outcome

    def pass_run(self, suffix: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Pass on messages alike in all but their bodies, where nothing is to be done with them but that: how many."""
        if self.backlog or self.records or self.dedup is not None or not self.plain or properties[0] & 0x01:
            return 0
        consumer = self.turns.only()
        if consumer is None or not consumer.waiting or not consumer.no_ack:
            return 0
        return consumer.pass_run(suffix, properties, bodies)

    def demand_room(self, count: int, size: int) -> None:
        """Raise 406 where it would refuse some of so many messages of so many bytes together.

        What consumers would take out of it meanwhile is not foreseen.
        """
        settings = self.settings
        if not self.limited or settings.overflow != "reject-publish":
            return
        if (settings.max_length is not None and len(self) + count > settings.max_length) or (
            settings.max_length_bytes is not None and self.ready_bytes + size > settings.max_length_bytes
        ):
            text = f"queue '{self.name}' in vhost '{self.vhost.name}' has no room for all that the transaction"
            raise ChannelError(PRECONDITION_FAILED, f"{text} publishes to it: nothing of it was done")

    def _entry(self, message: Message) -> Entry:
        """The message's place in this queue, behind all others."""
        self.next_seq = seq = self.next_seq + 1
        entry = Entry(message, seq)
        if not self.plain or message.header[12] & 0x01:
            # A queue with settings of this kind, or a message with an expiration.
            entry.expires_ms = self._expiry(message)
            if self.settings.max_priority is not None:
                entry.priority = min(message.properties.priority or 0, self.settings.max_priority)
        return entry

    def _push(self, message: Message, deliveries: int = 0) -> int:
        entry = self._entry(message)
        entry.deliveries = deliveries
        outcome = 0
        if self.records:
            outcome = self.vhost.broker.journal.entered(self, entry, self.records)
        self.take_in(entry)
        self.direct = None
        if self.limited:
            self._make_room()
        if 0 < entry.expires_ms <= self.vhost.broker.now_ms:
            self.expire()
        if entry.expires_ms:
            self.schedule()
        return outcome

    def take_in(self, entry: Entry) -> Entry | None:
        """Give it its place; what had it before is gone, and comes back."""
        message = entry.message
        key = None if self.settings.last_value_key is None else self._value_key(message)
        self.vhost.broker.books.hold(message)
        self.ready_bytes += len(message.body)
        replaced = self.backlog.push(entry, key)
        if replaced is not None:
            self.ready_bytes -= len(replaced.message.body)
            self.release(replaced)
        return replaced

    def _superseded(self, entry: Entry) -> None:
        """A delivery will not come back: it has left, whatever its consumer says of it."""
        if entry.recorded:
            self.vhost.broker.journal.left(self, entry)

    def release(self, entry: Entry) -> None:
        """A message is here no more: for the accounts, and for what is kept of it."""
        self.vhost.broker.books.release(entry.message)
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
            consumer = self.turns.next()
            if consumer is None:
                if head.expires_ms:
                    self.schedule()
                return
            consumer.deliver(self._take())
        if backlog:  # the disk does not give it now
            self.vhost.broker.deadlines.wake(self, now_ms + 1_000)
        self.refresh_direct()

    def _take(self) -> Entry:
        entry = self.backlog.pop()
        assert entry is not None, "the caller saw a head"
        self.ready_bytes -= len(entry.message.body)
        self.unacked += 1
        if entry.recorded:
            self.out[entry.seq] = entry
            journal = self.vhost.broker.journal
            if entry.seq <= self.reached:
                # By another root, or in another life, it may have been delivered before.
                if not entry.deliveries and abs(entry.recorded) < journal.since:
                    entry.deliveries = 1
            else:
                self.reached = entry.seq
                journal.reached(self, self.records)
        return entry

    def get(self) -> Entry | None:
        """Take the next message for basic.get; afterwards `forget`, `settle` or `put_back` it."""
        self.touch()
        self.expire()
        if self.backlog.peek() is None:
            return None
        entry = self._take()
        self.watch_head()
        return entry

    def forget(self, entry: Entry) -> None:
        """A message is delivered for good: acknowledged, or sent where none will be."""
        self.unacked -= 1
        self.backlog.settle(entry)
        self.release(entry)

    def put_back(self, entry: Entry) -> None:
        """A delivery comes back: to its old place, or away if it was delivered too often. Then call `dispatch`."""
        self.unacked -= 1
        if not self.is_alive:
            self.release(entry)
            return
        entry.deliveries += 1
        journal = self.vhost.broker.journal
        if not self._is_active:
            # Another broker decides what becomes of it.
            self._put_in_place(entry)
            return
        if entry.recorded:
            journal.returned(self, entry)
        limit = self.settings.delivery_limit
        if limit is not None and entry.deliveries > limit:
            self.backlog.settle(entry)
            self._bury(entry, "delivery_limit")
            return
        self.direct = None
        if self._put_in_place(entry):
            if self.limited:
                self._make_room()
            self.schedule()

    def _put_in_place(self, entry: Entry) -> bool:
        """Whether it is in its old place; another may have superseded it."""
        self.out.pop(entry.seq, None)
        if self.backlog.put_back(entry):
            self.ready_bytes += len(entry.message.body)
            return True
        self.release(entry)
        return False

    def reject(self, entry: Entry) -> None:
        """A consumer refuses a delivery for good."""
        if not self.is_alive:
            self.forget(entry)
            return
        self.unacked -= 1
        self.backlog.settle(entry)
        self._bury(entry, "rejected")

    # -- leaving other than to a consumer

    def expire(self) -> None:
        """Take out what has expired at the head."""
        now_ms = self.vhost.broker.now_ms
        while self.backlog:
            due = self.backlog.next_expiry_ms()
            if not due or due > now_ms:
                return
            for entry in self.backlog.pop_expired(now_ms):
                self.ready_bytes -= len(entry.message.body)
                self._bury(entry, EXPIRED)

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
                # The disk has it, and does not give it now.
                return
            self.ready_bytes -= len(victim.message.body)
            self._bury(victim, MAX_LENGTH)
            self.watch_head()

    def _refuse(self, message: Message) -> None:
        """Turn a message away from a full queue; with reject-publish-dlx it becomes a dead letter."""
        if self.settings.overflow == "reject-publish-dlx" and self.settings.dead_letter_exchange is not None:
            self.vhost.broker.dead_letters.append((self, message, MAX_LENGTH, None))

    def _bury(self, entry: Entry, reason: str) -> None:
        """A message leaves for good: as a dead letter where the queue has an exchange for these."""
        if self.settings.dead_letter_exchange is None:
            self.release(entry)
            return
        broker = self.vhost.broker
        broker.books.release(entry.message)
        # It leaves here in the same batch as it comes there.
        broker.dead_letters.append((self, entry.message, reason, entry))

    # -- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        consumer.follow_prefetch(self.settings.consumer_prefetch_max)
        self.turns.add(consumer)
        self.dispatch()

    def stop(self, consumer: Consumer) -> None:
        """Deliver nothing more to a consumer; `remove_consumer` must follow."""
        self.turns.remove(consumer)
        self.refresh_direct()

    def remove_consumer(self, consumer: Consumer) -> None:
        """Take a consumer out; the caller has seen to its deliveries, and to auto-delete."""
        self.turns.remove(consumer)
        self.touch()
        self.dispatch()

    def consumer_ready(self, consumer: Consumer) -> None:
        """A consumer of this queue may be sent messages again."""
        self.turns.resume(consumer)
        self.dispatch()

    def refresh_direct(self) -> None:
        """Look again whether messages may pass straight through."""
        self.direct = None
        consumer = self.turns.only()
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
        """Ask to be called when the next head expires, or the queue itself."""
        due = self.backlog.next_expiry_ms()
        if self.settings.expires_ms is not None and not self.turns.all:
            end = self.unused_since_ms + self.settings.expires_ms
            due = min(due, end) if due else end
        if due:
            self.vhost.broker.deadlines.wake(self, due)

    def watch_head(self) -> None:
        """Another message stands at the head: it may be one that expires."""
        head = self.backlog.peek()
        if head is not None and head.expires_ms:
            self.schedule()

    def on_deadline(self, now_ms: int) -> None:
        if not self._is_active:
            return
        self.expire()
        expires_ms = self.settings.expires_ms
        if expires_ms is not None and not self.turns.all and self.unused_since_ms + expires_ms <= now_ms:
            self.vhost.queue_unused(self)
            return
        self.schedule()
        self.dispatch()

    def take_charge(self) -> None:
        """It is active here from now on: it may expire, must keep its limits, and may deliver."""
        self.touch()
        if self.limited:
            self._make_room()
        self.schedule()
        self.dispatch()

    # -- settings and contents

    def follow(self, settings: QueueArgs) -> None:
        """Take these settings: the queue's arguments under the policies in force."""
        before, self.settings = self.settings, settings
        self.limited = settings.max_length is not None or settings.max_length_bytes is not None
        self.plain = (
            settings.message_ttl_ms is None and settings.max_priority is None and settings.last_value_key is None
        )
        if before.window != settings.window:
            self.dedup = dedup_window(settings, self.vhost.broker.limits.dedup_window_max)
        if before.consumer_timeout_ms != settings.consumer_timeout_ms:
            for consumer in self.turns:
                consumer.follow_timeout(settings.consumer_timeout_ms)
        is_other_prefetch = before.consumer_prefetch_max != settings.consumer_prefetch_max
        if is_other_prefetch:
            for consumer in self.turns:
                consumer.follow_prefetch(settings.consumer_prefetch_max)
        self._keep_as(self.vhost.broker.journal.level(self))
        if not self._is_active:
            return
        if self.limited:
            self._make_room()
        self.schedule()
        self.refresh_direct()
        if is_other_prefetch:
            for consumer in self.turns:
                if not consumer.waiting:
                    consumer.wake()

    def purge(self) -> int:
        """Drop all that waits; how many that were."""
        count = len(self.backlog)
        for entry in self.backlog.clear():
            self.release(entry)
        self.ready_bytes = 0
        self.touch()
        self.refresh_direct()
        return count

    # -- what is kept of it, here or on other brokers

    def restore(self, entry: Entry) -> Entry | None:
        """Take a message at the place that it had; if it is there already, nothing changes.

        What it supersedes comes back. Nothing is delivered, or expires, before the queue is told to take charge.
        """
        is_new = entry.seq > self.next_seq
        if not is_new and self.backlog.find(entry.seq) is not None:
            return None
        library = self.vhost.broker.journal.library
        if self.dedup is not None:
            self.dedup.repeats(entry.message, self.vhost.broker.now_ms)
        if is_new:
            self.next_seq = entry.seq
            library.entered(self, entry)
            replaced = self.take_in(entry)
            if replaced is not None:
                library.left(self, replaced)
            return replaced
        self.reinstate(entry)
        return None

    def reinstate(self, entry: Entry) -> None:
        """Put a message that is not there back among the others."""
        if isinstance(entry, Away):
            self.ready_bytes += size_of(entry)
            self.backlog.put_back(entry)
            return
        if entry.gone:
            # The backlog may still know it as that. What is told of it is told of the new one from here on.
            entry, former = msgspec.structs.replace(entry, gone=False), entry
            former.recorded = 0
        # A delivery that was refused is out until its dead letter is somewhere.
        self.out.pop(entry.seq, None)
        self.vhost.broker.journal.library.put_back(self, entry)
        if isinstance(self.backlog, LastValueBacklog):
            key = self._value_key(entry.message)
            if key is not None:
                self.backlog.know(entry, key)
        self.vhost.broker.books.hold(entry.message)
        self.ready_bytes += len(entry.message.body)
        self.backlog.put_back(entry)

    def remove(self, seq: int) -> Entry | None:
        """Take out what has that place, and is out of it elsewhere; None where nothing has."""
        entry = self.backlog.find(seq)
        if entry is not None:
            self._remove(entry)
        return entry

    def _remove(self, entry: Entry) -> None:
        self.ready_bytes -= size_of(entry)
        self.backlog.remove(entry)
        self.vhost.broker.books.release(entry.message)
        self.vhost.broker.journal.library.left(self, entry)

    def remove_run(self, first: int, last: int) -> list[Entry]:
        """Take out all that has these places; a page's messages that are not in memory are one entry."""
        backlog = self.backlog
        if isinstance(backlog, PagedBacklog) and last - first > len(backlog.memory):
            found = backlog.between(first, last)
            for entry in found:
                self._remove(entry)
            return found
        return [gone for seq in range(first, last + 1) if (gone := self.remove(seq)) is not None]

    def came_back(self, seq: int, deliveries: int) -> None:
        """A message that waits here was delivered in vain elsewhere, so often in all."""
        entry = self.backlog.find(seq)
        library = self.vhost.broker.journal.library
        if isinstance(entry, Away):
            library.came_back(self, entry.of, seq, deliveries)
        elif entry is not None:
            entry.deliveries = deliveries
            library.returned(self, entry)

    def _bring_in(self) -> None:
        """Have all of its messages in memory."""
        if isinstance(self.backlog, PagedBacklog):
            self.backlog.bring_in()

    def set_adrift(self, entry: Entry) -> Entry:
        """Take out what this broker alone has, to be kept elsewhere: for its store it is still there."""
        self.ready_bytes -= len(entry.message.body)
        self.backlog.remove(entry)
        self.vhost.broker.books.release(entry.message)
        return entry

    def take_back(self, seq: int) -> Entry | None:
        """Take out what has that place, as if it had never come."""
        if isinstance(self.backlog, PagedBacklog):
            # It may be needed itself: its key, or all of it for another root.
            self.backlog.bring(seq)
        entry = self.remove(seq) if self.is_alive else None
        if entry is not None and self.dedup is not None:
            self.dedup.discard(entry.message)
        return entry

    def unsee(self, key: str) -> None:
        """A message with this key came and went, as if it had never come."""
        if self.is_alive and self.dedup is not None:
            self.dedup.discard_key(key)
            self.vhost.broker.journal.library.mentioned(self)

    def _value_key(self, message: Message) -> str | None:
        """Of which key a message is the value, in a queue that keeps the last of each."""
        if self.settings.last_value_key is None:
            return None
        value = (message.properties.headers or {}).get(self.settings.last_value_key)
        return None if value is None else str(value)

    def has_value(self, message: Message, since: int) -> bool:
        """Whether its key has a value already that has one of the places from `since` on."""
        backlog = self.backlog
        key = self._value_key(message)
        if key is None or not isinstance(backlog, LastValueBacklog):
            return False
        newest = backlog.newest(key)
        return newest is not None and newest.seq >= since

    def newest_of(self, entries: deque[Entry]) -> tuple[deque[Entry], list[Entry]]:
        """Of messages in order: those that count, and in a queue of last values those that a later one replaces."""
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

    def _keep_as(self, level: int) -> None:
        """From now on so much is kept of a queue, of what is there too."""
        before, self.records = self.records, level
        journal = self.vhost.broker.journal
        if before == level or not self.backlog:
            return
        self._bring_in()
        if not journal.is_in_charge:
            if level == SHARED:
                # Their places are the log's from now on.
                journal.strays += [(self, self.set_adrift(each)) for each in list(self.backlog) if each.recorded <= 0]
            return
        for entry in list(self.backlog):
            if entry.recorded:
                journal.left(self, entry)
            if level:
                journal.entered(self, entry, level)

    @property
    def _is_active(self) -> bool:
        """Whether it may expire and drop messages: a shared one only follows where another broker is root."""
        return self.owner is not None or self.vhost.broker.journal.is_in_charge

    @property
    def is_private(self) -> bool:
        """Whether it is its owner's alone, on this broker only."""
        return self.owner is not None

    @property
    def is_shared(self) -> bool:
        """Whether all brokers of the cluster know it."""
        return self.owner is None

    @property
    def is_deserted(self) -> bool:
        """Whether it goes with its last consumer, and has none."""
        return self.auto_delete and not self.turns.all

    @property
    def is_alive(self) -> bool:
        """Whether it has not been deleted."""
        return self.vhost.queues.get(self.name) is self

    def __len__(self) -> int:
        return len(self.backlog)

    def __bool__(self) -> bool:
        return True
