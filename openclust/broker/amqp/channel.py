"""A channel: its consumers, unacknowledged deliveries and publishes.

The methods themselves are in `declaring.py`, `publishing.py` and `consuming.py`, by the noun they act on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from openclust.broker.amqp.confirms import Confirms
from openclust.broker.amqp.content import Incoming, too_large
from openclust.broker.amqp.transaction import Transaction, Unacked
from openclust.broker.counts.message_counts import ChannelCounts
from openclust.broker.delivery.consumer import Consumer
from openclust.wire.codec import method_frame, name_of
from openclust.wire.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    NO_ROUTE,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
    ChannelError,
    ConnectionError,
)
from openclust.wire.frames import content_frames
from openclust.wire.methods import (
    BasicCancel,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    Method,
)
from openclust.wire.properties import PREAMBLE

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.delivery.consumer import Origin
    from openclust.broker.delivery.direct_reply import ReplyQueue
    from openclust.broker.routing.route import Route

OPEN = 0
CLOSING = 1

SIZE_SAMPLE_EVERY = 61
"""The size of one in so many messages is counted: a prime number, so that no pattern of sizes hides in between."""

Handler: TypeAlias = "Callable[[Channel, Method], None]"

HANDLERS: dict[type[Method], Handler] = {}
"""The function for each method on an open channel. The modules with these functions add theirs."""


def handles(method: type[Method]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function `(channel, method)` as the handler of `method`."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        HANDLERS[method] = function
        return function

    return register


class Channel:
    """`prefetch_each` is the prefetch of new consumers, `prefetch_all` that of all consumers together (0: no limit).

    `prefetch_all` counts `credit_used`, the deliveries to consumers that are not acknowledged or not committed. With
    `prefetch_binds_no_ack` it also stops consumers without acknowledgements. The channel is `starved` if a consumer was
    refused for lack of credit.

    Of its deliveries, `remembered` needed an acknowledgement, and `refused` of these were rejected or given back.
    """

    __slots__ = (
        "broker",
        "confirms",
        "connection",
        "consumers",
        "credit_used",
        "deadline_ms",
        "delivery_tag",
        "dropped",
        "flowing",
        "got",
        "got_empty",
        "got_no_ack",
        "incoming",
        "last_queue",
        "lowest_tag",
        "number",
        "prefetch_all",
        "prefetch_binds_no_ack",
        "prefetch_each",
        "published",
        "redelivered",
        "refused",
        "remembered",
        "reply",
        "returned",
        "routes",
        "size_sample_at",
        "starved",
        "state",
        "transaction",
        "unacked",
    )

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.broker = connection.broker
        self.number = number
        self.state = OPEN
        self.flowing = True
        self.routes = connection.routes
        self.consumers: dict[str, Consumer] | None = None
        self.unacked: dict[int, Unacked] = {}
        self.lowest_tag = 1
        self.delivery_tag = 0
        self.prefetch_each = 0
        self.prefetch_all = 0
        self.prefetch_binds_no_ack = False
        self.credit_used = 0
        self.last_queue = ""
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.incoming: Incoming | None = None
        self.reply: ReplyQueue | None = None
        self.starved = False
        self.deadline_ms = 0
        self._count_anew()

    # -- input

    def publish(self, arguments: bytes, header: bytes, body: bytes) -> None:
        """A whole publish; `arguments` are the bytes of its method behind the class and method id."""
        raise NotImplementedError

    def publish_run(self, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Publishes that differ in their bodies only. Returns how many of the first were taken."""
        raise NotImplementedError

    def on_method(self, method: Method) -> None:
        """Any method but a whole publish or ack."""
        if self.state == CLOSING:
            self._while_closing(method)
            return
        if self.incoming is not None:
            raise ConnectionError(UNEXPECTED_FRAME, f"{name_of(type(method))} where content was to come")
        handler = HANDLERS.get(type(method))
        if handler is None:
            if isinstance(method, ChannelOpen):
                raise ConnectionError(CHANNEL_ERROR, "second 'channel.open' seen")
            raise ConnectionError(COMMAND_INVALID, f"{name_of(type(method))} is not for a server")
        try:
            handler(self, method)
        except ChannelError as error:
            self.fail(error, *method.ID)

    def _while_closing(self, method: Method) -> None:
        if isinstance(method, ChannelCloseOk):
            self.connection.forget_channel(self)
        elif isinstance(method, ChannelClose):
            # Both sides closed at once: the client gets its answer, and still owes us ours.
            self.send(ChannelCloseOk())

    # -- content in pieces

    def start_content(self, arguments: bytes) -> None:
        """A publish method came alone; its content follows."""
        if self.incoming is not None:
            raise ConnectionError(UNEXPECTED_FRAME, "basic.publish where content was to come")
        self.incoming = Incoming(arguments)

    def take_header(self, payload: bytes) -> None:
        """The content header of a publish."""
        if self.state != OPEN:
            return
        incoming = self.incoming
        if incoming is None or incoming.size >= 0:
            raise ConnectionError(UNEXPECTED_FRAME, "a content header where none was to come")
        if len(payload) < PREAMBLE.size:
            raise ConnectionError(SYNTAX_ERROR, "a content header is cut short")
        class_id, weight, size, _ = PREAMBLE.unpack_from(payload)
        if class_id != BasicPublish.ID[0]:
            raise ConnectionError(UNEXPECTED_FRAME, f"a content header of class {class_id} after basic.publish")
        if weight:
            raise ConnectionError(FRAME_ERROR, f"a content header of weight {weight}, not 0")
        limit = self.broker.limits.message_size_max
        if size > limit:
            self.incoming = None
            self.fail(too_large(size, limit), *BasicPublish.ID)
            return
        incoming.header = payload
        incoming.size = size
        if not size:
            self._finish_content(incoming)

    def take_body(self, payload: bytes) -> None:
        """One piece of a publish's body."""
        if self.state != OPEN:
            return
        incoming = self.incoming
        if incoming is None or incoming.size < 0:
            raise ConnectionError(UNEXPECTED_FRAME, "a content body where none was to come")
        if payload:
            incoming.pieces.append(payload)
            incoming.got += len(payload)
            accounts = self.broker.memory_accounts
            accounts.held_bytes += len(payload)
            if accounts.is_overdrawn():
                # The alarm does not stop a message that is half received: so all of these together have a bound.
                raise ConnectionError(RESOURCE_ERROR, "no memory is left for a message in progress")
        if incoming.got > incoming.size:
            raise ConnectionError(UNEXPECTED_FRAME, "a content body is larger than its header said")
        if incoming.got == incoming.size:
            self._finish_content(incoming)

    def _finish_content(self, incoming: Incoming) -> None:
        self.incoming = None
        self.broker.memory_accounts.held_bytes -= incoming.got
        try:
            self.publish(incoming.arguments, incoming.header, b"".join(incoming.pieces))
        except ConnectionError as error:
            self.connection.fail(error, *BasicPublish.ID)

    # -- deliveries

    def has_credit(self) -> bool:
        """Whether another delivery fits what the channel may hold unacknowledged."""
        held = len(self.unacked) if self.transaction is None else self.held_count()
        # What basic.get fetched takes no credit, as in RabbitMQ.
        has_credit = not self.prefetch_all or self.credit_used < self.prefetch_all
        if has_credit and held < self.broker.limits.unacked_per_channel_max:
            return True
        self.starved = True
        return False

    def held_count(self) -> int:
        """How many deliveries wait for their acknowledgement, or for the commit that makes it count."""
        transaction = self.transaction
        settled = 0 if transaction is None else len(transaction.acks) + len(transaction.rejects)
        return len(self.unacked) + settled

    def remember(self, tag: int, queue: Origin, consumer: Consumer | None, entry: Entry) -> None:
        """Remember a delivery until it is acknowledged."""
        now_ms = self.broker.now_ms
        if not self.unacked:
            self.lowest_tag = tag
        timeout_ms = consumer.timeout_ms if consumer is not None else self.broker.limits.consumer_timeout_ms
        if timeout_ms and not 0 < self.deadline_ms <= now_ms + timeout_ms:
            self.broker.deadlines.wake(self, now_ms + timeout_ms)
        if consumer is not None:
            self.credit_used += 1
        self.remembered += 1
        self.unacked[tag] = Unacked(queue, consumer, entry, now_ms, tag)

    def ack(self, tag: int, multiple: bool) -> None:
        """basic.ack: settle deliveries, now or when the transaction commits."""
        if self.transaction is not None:
            self.transaction.acks.extend(self.take_unacked(tag, multiple))
            return
        if not multiple:
            item = self.unacked.pop(tag, None)
            if item is None:
                raise unknown_tag(tag)
            self.settle(item)
            return
        for item in self.take_unacked(tag, multiple):
            self.settle(item)

    def settle(self, item: Unacked) -> None:
        """One delivery is acknowledged."""
        item.queue.forget(item.entry)
        self.credit(item)

    def credit(self, item: Unacked) -> None:
        """A delivery is settled: consumers that waited for credit may go on."""
        consumer = item.consumer
        if consumer is not None:
            consumer.unacked -= 1
            self.credit_used -= 1
            if not consumer.waiting and not self.starved:
                consumer.wake()
        if self.starved:
            self.wake_consumers()

    def take_back(self, items: list[Unacked]) -> None:
        """Return deliveries of this channel to their queues, in their old order, and dispatch these queues."""
        queues: dict[Origin, None] = {}
        consumers: dict[Consumer, None] = {}
        for item in items:
            item.queue.put_back(item.entry)
            queues[item.queue] = None
            if item.consumer is not None:
                item.consumer.unacked -= 1
                self.credit_used -= 1
                consumers[item.consumer] = None
        for queue in queues:
            queue.dispatch()
        for consumer in consumers:
            if not consumer.waiting:
                consumer.wake()
        if self.starved:
            self.wake_consumers()

    def wake_consumers(self) -> None:
        """Consumers may be able to take messages: there is new credit, or the flow or the socket goes on."""
        self.starved = False
        consumers = self.consumers
        if not consumers:
            return
        if len(consumers) > 1:
            # The first consumer may use up all credit: next time another one is the first.
            first = next(iter(consumers))
            consumers[first] = consumers.pop(first)
        for consumer in list(consumers.values()):
            consumer.wake()
            if self.connection.paused:
                break

    def pause_consumers(self) -> None:
        """Consumers cannot take messages: channel.flow or the socket has stopped them."""
        if self.consumers:
            for consumer in self.consumers.values():
                consumer.queue.refresh_direct()

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """The queue was deleted: send basic.cancel, if the client has that capability."""
        if self.consumers is None or self.consumers.pop(consumer.tag, None) is None:
            return
        if self.connection.can("consumer_cancel_notify"):
            # Clients expect it after the answer to the method that deleted the queue.
            self.broker.cancelled.append((self, consumer.tag))

    def tell_cancelled(self, tag: str) -> None:
        if self.state == OPEN:
            self.send(BasicCancel(consumer_tag=tag, no_wait=True))

    def close_reply_address(self) -> None:
        """Drop all replies to this channel's reply address from now on."""
        if self.reply is not None:
            self.broker.replies.pop(self.reply.address, None)
            self.reply.consumer = self.reply.direct = None
            self.reply = None

    def take_unacked(self, tag: int, multiple: bool) -> list[Unacked]:
        """Remove and return the deliveries that an ack, nack or reject means. 406 for an unknown tag."""
        unacked = self.unacked
        if not multiple:
            item = unacked.pop(tag, None)
            if item is None:
                raise unknown_tag(tag)
            return [item]
        if tag and tag not in unacked:
            raise unknown_tag(tag)
        last = tag or self.delivery_tag
        between: Iterable[int] = range(self.lowest_tag, last + 1)
        if last - self.lowest_tag > 2 * len(unacked):
            # Most tags of the range are of deliveries without ack, or acked already.
            between = sorted(each for each in unacked if each <= last)
        taken = []
        for each in between:
            item = unacked.pop(each, None)
            if item is not None:
                taken.append(item)
        self.lowest_tag = max(self.lowest_tag, last + 1)
        return taken

    def on_deadline(self, now_ms: int) -> None:
        """Close the channel if a delivery was not acknowledged within the consumer's timeout."""
        soonest = 0
        for tag, item in self.unacked.items():
            timeout_ms = item.consumer.timeout_ms if item.consumer else self.broker.limits.consumer_timeout_ms
            if not timeout_ms:
                continue
            due = item.since_ms + timeout_ms
            if due <= now_ms:
                text = (
                    f"delivery acknowledgement on channel {self.number} timed out: delivery tag {tag}, {timeout_ms} ms"
                )
                self.fail(ChannelError(PRECONDITION_FAILED, text), 0, 0)
                return
            soonest = min(soonest or due, due)
        if soonest:
            self.broker.deadlines.wake(self, max(soonest, now_ms + 100))

    # -- output

    def send(self, method: Method) -> None:
        self.connection.send(method_frame(self.number, method))

    def send_confirms(self) -> None:
        confirms = self.confirms
        if confirms is None or self.state != OPEN:
            return
        for method in confirms.take(self.broker.journal):
            self.send(method)
        if confirms.gates is not None and confirms.gates:
            self.broker.journal.waiters[self] = None

    def unroutable(self, route: Route, header: bytes, body: bytes) -> None:
        """No queue gets a message: return it to the publisher who asked for that, else drop it."""
        if route.mandatory:
            self.returned += 1
            self.return_message(route, header, body)
        else:
            self.dropped += 1

    def return_message(self, route: Route, header: bytes, body: bytes) -> None:
        method = BasicReturn(
            reply_code=NO_ROUTE, reply_text="NO_ROUTE", exchange=route.exchange, routing_key=route.routing_key
        )
        connection = self.connection
        connection.send(method_frame(self.number, method))
        connection.send(content_frames(self.number, header, body, connection.frame_max))

    # -- counts

    def sample_size(self, size: int) -> None:
        """So many messages were published that the size of one is counted: call it when `size_sample_at` is reached."""
        samples = (self.published - self.size_sample_at) // SIZE_SAMPLE_EVERY + 1
        self.size_sample_at += samples * SIZE_SAMPLE_EVERY
        self.broker.message_sizes.add(size, samples * SIZE_SAMPLE_EVERY)

    def counts(self) -> ChannelCounts:
        """How many messages passed since the channel is open."""
        remembered, got, got_no_ack = self.remembered, self.got, self.got_no_ack
        # Deliveries that need an ack wait for it, or were refused, or are acknowledged.
        acknowledged = remembered - self.held_count() - self.refused if remembered else 0
        # By position: the statistics ask every channel, and names take twice the time.
        return ChannelCounts(
            self.published,
            self.confirms.confirmed if self.confirms is not None else 0,
            self.returned,
            self.dropped,
            remembered - got,
            self.delivery_tag - remembered - got_no_ack,
            got,
            got_no_ack,
            self.got_empty,
            self.redelivered,
            acknowledged,
        )

    @property
    def published_to_confirm(self) -> int:
        """How many messages were published since the client asked for confirms."""
        return 0 if self.confirms is None else self.confirms.count

    def _count_anew(self) -> None:
        # A channel that publishes little has its first sample at another place than the channel before it.
        self.size_sample_at = self.broker.next_size_sample()
        self.delivery_tag = self.published = self.remembered = self.refused = 0
        self.got = self.got_no_ack = self.got_empty = self.redelivered = self.returned = self.dropped = 0
        if self.confirms is not None:
            self.confirms.confirmed = 0

    def end_counts(self) -> None:
        """The channel ends: its counts are added to those of its virtual host and its broker, and begin anew."""
        vhost, broker, counts = self.connection.vhost, self.broker, self.counts()
        vhost.closed_counts = vhost.closed_counts.plus(counts)
        broker.closed_counts = broker.closed_counts.plus(counts)
        broker.closed_confirming += self.published_to_confirm
        if self.state == OPEN and self.connection.peer.is_application:
            broker.churn.channel_closed += 1
        self._count_anew()

    # -- the end

    def fail(self, error: ChannelError, class_id: int, method_id: int) -> None:
        """Close this channel for an error. Its input is dropped until the client has answered."""
        if self.state == CLOSING:
            return
        self.send_confirms()
        self.broker.note(
            "warning", "channel closed for an error", self.connection, channel=self.number, text=error.reply_text
        )
        self.release()
        self.state = CLOSING
        self.send(
            ChannelClose(
                reply_code=error.code,
                reply_text=error.reply_text,
                failing_class_id=class_id,
                failing_method_id=method_id,
            )
        )

    def stop_consumers(self) -> None:
        """From now on nothing is delivered here; `release` must follow."""
        self.close_reply_address()
        for consumer in self.consumers.values() if self.consumers else ():
            consumer.queue.stop(consumer)

    def release(self) -> None:
        """Cancel all consumers, and return all deliveries to their queues."""
        # Consumers first: returned deliveries must not come here again.
        self.stop_consumers()
        accounts = self.broker.memory_accounts
        if self.incoming is not None:
            accounts.held_bytes -= self.incoming.got
            self.incoming = None
        self.end_counts()
        unacked = list(self.unacked.values())
        if self.transaction is not None:
            accounts.held_bytes -= self.transaction.held_bytes
            unacked += self.transaction.acks
            unacked += [item for item, _ in self.transaction.rejects]
            self.transaction = None
        consumers = list(self.consumers.values()) if self.consumers else []
        self.consumers = None
        self.unacked = {}
        self.deadline_ms = 0
        self.state = CLOSING
        self.take_back(unacked)
        for consumer in consumers:
            self.connection.vhost.drop_consumer(consumer)


def unknown_tag(tag: int) -> ChannelError:
    return ChannelError(PRECONDITION_FAILED, f"unknown delivery tag {tag}")
