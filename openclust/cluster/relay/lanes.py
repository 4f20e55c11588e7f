"""The lanes of a link: a channel for each kind of message, and messages as the frames that go on it."""

from __future__ import annotations

from enum import IntFlag
from functools import lru_cache
from typing import TYPE_CHECKING

from openclust.broker.amqp.content import PUBLISH_PREFIX
from openclust.broker.amqp.runs import upto_body
from openclust.broker.model.message import Message
from openclust.cluster.protocol.messages import Lane
from openclust.cluster.protocol.outbox import HANDOVER_LANE
from openclust.wire.errors import RESOURCE_ERROR, ChannelError
from openclust.wire.frames import (
    ENVELOPE,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    content_frames,
)
from openclust.wire.text import encode_text

if TYPE_CHECKING:
    from openclust.cluster.protocol.outbox import Outbox

FIRST_LANE = 2
SHAPES_MAX = 1_000
"""Method frames are remembered for so many pairs of exchange and routing key: most messages repeat one of the last."""


class Reach(IntFlag):
    """Where the messages of a lane may go. With CONFIRM, its sender is told the outcome of each."""

    PRIVATE = 1
    SHARED = 2
    PASS_ON = 4
    CONFIRM = 8


class Lanes:
    """The channel numbers for each kind of message: the same on every link, so that the frames are too."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}

    def number(self, reach: Reach, vhost: str) -> int:
        key = (int(reach), vhost)
        number = self._numbers.get(key)
        if number is None:
            number = FIRST_LANE + len(self._numbers)
            if number >= HANDOVER_LANE:
                raise ChannelError(
                    RESOURCE_ERROR, "there were more virtual hosts than a link between brokers can carry"
                )
            self._numbers[key] = number
        return number

    def open(self, outbox: Outbox, reach: Reach, vhost: str) -> int:
        """The channel number for such messages; the peer is told it before the first."""
        number = self.number(reach, vhost)
        if number not in outbox.opened:
            outbox.open_lane(Lane(number=number, vhost=encode_text(vhost), flags=int(reach)))
        return number


@lru_cache(maxsize=SHAPES_MAX)
def publish_frame(lane: int, suffix: bytes, *, redelivered: bool = False) -> bytes:
    """The method frame of a message on that channel. On a consumer's lane, its bit `mandatory` says redelivered."""
    # A delivery's suffix is redelivered, exchange, routing key and a frame end; a publish begins with a ticket.
    payload = b"%b\0\0%b%c" % (PUBLISH_PREFIX, suffix[1:-1], redelivered)
    return b"%b%b\xce" % (ENVELOPE.pack(FRAME_METHOD, lane, len(payload)), payload)


@lru_cache(maxsize=SHAPES_MAX)
def _beginning(lane: int, suffix: bytes, header_size: int) -> bytes:
    """The bytes of a message on that channel before its content header."""
    return publish_frame(lane, suffix) + ENVELOPE.pack(FRAME_HEADER, lane, header_size)


def frames(lane: int, frame_max: int, message: Message, *, redelivered: bool = False) -> bytes:
    """A message as basic.publish on that channel."""
    header, body = message.header, message.body
    size = len(body)
    if 0 < size <= frame_max - FRAME_OVERHEAD and not redelivered:
        beginning = _beginning(lane, message.suffix, len(header))
        return b"%b%b\xce%b%b\xce" % (beginning, header, ENVELOPE.pack(FRAME_BODY, lane, size), body)
    method = publish_frame(lane, message.suffix, redelivered=redelivered)
    return method + content_frames(lane, header, body, frame_max)


def run_frames(lane: int, suffix: bytes, properties: bytes, bodies: list[bytes]) -> bytes:
    """Messages that differ in nothing but their bodies, each of one frame, as basic.publish on that channel."""
    method = publish_frame(lane, suffix)
    before = {size: method + upto_body(lane, properties, size) for size in set(map(len, bodies))}
    if len(before) == 1:
        (each,) = before.values()
        return each + (FRAME_END + each).join(bodies) + FRAME_END
    return b"".join([b"%b%b\xce" % (before[len(body)], body) for body in bodies])
