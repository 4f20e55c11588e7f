"""How messages cross to other brokers: as they came, on a channel of the link that tells what they may reach.

A message reaches each broker at most once, and never the one that it came from: an application's message goes to every
broker that wants it, one that came over a link goes no further, unless it is a secondary's: that primary which it was
given to passes it on to the other secondaries.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from functools import lru_cache
from typing import TYPE_CHECKING

from openclust.broker.amqp.content import PUBLISH_PREFIX
from openclust.broker.amqp.runs import upto_body
from openclust.broker.amqp.trace import DROP, RELAY
from openclust.broker.delivery.direct_reply import REPLY_PREFIX
from openclust.broker.model.message import Message
from openclust.broker.routing.destination import Destination
from openclust.broker.routing.remote_broker import RemoteBroker
from openclust.cluster.protocol.lane_names import lane_name
from openclust.cluster.protocol.messages import Lane
from openclust.cluster.protocol.outbox import HANDOVER_LANE
from openclust.cluster.relay.meta_bindings import OTHERS
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
    from openclust.broker.amqp.trace import Tracer
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.vhost import VirtualHost
    from openclust.cluster.membership.membership import Membership
    from openclust.cluster.protocol.outbox import Outbox

FIRST_LANE = 2
SHAPES_MAX = 1_000
"""Of how many exchanges and routing keys the method frame is remembered: what comes is mostly like what came before."""


class Reach(IntFlag):
    """What the messages of a lane may reach. With CONFIRM, its sender is told what became of each."""

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
        """The channel for such messages, and the peer knows it."""
        number = self.number(reach, vhost)
        if number not in outbox.opened:
            outbox.open_lane(Lane(number=number, vhost=encode_text(vhost), flags=int(reach)))
        return number


@lru_cache(maxsize=SHAPES_MAX)
def publish_frame(lane: int, suffix: bytes, *, redelivered: bool = False) -> bytes:
    """The method that a message begins with on that channel. On a consumer's lane, `mandatory` says redelivered."""
    # A delivery's suffix is redelivered, exchange, routing key and a frame end; a publish begins with a ticket.
    payload = b"%b\0\0%b%c" % (PUBLISH_PREFIX, suffix[1:-1], redelivered)
    return b"%b%b\xce" % (ENVELOPE.pack(FRAME_METHOD, lane, len(payload)), payload)


@lru_cache(maxsize=SHAPES_MAX)
def _beginning(lane: int, suffix: bytes, header_size: int) -> bytes:
    """Of a message on that channel, all before its content header."""
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


class PeerFanout(Destination):
    """In a route, all other brokers that want its messages for private queues: each once."""

    __slots__ = ("_relay", "_sends", "_tracer", "_vhost")

    name = "(other brokers)"
    is_remote = True

    def __init__(self, relay: Relay, vhost: str, sends: list[tuple[Outbox, Reach]]) -> None:
        self._relay = relay
        self._vhost = vhost
        self._tracer = relay.tracer()
        self._sends = [(outbox, reach, relay.lanes.number(reach, vhost)) for outbox, reach in sends]

    def publish(self, message: Message) -> int:
        data = b""
        shape = (-1, -1)
        if self._tracer is not None:
            self._trace(self._tracer, message)
        for outbox, reach, lane in self._sends:
            if not outbox.is_up:
                outbox.dropped += 1
                continue
            if lane not in outbox.opened:
                self._relay.lanes.open(outbox, reach, self._vhost)
            if shape != (lane, outbox.frame_max):
                shape = (lane, outbox.frame_max)
                data = frames(*shape, message)
            outbox.relay_transient(data)
        return 0

    def _trace(self, tracer: Tracer, message: Message) -> None:
        if tracer.mark(message.suffix, message.header, message.body):
            for outbox, reach, _ in self._sends:
                event = DROP if outbox.is_full or not outbox.is_up else RELAY
                tracer.relayed(message, outbox.peer, lane_name(reach), event=event)


def reach_shared_queues(vhost: VirtualHost, targets: Iterable[Queue | RemoteBroker]) -> tuple[list[Destination], bool]:
    """At the root: of all that the exchanges name, the shared queues. All others have had the message."""
    return [each for each in targets if not isinstance(each, RemoteBroker) and each.is_shared], False


class Relay:
    """The rules: where a message goes from here."""

    def __init__(self, membership: Membership) -> None:
        self._cluster = membership
        self.lanes = Lanes()

    def tracer(self) -> Tracer | None:
        return self._cluster.broker.tracer

    def reach(self, vhost: VirtualHost, targets: Iterable[Queue | RemoteBroker]) -> tuple[list[Destination], bool]:
        """Where an application's message goes, here and to private queues elsewhere; whether the root must have it."""
        here: list[Destination] = []
        remotes: list[RemoteBroker] = []
        forward = False
        for target in targets:
            if isinstance(target, RemoteBroker):
                remotes.append(target)
            elif target.owner is not None or self._cluster.leadership.is_root:
                here.append(target)
            else:
                forward = True
        if remotes:
            sends = self._sends([each.name for each in remotes], forward)
            if sends:
                here.append(PeerFanout(self, vhost.name, sends))
        return here, forward

    def _sends(self, names: list[str], forward: bool) -> list[tuple[Outbox, Reach]]:
        cluster = self._cluster
        # One copy serves both reasons: what is forwarded to the root is for its private queues too.
        served = cluster.leadership.root if forward and cluster.links.root_outbox() is not None else ""
        passes_on = cluster.links.relaying_primary() if OTHERS in names else ""
        sends = []
        for name in sorted({*names, passes_on} - {OTHERS, "", served}):
            outbox = cluster.links.outboxes.get(name)
            if outbox is not None:
                sends.append((outbox, Reach.PRIVATE | (Reach.PASS_ON if name == passes_on else 0)))
        return sends

    def reply_outlet(self, address: str) -> Destination | None:
        """The way to the broker that a reply address names: it is the part behind the prefix."""
        name = address.removeprefix(REPLY_PREFIX).rpartition(".")[0]
        cluster = self._cluster
        if not name or name == cluster.name:
            return None
        outbox = cluster.links.outboxes.get(name)
        if outbox is not None:
            return PeerFanout(self, "/", [(outbox, Reach.PRIVATE)])
        first = cluster.links.outboxes.get(cluster.links.relaying_primary())
        return None if first is None else PeerFanout(self, "/", [(first, Reach.PASS_ON)])
