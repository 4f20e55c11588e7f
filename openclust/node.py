"""A node: one broker and its membership of a cluster. Events go in; a turn returns the work for its host.

After events its host calls `node.turn()`, which returns a `Ready`, and `perform(ready, host)` hands that work to the
host. The shell's server is a host; the simulator and the tests that run brokers in memory have their own.
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
    """The work of one turn, to be done in the order of the fields. Each outbox and each connection is listed once."""

    writes: list[Write]
    """For the store. Call `node.stored` when they are on disk."""
    messages: list[Outbox]
    """Outboxes with frames for peers, each to be sent over its link."""
    effects: list[Effect]
    connections: list[Connection]
    """Connections whose outboxes are to be written. Call `node.written` when all are written to their sockets."""
    farewells: list[Connection]
    """Connections that were closed: their peers have a while to answer."""


class Host(Protocol):
    """Does the work of a turn. Empty lists are not handed over, except for connections."""

    def write(self, writes: list[Write]) -> None: ...
    def send(self, messages: list[Outbox]) -> None: ...
    def effect(self, effect: Effect) -> None: ...
    def flush(self, connections: list[Connection]) -> None: ...
    def farewell(self, connection: Connection) -> None: ...


def perform(ready: Ready, host: Host) -> None:
    """Have the host do the work of a turn. The order is defined here and nowhere else."""
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
    """All times are those of one monotonic clock. After each event the host runs a turn.

    Call `beat` every heartbeat of the membership, `expire` at `expires_ms`, and `look_at_lease` at `lease_ends_ms`.
    """

    __slots__ = ("_told_digests_ms", "broker", "membership")

    def __init__(self, broker: Broker, membership: Membership) -> None:
        self.broker = broker
        self.membership = membership
        self._told_digests_ms = broker.now_ms
        broker.cluster = membership

    # -- events

    def receive(self, connection: Connection, data: bytes, now_ms: int) -> None:
        """Bytes came from a client, or over a peer's link."""
        paused_ms = now_ms - self.broker.now_ms
        self.broker.now_ms = now_ms
        if paused_ms > self.membership.heartbeat_ms:
            # After a pause this root's lease may be over: messages that it took now would reach the next root late.
            self.membership.begin_turn()
        connection.receive(data)

    def connection_lost(self, connection: Connection, now_ms: int) -> None:
        """A connection has ended, a client's or a peer's link."""
        self.broker.now_ms = now_ms
        self.broker.connection_lost(connection)
        self.membership.connection_lost(connection)

    def link_up(self, peer: str, frame_max: int, now_ms: int) -> None:
        """Our link to a peer is open; nothing was sent on it yet."""
        self.broker.now_ms = now_ms
        self.membership.link_up(peer, frame_max)

    def link_down(self, peer: str, now_ms: int) -> None:
        self.broker.now_ms = now_ms
        self.membership.link_down(peer)

    def leave(self, reason: str, now_ms: int) -> None:
        """This broker is about to end: the next turn tells its peers."""
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
        """When `expire` is due for a queue or a channel; 0 for never."""
        return self.broker.deadlines.next_ms()

    def expire(self, now_ms: int, wall_clock_ms: int) -> None:
        self.broker.set_clock(now_ms, wall_clock_ms)
        self.broker.tick(now_ms)

    @property
    def lease_ends_ms(self) -> int | None:
        """When the lease of this root ends, as far as it is known yet; None if this broker is not root."""
        membership = self.membership
        if not membership.is_primary or membership.election.role is not ElectionRole.ROOT:
            return None
        return lease_end_ms(membership.election)

    def look_at_lease(self, now_ms: int) -> None:
        """Have a root whose lease is over resign now, and not only at its next heartbeat."""
        self.broker.now_ms = now_ms
        self.membership.begin_turn()

    # -- turns

    def turn(self) -> Ready:
        """End the work of all events so far. A root whose lease is over confirms nothing. Repeat while `is_busy`."""
        membership = self.membership
        membership.begin_turn()
        self.broker.settle()
        membership.end_turn()
        messages = list(membership.links.dirty)
        membership.links.dirty.clear()
        return _ready(self.broker, membership.store_writes.take_writes(), messages)

    def stored(self, done: int, now_ms: int) -> None:
        """So many of all writes since the start are on disk."""
        self.broker.now_ms = now_ms
        self.membership.batch_commit.stored(done)

    def disk_is(self, failure: str, waiting_bytes: int, now_ms: int) -> None:
        """Call it each heartbeat, and when writes begin or cease to fail. `failure` is why they fail, empty if not."""
        self.broker.now_ms = now_ms
        self.membership.disk_health.waits(waiting_bytes)
        self.membership.batch_commit.look_at_disk(failure)

    def written(self) -> None:
        """All outboxes of this turn are written to their sockets: publishers that waited for that go on."""
        self.broker.turn_done()

    @property
    def is_busy(self) -> bool:
        """Whether work is left for another turn."""
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
