"""Messages for shared queues, on their way to the root.

Where there is no root they wait here, and their publishers are not read meanwhile; nor are publishers that are faster
than the link, or than the root confirms. Messages that were not confirmed go to the next root again: one may come
twice, but no confirmed message is lost.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

import msgspec

from openclust.broker.amqp.channel import OPEN
from openclust.broker.delivery.fanout import PUBLISHED_BEFORE, fan_out
from openclust.broker.journal.confirm_gates import Ticket
from openclust.broker.model.outcome import PLACES, REFUSED
from openclust.broker.routing.carbon_copies import route_again
from openclust.cluster.protocol.lane_names import ROOT_LANE
from openclust.cluster.protocol.messages import Lane
from openclust.cluster.relay.lanes import Reach, frames, run_frames
from openclust.cluster.relay.relay import reach_shared_queues
from openclust.cluster.shared_queues.root_requests import no_root
from openclust.wire.errors import RESOURCE_ERROR, ChannelError
from openclust.wire.frames import FRAME_OVERHEAD
from openclust.wire.handshake import State
from openclust.wire.text import encode_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclust.broker.amqp.channel import Channel
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.cluster_port import Verdict
    from openclust.broker.model.message import Message
    from openclust.broker.routing.route import ExchangeHost
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.protocol.messages import Settled
    from openclust.cluster.protocol.outbox import Outbox
    from openclust.cluster.relay.lanes import Lanes

OVERHEAD_BYTES = 500
TRIES_MAX = 10
"""A message that was under way when so many links to a root broke may be what breaks them: it is refused."""


class Letter(msgspec.Struct, gc=False):
    """A message on its way. `verdict` is called with its outcome; None where the publisher does not want it."""

    channel: Channel | None
    vhost: str
    message: Message
    verdict: Verdict | None
    since_ms: int
    reach: Reach
    tries: int = 0

    @property
    def cost(self) -> int:
        return len(self.message.body) + len(self.message.header) + OVERHEAD_BYTES


class ForwardingRole(Protocol):
    """The role in force: it sends a message to the root, publishes it as root, or has it wait."""

    def forward(self, letter: Letter) -> bool: ...


class Forwarding:
    """Call `take_back` when the link to the root is lost, `send_again` when there is one again, `flush` every turn."""

    def __init__(
        self,
        broker: Broker,
        links: Links,
        leadership: Leadership[ForwardingRole],
        lanes: Lanes,
        *,
        is_primary: bool,
        unanswerable: Callable[[], str],
        waiting_bytes_max: int,
        wait_ms: int,
    ) -> None:
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._lanes = lanes
        self._unanswerable = unanswerable
        self._bytes_max = waiting_bytes_max
        self._wait_ms = wait_ms
        reach = Reach.PRIVATE | Reach.SHARED
        self._reach = reach if is_primary else reach | Reach.PASS_ON
        # The lane of each virtual host for messages without a verdict.
        self._unconfirmed_lanes: dict[str, int] = {}
        self._waiting: deque[Letter] = deque()
        self._waiting_bytes = 0
        # The messages of each lane that the root has not settled yet, by their number on it.
        self._sent: dict[int, dict[int, Letter]] = {}
        self._sent_bytes = 0
        self._last: dict[int, int] = {}
        self._run = 0
        self._held_publishers: dict[Connection, None] = {}
        self.refused = 0

    @property
    def waiting(self) -> int:
        """How many messages wait for a root."""
        return len(self._waiting)

    def publish(self, channel: Channel | None, vhost: ExchangeHost, message: Message, verdict: Verdict | None) -> None:
        outbox = self._links.root_outbox()
        if outbox is not None and verdict is None:
            # Most messages come this way: nothing is kept of them.
            self._relay(outbox, vhost.name, message)
        else:
            letter = Letter(channel, vhost.name, message, verdict, self._broker.now_ms, self._reach)
            if not self._leadership.role.forward(letter):
                return
        if channel is not None and self._is_choked(outbox):
            self._hold(channel.connection)

    def publish_run(
        self, channel: Channel, vhost: VirtualHost, suffix: bytes, properties: bytes, bodies: list[bytes]
    ) -> int:
        """Send messages without verdicts that differ in nothing but their bodies; returns how many were sent."""
        outbox, lane = self._links.root_outbox(), self._unconfirmed_lanes.get(vhost.name, 0)
        if outbox is None or lane not in outbox.opened or max(map(len, bodies)) > outbox.frame_max - FRAME_OVERHEAD:
            return 0
        outbox.relay(run_frames(lane, suffix, properties, bodies), len(bodies))
        if self._is_choked(outbox):
            self._hold(channel.connection)
        return len(bodies)

    # -- to the root

    def _relay(self, outbox: Outbox, vhost: str, message: Message) -> None:
        lane = self._unconfirmed_lanes.get(vhost, 0)
        if lane not in outbox.opened:
            lane = self._unconfirmed_lanes[vhost] = self._lanes.open(outbox, self._reach, vhost)
        if self._broker.tracer is not None:
            self._broker.tracer.relayed(message, outbox.peer, ROOT_LANE)
        outbox.relay(frames(lane, outbox.frame_max, message))

    def send(self, outbox: Outbox, letter: Letter) -> None:
        """Send a message to the root; refuse one that was under way when too many links broke."""
        if letter.verdict is None:
            lane = self._lanes.open(outbox, letter.reach, letter.vhost)
        elif letter.tries >= TRIES_MAX:
            self.refused += 1
            self._broker.note("error", f"a message was refused: {TRIES_MAX} links to a root ended with it under way")
            letter.verdict(True, False)
            return
        else:
            lane = self._confirmed_lane(outbox, letter.reach | Reach.CONFIRM, letter.vhost)
            number = self._last[lane] = self._last[lane] + 1
            letter.tries += 1
            self._sent[lane][number] = letter
            self._sent_bytes += letter.cost
        if self._broker.tracer is not None:
            self._broker.tracer.relayed(letter.message, outbox.peer, ROOT_LANE)
        outbox.relay(frames(lane, outbox.frame_max, letter.message))

    def _confirmed_lane(self, outbox: Outbox, reach: Reach, vhost: str) -> int:
        """The number of a confirmed lane. Its messages are counted from 1, and anew at each root."""
        lane = self._lanes.number(reach, vhost)
        if lane not in self._sent:
            epoch = self._leadership.epoch
            outbox.open_lane(Lane(number=lane, vhost=encode_text(vhost), flags=int(reach), run=self._run, epoch=epoch))
            self._sent[lane] = {}
            self._last[lane] = 0
        return lane

    def settled(self, peer: str, message: Settled) -> None:
        """The root tells the outcome of messages."""
        sent = self._sent.get(message.lane)
        if sent is None or message.run != self._run or peer != self._leadership.root:
            return
        unroutable = set(message.unroutable)
        for first, last, accepted in message.verdicts:
            for number in range(first, last + 1):
                letter = sent.pop(number, None)
                if letter is not None and letter.verdict is not None:
                    self._sent_bytes -= letter.cost
                    letter.verdict(number not in unroutable, accepted)

    def publish_here(self, letter: Letter) -> None:
        """Publish a message to shared queues as root. Private queues and other brokers have had it already."""
        vhost = self._broker.vhosts.get(letter.vhost)
        message = letter.message
        exchange = None if vhost is None else vhost.exchanges.get(message.exchange)
        outcome, is_routed = 0, False
        if vhost is not None and exchange is not None:
            body = message.body
            route, header = route_again(
                vhost, exchange, message.routing_key, message.header, len(body), reach_shared_queues
            )
            is_routed = bool(route.destinations)
            route.enters = False
            vhost.route_counts.add_one(route)
            outcome = fan_out(self._broker, route, header, body, None, PUBLISHED_BEFORE)
        verdict, is_taken = letter.verdict, not outcome & REFUSED
        if verdict is not None:
            ticket = Ticket(self._broker.journal, outcome & PLACES, lambda kept: verdict(is_routed, is_taken and kept))
            ticket.send_confirms()

    # -- without a root

    def wait(self, letter: Letter) -> bool:
        """Keep a message until there is a root. False where it is refused: then its publisher must not be held."""
        # Private queues, here and on other brokers, have had it already.
        letter.reach = Reach.SHARED
        if self._waiting_bytes + letter.cost > self._bytes_max:
            limit = self._bytes_max // 1_048_576
            text = f"the cluster has no root, and {limit} MB of messages wait for one already (cluster.waiting_mb_max)"
            self._refuse(letter, text)
            return False
        if problem := self._unanswerable():
            self._refuse(letter, problem)
            return False
        self._waiting.append(letter)
        self._waiting_bytes += letter.cost
        self._broker.memory_accounts.held_bytes += letter.cost
        return True

    def _refuse(self, letter: Letter, text: str) -> None:
        self.refused += 1
        channel = letter.channel
        if channel is not None and channel.state == OPEN:
            channel.fail(ChannelError(RESOURCE_ERROR, text), 60, 40)

    def take_back(self) -> None:
        """The link to the root is lost: messages that it has not settled wait, before those that waited already."""
        for letter in self._take_all():
            self.wait(letter)
        # A publisher that gets no confirms would publish on, and more and more messages would wait.
        for letter in self._waiting:
            if letter.channel is not None:
                self._hold(letter.channel.connection)

    def send_again(self) -> None:
        """There is a root, perhaps this broker, or another link to it: send all messages that are not settled."""
        for letter in self._take_all():
            letter.reach = Reach.SHARED
            self._leadership.role.forward(letter)

    def _take_all(self) -> list[Letter]:
        """Take out all messages with a verdict that were sent, then those that waited."""
        self._run += 1
        letters = [letter for sent in self._sent.values() for letter in sent.values()]
        self._sent.clear()
        self._last.clear()
        self._sent_bytes = 0
        return letters + self._take_waiting()

    def _take_waiting(self) -> list[Letter]:
        waiting = list(self._waiting)
        self._waiting.clear()
        self._broker.memory_accounts.held_bytes -= self._waiting_bytes
        self._waiting_bytes = 0
        return waiting

    # -- publishers wait

    def _is_choked(self, outbox: Outbox | None) -> bool:
        """Whether publishers must wait before the root takes more; `outbox` is the root's."""
        if self._leadership.is_root:
            return False
        if outbox is None or outbox.size + outbox.waiting_bytes > outbox.bytes_max:
            return True
        return self._sent_bytes > self._bytes_max or (
            bool(self._links.pressed) and self._leadership.root in self._links.pressed
        )

    def _hold(self, connection: Connection) -> None:
        if connection.state is not State.OPEN or connection.hold:
            return
        connection.wait("cluster")
        self._held_publishers[connection] = None
        if not self._leadership.root:
            connection.tell_blocked(True, "the cluster has no root")
        elif self._leadership.root in self._links.pressed:
            connection.tell_blocked(True, f"the root {self._leadership.root} is short of memory or disk")

    def flush(self) -> None:
        """Let publishers go on, if the root takes more."""
        if self._held_publishers and not self._is_choked(self._links.root_outbox()):
            held, self._held_publishers = self._held_publishers, {}
            for connection in held:
                self._let_go(connection)

    def _let_go(self, connection: Connection) -> None:
        self._held_publishers.pop(connection, None)
        connection.tell_blocked(False)
        connection.release_from("cluster")

    def tick(self) -> None:
        """Refuse messages that have waited for a root too long."""
        self.flush()
        oldest_ms = self._broker.now_ms - self._wait_ms
        text = ""
        while self._waiting and self._waiting[0].since_ms <= oldest_ms:
            letter = self._waiting.popleft()
            self._waiting_bytes -= letter.cost
            self._broker.memory_accounts.held_bytes -= letter.cost
            text = text or no_root(self._leadership.root, self._wait_ms)
            self._refuse(letter, text)
            if letter.channel is not None:
                self._let_go(letter.channel.connection)

    def forget(self, connection: Connection) -> None:
        self._held_publishers.pop(connection, None)
