"""A shared queue that is active on the root, as a consumer on another broker has it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeAlias

from openclust.broker.amqp.runs import deliver_run
from openclust.broker.backlog.backlog import Entry
from openclust.broker.delivery.consumer import Origin, OriginHost
from openclust.broker.delivery.fanout import RoutingBroker, fan_out
from openclust.broker.model.message import Message
from openclust.broker.routing.destination import Destination
from openclust.cluster.protocol.messages import Cancel, Prefetch, Settle, Taken
from openclust.wire.frames import FRAME_OVERHEAD

if TYPE_CHECKING:
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.model.memory_accounts import MemoryAccounts
    from openclust.broker.routing.route import Route

TELL_BYTES = 524_288
"""After so many bytes the root is told what clients have taken: well before it may send no more ahead."""
MESSAGE_CHARGE = TELL_BYTES // 256
"""Each message is charged this in addition: so the root is told after 256 messages at the latest."""


ConsumerReport: TypeAlias = Cancel | Prefetch | Settle | Taken
"""The messages by which the root is told of consumers on this broker."""


class ReceivingBroker(RoutingBroker, Protocol):
    """The broker that passes the deliveries of the root on to its clients."""

    memory_accounts: MemoryAccounts


class RemoteQueueOwner(Protocol):
    """The maker of remote queues. `dirty` are those with something to tell the root at the end of the turn."""

    dirty: list[RemoteQueue]

    @property
    def broker(self) -> ReceivingBroker: ...
    def ended(self, source: RemoteQueue, consumer: Consumer) -> None: ...


class Run:
    """The time of one root and one link to it. Deliveries of a run that is over are void."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class GoneQueue(Origin):
    """The origin of a delivery that is void: a message that is given back to it is in another queue already."""

    __slots__ = ("is_alive", "name", "vhost")

    name: str
    vhost: OriginHost
    is_alive: bool
    is_here = False
    is_shared = True

    def __init__(self, vhost: OriginHost, name: str) -> None:
        self.vhost = vhost
        self.name = name
        self.is_alive = True

    @property
    def is_void(self) -> bool:
        return True

    def committed(self, entry: Entry) -> None:
        """The delivery was settled with its transaction."""


