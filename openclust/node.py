"""A broker and its part in a cluster as one: what happens goes in, what is to be done comes out.

A turn ends what was begun: `node.turn()` returns a `Ready`, and `perform(ready, host)` has the host do it. The shell is
a host, the simulator has one for each of its brokers, and so has every test that runs brokers in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from openclust.cluster.election.lease import lease_end_ms
from openclust.cluster.election.view import ElectionRole

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.journal.store_rows import Write
    from openclust.broker.model.effects import Effect
    from openclust.broker.server.broker import Broker
    from openclust.cluster.membership.membership import Membership
    from openclust.cluster.protocol.outbox import Outbox

DIGEST_EVERY_MS = 2_000


class Ready(NamedTuple):
    """What one turn wants done, in the order of its fields. Each outbox and each connection is named once."""

    writes: list[Write]
    """For the store. Tell `node.stored` when they are on disk."""
    messages: list[Outbox]
    """What is to be sent to peers, each over its link."""
    effects: list[Effect]
    connections: list[Connection]
    """Those whose outbox is to be written. Call `node.written` when all of it is with the sockets."""
    farewells: list[Connection]
    """Those that were told goodbye: their peers have a while to close."""


class Host(Protocol):
    """Whoever runs a node does each part of a `Ready`. What is not empty is handed over; connections always are."""

    def write(self, writes: list[Write]) -> None: ...
    def send(self, messages: list[Outbox]) -> None: ...
    def effect(self, effect: Effect) -> None: ...
    def flush(self, connections: list[Connection]) -> None: ...
    def farewell(self, connection: Connection) -> None: ...


def perform(ready: Ready, host: Host) -> None:
    """Have the host do all that a turn wants done. This is the only place that knows the order."""
    writes, messages, effects, connections, farewells = ready
    if writes:
        host.write(writes)
    if messages:
        host.send(messages)
    for effect in effects:
        host.effect(effect)
    host.flush(connections)
    for connection in farewells:
        host.farewell(connection)


def settle(broker: Broker) -> Ready:
    """A turn of a broker that is in no cluster."""
    broker.settle()
    return _ready(broker, [], [])


def _ready(broker: Broker, writes: list[Write], messages: list[Outbox]) -> Ready:
    effects, broker.effects = broker.effects, []
    connections, broker.dirty = broker.dirty, []
    farewells, broker.closing = broker.closing, []
    return Ready(writes, messages, effects, connections, farewells)


class Node:
    """Times are a monotonic clock's, the same for all calls. After each call but those that only ask: a turn.

    Call `beat` every heartbeat of the membership, `expire` at `expires_ms`, and `look_at_lease` at `lease_ends_ms`.
    """

    __slots__ = ("_told_digests_ms", "broker", "membership")

    def __init__(self, broker: Broker, membership: Membership) -> None:
        self.broker = broker
        self.membership = membership
        self._told_digests_ms = broker.now_ms
        broker.cluster = membership

    # -- what happens

    def receive(self, connection: Connection, data: bytes, now_ms: int) -> None:
        """Bytes came, of an application or over a peer's link to us."""
        stood_ms = now_ms - self.broker.now_ms
        self.broker.now_ms = now_ms
        if stood_ms > self.membership.heartbeat_ms:
            # A root that stood still may be none any more: what it took now it would have to hand over, out of order.
            self.membership.begin_turn()
        connection.receive(data)

    def connection_lost(self, connection: Connection, now_ms: int) -> None:
        """A connection has ended, an application's or a peer's link to us."""
        self.broker.now_ms = now_ms
        self.broker.connection_lost(connection)
        self.membership.connection_lost(connection)

    def link_up(self, peer: str, frame_max: int, now_ms: int) -> None:
        """Our link to a peer is there; nothing was said on it yet."""
        self.broker.now_ms = now_ms
        self.membership.link_up(peer, frame_max)

    def link_down(self, peer: str, now_ms: int) -> None:
        self.broker.now_ms = now_ms
        self.membership.link_down(peer)

    def leave(self, reason: str, now_ms: int) -> None:
        """This broker is about to end: its peers hear so, in this turn."""
        self.broker.now_ms = now_ms
        self.membership.leave(reason)

    def beat(self, now_ms: int) -> None:
        """A heartbeat has passed."""
        self.broker.now_ms = now_ms
        self.membership.tick()
        if now_ms - self._told_digests_ms >= DIGEST_EVERY_MS:
            self._told_digests_ms = now_ms
            self.membership.tell_digests()

    @property
    def expires_ms(self) -> int:
        """When a queue or a channel has something to do; 0 for never."""
        return self.broker.deadlines.next_ms()

    def expire(self, now_ms: int, wall_clock_ms: int) -> None:
        self.broker.set_clock(now_ms, wall_clock_ms)
        self.broker.tick(now_ms)

    @property
    def lease_ends_ms(self) -> int | None:
        """The last moment at which this broker may be root, as far as it knows yet; None where it is not."""
        membership = self.membership
        if not membership.is_primary or membership.election.role is not ElectionRole.ROOT:
            return None
        return lease_end_ms(membership.election)

    def look_at_lease(self, now_ms: int) -> None:
        """A root that is not heard resigns now, not at its next heartbeat."""
        self.broker.now_ms = now_ms
        self.membership.begin_turn()

    # -- what is to be done

    def turn(self) -> Ready:
        """Finish what was begun; a root whose lease is over confirms nothing. Another turn follows while `is_busy`."""
        membership = self.membership
        membership.begin_turn()
        self.broker.settle()
        membership.end_turn()
        messages = list(membership.links.dirty)
        membership.links.dirty.clear()
        return _ready(self.broker, membership.store_writes.take_writes(), messages)

    def stored(self, done: int, now_ms: int) -> None:
        """So many are on disk of all `writes` that any `Ready` had."""
        self.broker.now_ms = now_ms
        self.membership.batch_commit.stored(done)

    def disk_is(self, failure: str, waiting_bytes: int, now_ms: int) -> None:
        """Every heartbeat, and when writes begin to fail or go on: why they fail (empty: they do not), what waits."""
        self.broker.now_ms = now_ms
        self.membership.disk_health.waits(waiting_bytes)
        self.membership.batch_commit.look_at_disk(failure)

    def written(self) -> None:
        """All outboxes of this turn are with their sockets: publishers that waited for that go on."""
        self.broker.turn_done()

    @property
    def is_busy(self) -> bool:
        """Whether something is left to do already."""
        broker = self.broker
        is_left = broker.dirty or broker.effects or broker.dead_letters or broker.confirming
        it = self.membership
        return (
            bool(is_left or it.links.dirty)
            or it.replica.is_busy
            or it.checkpoints.is_busy
            or it.meta_bindings.is_busy
            or it.inquiries.is_busy
        )
