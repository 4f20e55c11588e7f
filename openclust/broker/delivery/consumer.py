"""A consumer, how many messages it may be sent, and the origin that it receives them from."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol

from openclust.broker.backlog.backlog import Entry
from openclust.broker.model.message import Message, counted_header
from openclust.broker.model.queue_arguments import NO_ARGS, QueueArgs
from openclust.wire.frames import ENVELOPE, FRAME_METHOD, content_frames
from openclust.wire.table import Table
from openclust.wire.text import encode_text

if TYPE_CHECKING:
    from openclust.broker.model.limits import Limits
    from openclust.wire.handshake import State

pack_tag = Struct(">Q").pack


LARGE_BYTES = 16_384
"""Contents from this size on are shared by all outboxes, and not copied into each."""


class DeliveryTracer(Protocol):
    """Told of the messages of shared queues on their way to consumers; see `amqp/trace.py`."""

    def delivered(self, message: Message, queue: str) -> None: ...
    def relayed(self, message: Message, peer: str, lane: str) -> None: ...


class Sender(Protocol):
    """The broker, to whoever fills outboxes. `dirty` are the connections whose outboxes are not empty."""

    turn_bytes: int

    @property
    def dirty(self) -> list[Any]: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def tracer(self) -> DeliveryTracer | None: ...


class ReceivingConnection(Protocol):
    """The connection of a consumer."""

    out: list[bytes]
    frame_max: int
    paused: bool
    bulky: bool
    state: State

    def count_out(self, size: int) -> None: ...


class ReceivingChannel(Protocol):
    """The channel of a consumer."""

    number: int
    state: int
    delivery_tag: int
    redelivered: int
    flowing: bool
    prefetch_each: int
    prefetch_all: int
    prefetch_binds_no_ack: bool

    @property
    def broker(self) -> Sender: ...
    @property
    def connection(self) -> ReceivingConnection: ...

    def has_credit(self) -> bool: ...
    def remember(self, tag: int, queue: Origin, consumer: Consumer | None, entry: Entry) -> None: ...
    def consumer_cancelled(self, consumer: Consumer) -> None: ...


class OriginHost(Protocol):
    """The virtual host of an origin."""

    @property
    def name(self) -> str: ...
    def drop_consumer(self, consumer: Consumer) -> None: ...


class Origin(Protocol):
    """What a consumer receives from: a queue here, a queue at the root, or a reply address.

    A class that has nothing of its own to do or to say inherits the default from here.
    """

    __slots__ = ()

    @property
    def name(self) -> str: ...

    @property
    def vhost(self) -> OriginHost: ...

    @property
    def settings(self) -> QueueArgs:
        return NO_ARGS

    @property
    def is_alive(self) -> bool: ...

    @property
    def is_shared(self) -> bool:
        """Whether it is a shared queue, here or at the root."""
        return False

    @property
    def is_here(self) -> bool:
        """Whether this broker settles its deliveries. Otherwise the root does."""
        return True

    @property
    def is_void(self) -> bool:
        """Whether its deliveries are back in their queue: there is a new root, or a new link to it."""
        return False

    @property
    def is_deserted(self) -> bool:
        """Whether it is auto-delete and has lost its last consumer."""
        return False

    # -- consumers

    def consumer_ready(self, consumer: Consumer) -> None:
        """The consumer may be sent messages again."""
        return

    def refresh_direct(self) -> None:
        """Compute `direct` again: see `Destination`."""
        return

    def stop(self, consumer: Consumer) -> None:
        """Deliver nothing more to the consumer."""
        return

    def remove_consumer(self, consumer: Consumer) -> None:
        """The consumer was cancelled, or its channel is closed."""
        return

    # -- deliveries

    def forget(self, entry: Entry) -> None:
        """A delivery is done: it was acknowledged, or needs no acknowledgement."""
        return

    def put_back(self, entry: Entry) -> None:
        """A delivery comes back. Then call `dispatch`."""
        return

    def reject(self, entry: Entry) -> None:
        """A consumer rejects a delivery without requeueing it."""
        return

    def dispatch(self) -> None:
        """Deliver ready messages to ready consumers."""
        return


class Consumer:
    """A client's consumer. It is `waiting` while its queue's rotation has it among the ready ones.

    The content frames of a message are equal for consumers of one `shape`: channel number and frame_max.
    `prebuilt_head` is the beginning of its deliveries for messages with a suffix of `prebuilt_for_size` bytes.
    `prefetch_asked` is the client's prefetch, `prefetch` the one in force; 0 means no limit.
    """

    __slots__ = (
        "arguments",
        "cancelled",
        "channel",
        "exclusive",
        "no_ack",
        "out",
        "prebuilt_for_size",
        "prebuilt_head",
        "prefetch",
        "prefetch_asked",
        "priority",
        "queue",
        "shape",
        "tag",
        "timeout_ms",
        "unacked",
        "waiting",
    )

    def __init__(
        self,
        channel: ReceivingChannel,
        queue: Origin,
        tag: str,
        *,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        arguments: Table,
    ) -> None:
        connection = channel.connection
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.arguments = arguments
        self.prefetch = self.prefetch_asked = 0 if no_ack else channel.prefetch_each
        self.timeout_ms = 0
        self.unacked = 0
        self.waiting = False
        self.cancelled = False
        self.out = connection.out
        self.shape = channel.number << 32 | connection.frame_max
        self.prebuilt_head = b""
        self.prebuilt_for_size = -1

    def head(self, suffix_size: int) -> bytes:
        """The frame of basic.deliver up to the delivery tag, for a message with a suffix of that size."""
        if suffix_size != self.prebuilt_for_size:
            tag = encode_text(self.tag)
            # Payload: ids 4, tag 1 + n, delivery tag 8, suffix without the frame end.
            size = 4 + 1 + len(tag) + 8 + suffix_size - 1
            envelope = ENVELOPE.pack(FRAME_METHOD, self.channel.number, size)
            self.prebuilt_head = b"%b\0\x3c\0\x3c%c%b" % (envelope, len(tag), tag)
            self.prebuilt_for_size = suffix_size
        return self.prebuilt_head

    def can_take(self) -> bool:
        """Whether it may be sent one more message now."""
        channel = self.channel
        return (
            (not self.prefetch or self.unacked < self.prefetch)
            and channel.flowing
            and not channel.connection.paused
            and ((self.no_ack and not channel.prefetch_binds_no_ack) or channel.has_credit())
        )

    def deliver(self, entry: Entry) -> None:
        """Send it one message. The channel remembers the delivery if it needs an acknowledgement."""
        channel = self.channel
        connection = channel.connection
        message = entry.message
        channel.delivery_tag = tag = channel.delivery_tag + 1
        suffix = message.suffix
        out = self.out
        if not out:
            channel.broker.dirty.append(connection)
        header = message.header
        if entry.deliveries:
            suffix = b"\1" + suffix[1:]
            channel.redelivered += 1
            if self.queue.settings.queue_type == "quorum":
                header = counted_header(message, entry.deliveries)
        content = content_frames(channel.number, header, message.body, connection.frame_max)
        head = self.head(len(suffix))
        if len(content) < LARGE_BYTES:
            out.append(head + pack_tag(tag) + suffix + content)
        else:
            out.append(head + pack_tag(tag) + suffix)
            out.append(content)
            connection.bulky = True
        connection.count_out(len(content))
        if self.no_ack:
            self.queue.forget(entry)
        else:
            self.unacked += 1
            channel.remember(tag, self.queue, self, entry)

    def pass_run(self, suffix: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Take messages that differ in their bodies only, without a place in the queue. Returns how many."""
        return 0

    @property
    def is_straight(self) -> bool:
        """Whether it may be its queue's `direct` consumer: nobody acknowledges, and no prefetch counts."""
        return self.no_ack and not self.channel.prefetch_binds_no_ack

    def queue_deleted(self) -> None:
        """Its queue was deleted."""
        self.channel.consumer_cancelled(self)

    def follow_timeout(self, of_queue_ms: int | None) -> None:
        """The queue's consumer timeout has changed. A timeout in the consumer's own arguments goes first."""
        if "x-consumer-timeout" not in self.arguments:
            broker_ms = self.channel.broker.limits.consumer_timeout_ms
            self.timeout_ms = broker_ms if of_queue_ms is None else of_queue_ms

    def follow_prefetch(self, of_queue_max: int | None) -> None:
        """The queue's bound of the prefetch has changed. Deliveries beyond the new bound stay. Then call `wake`."""
        if not self.no_ack:
            asked = self.prefetch_asked
            self.prefetch = asked if of_queue_max is None else min(asked or of_queue_max, of_queue_max)

    def wake(self) -> None:
        """It may be able to take messages again: after an ack, a resumed socket, or channel.flow."""
        if not self.cancelled and self.can_take():
            self.queue.consumer_ready(self)
