"""The outbox of one peer: frames that the shell's link is to send, counted and bounded."""

from __future__ import annotations

from openclust.broker.delivery.cluster_exchange import CLUSTER_EXCHANGE
from openclust.cluster.protocol.messages import ControlMessage, Lane, encode
from openclust.wire.codec import method_frame
from openclust.wire.frames import FRAME_MIN, content_frames
from openclust.wire.methods import BasicPublish
from openclust.wire.properties import Properties, encode_header

CONTROL_CHANNEL = 1
SOURCE_LANE_MIN = 10_000
"""Channels from here on carry deliveries to one consumer each; channels from 2 up to here carry relayed messages."""
HANDOVER_LANE = SOURCE_LANE_MIN - 1
LANE_MAX = 65_535

_CONTROL_METHOD = method_frame(CONTROL_CHANNEL, BasicPublish(exchange=CLUSTER_EXCHANGE))


class Outbox:
    """The shell takes `frames` when it is in `dirty`, and keeps `waiting_bytes` true; it calls `open` and `close`.

    Control messages and messages for shared queues are always taken: their sender looks at `is_full` and makes
    publishers wait. Other messages are dropped when it is full.
    """

    __slots__ = (
        "bytes_max",
        "dirty",
        "dropped",
        "dropped_bytes",
        "frame_max",
        "frames",
        "is_up",
        "opened",
        "peer",
        "peer_has_stopped",
        "relayed",
        "sent",
        "size",
        "waiting_bytes",
    )

    def __init__(self, peer: str, dirty: list[Outbox], bytes_max: int) -> None:
        self.peer = peer
        self.dirty = dirty
        self.bytes_max = bytes_max
        self.is_up = False
        # The peer has said goodbye since the link was opened last.
        self.peer_has_stopped = False
        self.frame_max = FRAME_MIN
        self.frames: list[bytes] = []
        self.size = 0
        self.waiting_bytes = 0
        self.opened: set[int] = set()
        self.sent = 0
        self.relayed = 0
        self.dropped = 0
        self.dropped_bytes = 0

    def open(self, frame_max: int) -> None:
        """The link is up, and nothing was sent on it yet."""
        self.is_up = True
        self.peer_has_stopped = False
        self.frame_max = frame_max
        self._forget()

    def close(self) -> None:
        """The link is down: frames that were not sent are lost, and new ones are dropped."""
        self.is_up = False
        self._forget()

    def _forget(self) -> None:
        self.frames.clear()
        self.opened.clear()
        self.size = self.waiting_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.size + self.waiting_bytes > self.bytes_max

    def take(self) -> bytes:
        """Take out all frames, to be sent now."""
        data = b"".join(self.frames) if len(self.frames) != 1 else self.frames[0]
        self.frames.clear()
        self.waiting_bytes += self.size
        self.size = 0
        return data

    def add(self, data: bytes) -> None:
        if not self.frames:
            self.dirty.append(self)
        self.frames.append(data)
        self.size += len(data)

    def control(self, message: ControlMessage) -> bool:
        """Add a control message; False where the link is down."""
        if not self.is_up:
            return False
        body = encode(message)
        header = encode_header(Properties(type=type(message).__name__), len(body))
        self.add(_CONTROL_METHOD + content_frames(CONTROL_CHANNEL, header, body, self.frame_max))
        self.sent += 1
        return True

    def open_lane(self, lane: Lane) -> None:
        """Tell the peer what a channel is for from now on."""
        if self.control(lane):
            self.opened.add(lane.number)

    def relay(self, data: bytes, count: int = 1) -> None:
        """Add the frames of one message or more that must not be dropped. The link must be up."""
        # The same as `add`, without the call: every message comes this way.
        if not self.frames:
            self.dirty.append(self)
        self.frames.append(data)
        self.size += len(data)
        self.relayed += count

    def relay_transient(self, data: bytes) -> None:
        if self.is_up and not self.is_full:
            self.add(data)
            self.relayed += 1
        else:
            self.drop(len(data))

    def drop(self, size: int) -> None:
        """Count a message of so many bytes that the peer does not get."""
        self.dropped += 1
        self.dropped_bytes += size
