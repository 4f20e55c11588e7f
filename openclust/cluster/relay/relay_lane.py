"""The receiving end of a lane: a channel of a peer's link on which relayed messages come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from openclust.broker.amqp.channel import Channel
from openclust.broker.amqp.publishing import decode_publish
from openclust.broker.amqp.runs import pass_run
from openclust.broker.amqp.trace import RELAYED_IN
from openclust.broker.delivery.direct_reply import REPLY_PREFIX
from openclust.broker.delivery.fanout import Arrival, fan_out
from openclust.broker.journal.confirm_gates import Gates
from openclust.broker.model.outcome import PLACES, REFUSED
from openclust.broker.routing.carbon_copies import copy_keys, hide_blind_copies, route_by_headers
from openclust.broker.routing.route import ExchangeHost, Route, find_targets
from openclust.cluster.protocol.lane_names import lane_name
from openclust.cluster.protocol.messages import Lane, Settled
from openclust.cluster.relay.lanes import Reach
from openclust.cluster.relay.relay import PeerFanout, Relay
from openclust.wire.errors import AmqpError
from openclust.wire.properties import HEADERS, decode_properties
from openclust.wire.text import decode_text

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.routing.destination import Destination
    from openclust.broker.routing.exchange import Targets
    from openclust.broker.server.vhost import VirtualHost
    from openclust.cluster.protocol.outbox import Outbox

ROUTES_MAX = 20_000


class RelayLane(Channel):
    """The receiving end of a lane: one kind of message, from one broker, in one virtual host.

    A lane that is confirmed serves one reign. When that ends, its sender gives all messages that are not settled to the
    next root, in their order, and that may be the same broker again: call `end_reign`, so that none counts twice.
    """

    __slots__ = (
        "_arrival",
        "_confirms",
        "_gates",
        "_is_over",
        "_is_shared",
        "_leadership",
        "_links",
        "_relay",
        "_sender",
        "_unroutable",
        "_verdicts",
        "_vhost",
        "count",
        "lane",
        "reach",
    )

    def __init__(self, connection: Connection, relay: Relay, sender: str, lane: Lane) -> None:
        super().__init__(connection, lane.number)
        self._relay = relay
        self._links = relay.links
        self._leadership = relay.leadership
        self._sender = sender
        self._vhost: VirtualHost | None = None
        self.lane = lane
        self.reach = Reach(lane.flags)
        self._arrival = Arrival(RELAYED_IN, sender, lane_name(self.reach))
        # To ask for a flag takes as long as all the rest of a publish: these are asked once.
        self._is_shared = Reach.SHARED in self.reach
        self._confirms = Reach.CONFIRM in self.reach
        self._is_over = False
        self.routes = {}
        self.count = 0
        self._verdicts: list[tuple[int, int, bool]] = []
        self._unroutable: list[int] = []
        self._gates = Gates()
        if not relay.leadership.is_root or lane.epoch != relay.leadership.epoch:
            self.end_reign()

    def end_reign(self) -> None:
        """From now on no message of this lane is for shared queues, if its messages are confirmed."""
        if self._confirms and self._is_shared:
            self._confirms, self._is_over = False, True
            self.reach &= ~Reach.SHARED
            self._arrival = Arrival(RELAYED_IN, self._sender, lane_name(self.reach))
            self._vhost = None
            self.routes = {}
            self._verdicts.clear()
            self._unroutable.clear()

    def publish(self, arguments: bytes, header: bytes, body: bytes) -> None:
        """A message from another broker, which has checked it already."""
        self.count += 1
        if self._is_shared and (self._is_over or not self._leadership.is_root):
            # Its sender knows by now that there is another root, or soon will.
            self._relay.misdirected += 1
        route = self.routes.get(arguments)
        if route is None or (header[12] << 8 | header[13]) & route.watch:
            route, header = self._resolve(arguments, header, body)
        broker = self.broker
        outcome = fan_out(broker, route, header, body, None, self._arrival)
        if self._confirms:
            if not route.is_plain:
                self._unroutable.append(self.count)
            self._settle(not outcome & REFUSED)
            if outcome & PLACES:
                self._gates.add(self.count, broker.journal.number, outcome & PLACES)

    def publish_run(self, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Messages that differ in nothing but their bodies; returns how many of them were passed on at once."""
        route = self.routes.get(arguments)
        broker = self.broker
        if (
            route is None
            or (properties[0] << 8 | properties[1]) & route.watch
            or self._confirms
            or broker.tracer is not None
            or (self._is_shared and not self._leadership.is_root)
        ):
            return 0
        taken = pass_run(broker, route, properties, bodies)
        self.count += taken
        return taken

    def _settle(self, accepted: bool) -> None:
        verdicts = self._verdicts
        if not verdicts:
            self.broker.confirming.append(self)
        elif verdicts[-1][2] is accepted:
            verdicts[-1] = (verdicts[-1][0], self.count, accepted)
            return
        verdicts.append((self.count, self.count, accepted))

    def _resolve(self, arguments: bytes, header: bytes, body: bytes) -> tuple[Route, bytes]:
        method = decode_publish(arguments)
        key = method.routing_key
        if not method.exchange and key.startswith(REPLY_PREFIX):
            return self._reply_route(key), header
        vhost = self._look_up_vhost()
        exchange = None if vhost is None else vhost.exchanges.get(method.exchange)
        if vhost is None or exchange is None:
            return Route(method.exchange, key, []), header
        targets = find_targets(vhost, exchange, (key,))
        route = Route(
            method.exchange,
            key,
            self._reached(vhost, targets)[0],
            watch=0xFFFF if targets.by_headers else HEADERS,
            enters=False,
        )
        if len(self.routes) >= ROUTES_MAX:
            vhost.route_counts.forget(self.routes.values())
            self.routes.clear()
        self.routes[arguments] = route
        if not (header[12] << 8 | header[13]) & route.watch:
            return route, header
        try:
            properties = decode_properties(header)
            if copy_keys(properties.headers) or targets.by_headers:
                route = route_by_headers(vhost, exchange, key, properties.headers or {}, self._reached)
                route.enters = False
                vhost.route_counts.add_one(route)
        except AmqpError as error:
            self.broker.note("error", "a relayed message is damaged", text=error.reply_text, peer=self._sender)
            return Route(method.exchange, key, []), header
        return route, hide_blind_copies(route, properties, header, len(body))[1]

    def _look_up_vhost(self) -> VirtualHost | None:
        """The virtual host of the lane, which may have been deleted and made again since the last message."""
        vhost = self.broker.vhosts.get(decode_text(self.lane.vhost))
        if vhost is not self._vhost:
            self._vhost = vhost
            # A change of the topology clears these routes too.
            key = f"link of {self._sender} for {int(self.reach)}"
            self.routes = {} if vhost is None else vhost.routes_for(key)
        return vhost

    def _reply_route(self, address: str) -> Route:
        reply = self.broker.replies.get(address)
        if reply is not None:
            return Route("", address, [reply])
        outlet = self._relay.reply_outlet(address) if self.reach & Reach.PASS_ON else None
        return Route("", address, [] if outlet is None else [outlet])

    def _reached(self, vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
        """The destinations among the targets that messages of this lane may reach. None goes to the root again."""
        found: list[Destination] = []
        sends: list[tuple[Outbox, Reach]] = []
        for destination in targets.destinations:
            if destination.is_private:
                if self.reach & Reach.PRIVATE:
                    found.append(destination)
            elif self.reach & Reach.SHARED and self._leadership.is_root:
                found.append(destination)
        if self.reach & Reach.PASS_ON:
            for name in targets.brokers:
                if name != self._sender and self._links.is_secondary(name):
                    # The link from the secondary may be there before the link to it.
                    sends.append((self._links.outbox(name), Reach.PRIVATE))
        if sends:
            found.append(
                PeerFanout(self._relay, decode_text(self.lane.vhost), sorted(sends, key=lambda send: send[0].peer))
            )
        return found, False

    def send_confirms(self) -> None:
        """Tell the sender the outcome of messages, as far as it is sure and this broker is still root."""
        verdicts, self._verdicts = self._verdicts, []
        unroutable, self._unroutable = self._unroutable, []
        if self._gates:
            upto, _ = self._gates.take_passed(self.broker.journal)
            if upto is not None:
                self.broker.journal.waiters[self] = None
                self._verdicts = [(max(first, upto + 1), last, taken) for first, last, taken in verdicts if last > upto]
                verdicts = [(first, min(last, upto), taken) for first, last, taken in verdicts if first <= upto]
                self._unroutable = [number for number in unroutable if number > upto]
                unroutable = [number for number in unroutable if number <= upto]
        if verdicts and self._leadership.is_root:
            lane = self.lane
            settled = Settled(lane=lane.number, run=lane.run, verdicts=verdicts, unroutable=unroutable)
            self._links.send(self._sender, settled)

    def release(self) -> None:
        """The lane keeps nothing but routes, and the broker forgets these with the link."""
        self.consumers = None


def end_lanes(connections: Iterable[Connection]) -> None:
    """As root no more: messages that peers have under way to this root, and want to be told of, are for the next."""
    for connection in connections:
        for channel in connection.channels.values():
            if isinstance(channel, RelayLane):
                channel.end_reign()
