"""How messages cross to other brokers: with unchanged bytes, on a lane that tells where they may go.

A message reaches each broker at most once, and never the broker that it came from. The message of an application goes
to every broker with a private queue that is bound for it. A message that came over a link goes no further, with one
exception: a primary passes the message of a secondary on to the other secondaries, if it was sent to it for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from openclust.broker.amqp.trace import DROP, RELAY
from openclust.broker.delivery.direct_reply import REPLY_PREFIX
from openclust.broker.model.message import Message
from openclust.broker.routing.destination import Destination
from openclust.cluster.protocol.lane_names import lane_name
from openclust.cluster.relay.lanes import Lanes, Reach, frames
from openclust.cluster.relay.meta_bindings import OTHERS

if TYPE_CHECKING:
    from openclust.broker.amqp.trace import Tracer
    from openclust.broker.routing.exchange import Targets
    from openclust.broker.routing.route import ExchangeHost
    from openclust.broker.server.broker import Broker
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.protocol.outbox import Outbox


class PeerFanout(Destination):
    """In a route, all other brokers with private queues that are bound for its messages: each gets a message once."""

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
                outbox.drop(len(message.body))
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


def reach_shared_queues(vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
    """The shared queues among the targets, for a message that has reached all other targets already."""
    return [each for each in targets.destinations if each.is_shared], False


class Relay:
    """The rules by which a message goes to other brokers. `misdirected` counts messages for a root that is none."""

    def __init__(self, broker: Broker, links: Links, leadership: Leadership[object]) -> None:
        self._broker = broker
        self.links = links
        self.leadership = leadership
        self.lanes = Lanes()
        self.misdirected = 0

    def tracer(self) -> Tracer | None:
        return self._broker.tracer

    def reach(self, vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
        """The destinations of an application's message, and whether it must also be forwarded to the root."""
        here: list[Destination] = []
        forward = False
        for destination in targets.destinations:
            if destination.is_private or self.leadership.is_root:
                here.append(destination)
            else:
                forward = True
        if targets.brokers:
            sends = self._sends(targets.brokers, forward)
            if sends:
                here.append(PeerFanout(self, vhost.name, sends))
        return here, forward

    def _sends(self, names: Iterable[str], forward: bool) -> list[tuple[Outbox, Reach]]:
        """The outboxes of these brokers, each with what the message may reach there."""
        links = self.links
        # A message that is forwarded to the root is for the private queues there too: it gets no second copy.
        served = self.leadership.root if forward and links.root_outbox() is not None else ""
        passes_on = links.relaying_primary() if OTHERS in names else ""
        sends = []
        for name in sorted({*names, passes_on} - {OTHERS, "", served}):
            outbox = links.outboxes.get(name)
            if outbox is not None:
                sends.append((outbox, Reach.PRIVATE | (Reach.PASS_ON if name == passes_on else 0)))
        return sends

    def reply_outlet(self, address: str) -> Destination | None:
        """The broker that made a reply address: its name stands between the prefix and the last dot."""
        name = address.removeprefix(REPLY_PREFIX).rpartition(".")[0]
        links = self.links
        if not name or name == links.name:
            return None
        outbox = links.outboxes.get(name)
        if outbox is not None:
            return PeerFanout(self, "/", [(outbox, Reach.PRIVATE)])
        first = links.outboxes.get(links.relaying_primary())
        return None if first is None else PeerFanout(self, "/", [(first, Reach.PASS_ON)])