class RemoteQueue(GoneQueue, Destination):
    """A queue at the root, as one consumer here has it.

    Deliveries have numbers. By these the root is told once a turn how all deliveries of the turn were settled.

    `consumer` is None once it has ended, and for messages of basic.get. `credit` is its prefetch, as the root knows it.
    """

    __slots__ = (
        "_acked",
        "_broker",
        "_cancels",
        "_charge",
        "_is_dirty",
        "_owner",
        "_rejected",
        "_returned",
        "_taken",
        "_told",
        "buffer",
        "consumer",
        "credit",
        "direct",
        "no_ack",
        "number",
        "run",
    )

    direct: Consumer | None

    def __init__(
        self,
        owner: RemoteQueueOwner,
        run: Run,
        vhost: OriginHost,
        name: str,
        number: int,
        consumer: Consumer | None,
    ) -> None:
        super().__init__(vhost, name)
        self._owner = owner
        self._broker = owner.broker
        self.run = run
        self.number = number
        self.consumer = consumer
        self.no_ack = consumer is not None and consumer.no_ack
        self.credit = 0
        self.direct = None
        self.buffer: deque[Entry] = deque()
        self._acked: list[int] = []
        self._returned: list[int] = []
        self._rejected: list[int] = []
        self._taken = self._told = 0
        self._charge = 0
        self._cancels = False
        self._is_dirty = False

    @property
    def is_void(self) -> bool:
        return self.run.is_over

    # -- from the root

    def publish(self, message: Message) -> int:
        """Nothing is published to it: `pass_straight` and `arrived` take its deliveries."""
        raise AssertionError("only what passes straight comes by a route")

    def pass_straight(self, route: Route, header: bytes, body: bytes, number: int) -> bool:
        """A delivery: if it needs no acknowledgement and none waits before it, its bytes go to the client now.

        The route has this queue as its only destination. False where the caller must give it to `arrived`.
        """
        consumer = self.consumer
        if consumer is None or not self.no_ack or self.buffer or self.run.is_over or not consumer.can_take():
            return False
        self.direct = consumer
        channel = consumer.channel
        fan_out(self._broker, route, header, body)
        channel.connection.count_out(len(header) + len(body) + 2 * FRAME_OVERHEAD)
        self._taken = number
        self._charge = charge = self._charge + len(body) + MESSAGE_CHARGE
        if charge >= TELL_BYTES:
            self._touch()
        return True

    def pass_run_straight(self, suffix: bytes, properties: bytes, bodies: list[bytes], before: int) -> int:
        """Deliveries that differ in nothing but their bodies, after so many `before`: all go to the client, or none."""
        consumer = self.consumer
        if consumer is None or not self.no_ack or self.buffer or self.run.is_over or not consumer.can_take():
            return 0
        channel = consumer.channel
        taken = deliver_run(consumer, suffix, properties, bodies)
        if taken:
            size = sum(map(len, bodies))
            channel.connection.count_out(size + taken * (len(properties) + 12 + 2 * FRAME_OVERHEAD))
            self._taken = before + taken
            self._charge += size + taken * MESSAGE_CHARGE
            if self._charge >= TELL_BYTES:
                self._touch()
        return taken

    def arrived(self, message: Message, number: int, deliveries: int) -> None:
        """A delivery: to the client, or into the buffer until the client takes more."""
        if self.run.is_over:
            return
        consumer = self.consumer
        if consumer is None:
            # The consumer ended while this was on its way; without acks it counts as delivered.
            if not self.no_ack:
                self._returned.append(number)
                self._touch()
            return
        entry = Entry(message, number, 0, deliveries)
        if not self.no_ack:
            self._broker.memory_accounts.hold(message)
        if self.buffer or not consumer.can_take():
            self.buffer.append(entry)
            consumer.waiting = False
            return
        consumer.deliver(entry)
        self._taken = number
        self._charge = charge = self._charge + len(message.body) + MESSAGE_CHARGE
        if charge >= TELL_BYTES:
            self._touch()

    def consumer_ready(self, consumer: Consumer) -> None:
        """The client takes more."""
        buffer = self.buffer
        while buffer and consumer.can_take():
            self._pass_on(consumer, buffer.popleft())
        consumer.waiting = not buffer

    def _pass_on(self, consumer: Consumer, entry: Entry) -> None:
        consumer.deliver(entry)
        self._taken = max(self._taken, entry.seq)
        self._charge += len(entry.message.body) + MESSAGE_CHARGE
        if self._charge >= TELL_BYTES:
            self._touch()

    # -- from the client

    def forget(self, entry: Entry) -> None:
        """The client has acknowledged it. Without acks the root has forgotten it already."""
        if self.no_ack:
            return
        self._broker.memory_accounts.release(entry.message)
        if self.run.is_over:
            return
        acked, number = self._acked, entry.seq
        if acked and acked[-1] == number - 1:
            acked[-1] = number
        else:
            acked += (number, number)
        if not self._is_dirty:
            self._touch()

    def committed(self, entry: Entry) -> None:
        """The delivery was settled with its transaction: the root knows that."""
        if not self.no_ack:
            self._broker.memory_accounts.release(entry.message)

    def put_back(self, entry: Entry) -> None:
        self._refuse(entry, self._returned)

    def reject(self, entry: Entry) -> None:
        self._refuse(entry, self._rejected)

    def _refuse(self, entry: Entry, numbers: list[int]) -> None:
        if self.no_ack:
            return
        self._broker.memory_accounts.release(entry.message)
        if not self.run.is_over:
            numbers.append(entry.seq)
            self._touch()

    def stop(self, consumer: Consumer) -> None:
        """The client takes nothing more: the deliveries in the buffer go back to the root."""
        consumer.cancelled = True
        consumer.waiting = False
        if self.consumer is not None:
            self.consumer = None
            self._cancels = True
            self.drop_buffer()
            self._touch()
            self._owner.ended(self, consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """The consumer ends; its client may still get what is here."""
        if self.consumer is not None:
            self.empty(consumer)
        self.stop(consumer)

    def drop_buffer(self) -> None:
        """Give the deliveries in the buffer back to the root, unless the run is over."""
        buffer, self.buffer = self.buffer, deque()
        for entry in buffer:
            self.put_back(entry)

    def inherit(self, other: RemoteQueue) -> None:
        """Take over the buffer of an earlier remote queue. The root has forgotten its numbers: 0 stands for them."""
        for entry in other.buffer:
            entry.seq = 0
        self.buffer, other.buffer = other.buffer, deque()

    def empty(self, consumer: Consumer) -> None:
        """Empty the buffer: back to the root; or, without acks, to the client, even if that does not read."""
        if self.no_ack:
            while self.buffer:
                consumer.deliver(self.buffer.popleft())
        else:
            self.drop_buffer()

    # -- to the root

    def _touch(self) -> None:
        if not self._is_dirty:
            self._is_dirty = True
            self._owner.dirty.append(self)

    def reports(self) -> list[ConsumerReport]:
        """Take out the messages that tell the root of this turn."""
        self._is_dirty = False
        if self.run.is_over:
            return []
        reports: list[ConsumerReport] = []
        if self._acked or self._returned or self._rejected:
            reports.append(
                Settle(source=self.number, acked=self._acked, returned=self._returned, rejected=self._rejected)
            )
            self._acked, self._returned, self._rejected = [], [], []
        if self._charge >= TELL_BYTES:
            self._charge = 0
            reports.append(Taken(self.number, self._taken))
        if self._cancels:
            self._cancels = False
            reports.append(Cancel(self.number, keeps=True))
        return reports
