"""A consumer of another broker, as its queue on the root sees it."""

from __future__ import annotations

from collections import deque
from itertools import repeat
from typing import TYPE_CHECKING, Protocol

import msgspec

from openclust.broker.backlog.backlog import Entry
from openclust.broker.delivery.consumer import Consumer
from openclust.broker.model.message import counted_header
from openclust.cluster.protocol.messages import Consume
from openclust.cluster.relay.lanes import frames, publish_frame, run_frames
from openclust.wire.frames import (
    ENVELOPE,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_OVERHEAD,
    content_frames,
)
from openclust.wire.table import decode_table
from openclust.wire.text import decode_text

if TYPE_CHECKING:
    from openclust.broker.amqp.channel import Channel
    from openclust.broker.queues.queue import Queue
    from openclust.cluster.protocol.outbox import Outbox

AHEAD_MAX = 2_000
AHEAD_BYTES_MAX = 1_048_576
"""So many bytes may be under way to a consumer and not taken by its client yet; but always one message."""


class ProxyRegistry(Protocol):
    """The maker of proxies. `choked` are those that wait until the outbox of their broker takes more."""

    choked: dict[ConsumerProxy, None]

    def queue_deleted(self, proxy: ConsumerProxy) -> None: ...


class ConsumerProxy(Consumer):
    """Deliveries are counted from 1 on both sides. `held` are those that wait for their acknowledgement.

    Nothing is sent before `start`: the answer to the consume goes before the first delivery.
    """

    __slots__ = (
        "_ahead",
        "_frame_max",
        "_head",
        "_middle",
        "_outbox",
        "_proxies",
        "_shape",
        "_whole_max",
        "ahead_bytes",
        "held",
        "lane",
        "number",
        "peer",
        "room",
        "source",
        "told",
    )

    def __init__(
        self,
        proxies: ProxyRegistry,
        peer: str,
        channel: Channel,
        queue: Queue,
        wanted: Consume,
        outbox: Outbox,
        lane: int,
    ) -> None:
        super().__init__(
            channel,
            queue,
            decode_text(wanted.consumer_tag),
            no_ack=wanted.no_ack,
            exclusive=wanted.exclusive,
            priority=wanted.priority,
            arguments=decode_table(wanted.arguments, 0)[0] if wanted.arguments else {},
        )
        self.peer = peer
        self.source = wanted.source
        self.lane = lane
        self.prefetch = self.prefetch_asked = 0 if wanted.no_ack else wanted.prefetch
        self.held: dict[int, Entry] = {}
        self.number = 0
        self.told = 0
        self.room = 0
        self.ahead_bytes = 0
        self._ahead: deque[int] = deque()
        self._proxies = proxies
        self._outbox = outbox
        self._frame_max = outbox.frame_max
        self._whole_max = outbox.frame_max - FRAME_OVERHEAD
        self._shape = (b"", 0, 0)
        self._middle = b""

    def start(self) -> None:
        """The answer is sent and the lane is open: deliver."""
        self.room = AHEAD_MAX
        self.wake()

    # -- as a consumer

    def can_take(self) -> bool:
        if not self.room or self.ahead_bytes >= AHEAD_BYTES_MAX or (self.prefetch and len(self.held) >= self.prefetch):
            return False
        outbox = self._outbox
        if outbox.size + outbox.waiting_bytes > outbox.bytes_max:
            self._proxies.choked[self] = None
            return False
        return True

    def deliver(self, entry: Entry) -> None:
        message = entry.message
        header, body = message.header, message.body
        if entry.deliveries:
            data = self._again(entry)
        elif len(body) > self._whole_max or not body:
            data = publish_frame(self.lane, message.suffix) + content_frames(self.lane, header, body, self._frame_max)
        else:
            # Most messages repeat exchange, routing key and sizes of the one before.
            shape = (message.suffix, len(header), len(body))
            if shape != self._shape:
                self._shape = shape
                self._head = publish_frame(self.lane, shape[0]) + ENVELOPE.pack(FRAME_HEADER, self.lane, shape[1])
                self._middle = FRAME_END + ENVELOPE.pack(FRAME_BODY, self.lane, shape[2])
            data = b"%b%b%b%b\xce" % (self._head, header, self._middle, body)
        size = len(data)
        # The same as `Outbox.relay`, without the call: every delivery comes this way.
        outbox = self._outbox
        if not outbox.frames:
            outbox.dirty.append(outbox)
        outbox.frames.append(data)
        outbox.size += size
        outbox.relayed += 1
        self._ahead.append(size)
        self.ahead_bytes += size
        self.room -= 1
        self.number = number = self.number + 1
        if self.no_ack:
            self.queue.forget(entry)
        else:
            self.held[number] = entry

    def pass_run(self, suffix: bytes, properties: bytes, bodies: list[bytes]) -> int:
        if max(map(len, bodies)) > self._whole_max or not self.can_take():
            return 0
        # The bound on bytes may be passed by one run, which is as much as was read at once.
        bodies = bodies[: self.room]
        data = run_frames(self.lane, suffix, properties, bodies)
        self._outbox.relay(data, len(bodies))
        # Each is charged the mean: the other side tells of many at once that they were taken.
        each, more = divmod(len(data), len(bodies))
        self._ahead.append(each + more)
        self._ahead.extend(repeat(each, len(bodies) - 1))
        self.ahead_bytes += len(data)
        self.room -= len(bodies)
        self.number += len(bodies)
        return len(bodies)

    def _again(self, entry: Entry) -> bytes:
        message = entry.message
        if self.queue.settings.queue_type == "quorum":
            message = msgspec.structs.replace(message, header=counted_header(message, entry.deliveries))
        return frames(self.lane, self._frame_max, message, redelivered=True)

    @property
    def is_straight(self) -> bool:
        """Never: each delivery is counted."""
        return False

    def queue_deleted(self) -> None:
        self._proxies.queue_deleted(self)

    # -- what the other side says

    def taken(self, number: int) -> None:
        """The consumer's broker has given deliveries up to this number to the client."""
        ahead = self._ahead
        more = min(number - self.told, len(ahead))
        for _ in range(more):
            self.ahead_bytes -= ahead.popleft()
        if more > 0:
            self.told += more
            self.room += more
        if not self.waiting:
            self.wake()

    def return_all(self) -> None:
        """Give all unsettled deliveries back to the queue, which may deliver them again."""
        held, self.held = self.held, {}
        for entry in held.values():
            self.queue.put_back(entry)
