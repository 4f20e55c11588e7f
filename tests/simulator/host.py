"""A simulated broker that runs a whole node: what is connected to it, and how it says that a failure is its own."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from openclust.broker.amqp.connection import Connection
from openclust.cluster.election.lease import serves
from openclust.cluster.membership.control import Control
from openclust.cluster.protocol.messages import Lane
from openclust.cluster.protocol.status import Position
from openclust.cluster.relay.lanes import Reach
from openclust.cluster.relay.relay_lane import RelayLane
from openclust.node import Node
from tests.simulator.broker import Broker
from tests.simulator.disk import Disk
from tests.simulator.ledger import Ledger
from tests.simulator.network import Pair
from tests.simulator.writing import Writing

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership
    from tests.simulator.application import Application


class Ear:
    """The receiving end of the link of a peer, in one of its lives: a newer one's takes its place, or it ends."""

    __slots__ = ("connection", "life", "number", "pair")

    def __init__(self, pair: Pair, number: int, life: int, connection: Connection) -> None:
        self.pair = pair
        self.number = number
        self.life = life
        self.connection = connection


class Host(Broker):
    """`up` are the peers to which it was told that it has a link; `wanted` those that it dials; `heard` says in which
    of their lives peers said what it heard last.

    Without `has_disk` only its vote outlives it, and of a secondary, the name of a cluster that has disks.
    """

    def __init__(
        self, name: str, disk: Disk, chance: random.Random, *, is_primary: bool, has_disk: bool = False
    ) -> None:
        self.is_primary = is_primary
        self.has_disk = has_disk
        self.stalled_us = 0
        super().__init__(name, disk, chance)

    def reset(self) -> None:
        super().reset()
        self.node: Node | None = None
        self.writing: Writing | None = None
        self.ears: dict[tuple[Pair, int], Ear] = {}
        self.heard: dict[str, int] = {}
        self.up: set[str] = set()
        self.wanted: set[str] = set()
        self.applications: dict[Application, None] = {}
        self.checked = Position()
        self.names = 0
        self.goes_on = False

    @property
    def is_up(self) -> bool:  # type: ignore[override]
        return self.node is not None

    @property
    def running(self) -> Node:
        assert self.node is not None, "only who is up is asked"
        return self.node

    def unguessable(self) -> str:
        self.names += 1
        return f"{self.name}-{self.life}-{self.names}"

    @property
    def is_root(self) -> bool:
        """Whether it takes itself for root, perhaps for longer than it may."""
        return self.node is not None and self.node.membership.is_root

    def serves(self, now_us: int) -> bool:
        return self.is_root and serves(self.running.membership.election, self.clock.monotonic_ms(now_us))

    def describe(self) -> str:
        if self.node is None:
            return self.name
        it = self.node.membership
        text = f"{self.name} has root {it.root or 'none'} of epoch {it.epoch}, log at {it.replica.position}"
        text += (
            f", links up to {' '.join(sorted(self.up)) or 'none'}, hears {' '.join(sorted(it.admission.connections))}"
        )
        text += f", asks {len(it.root_requests)}, keeps {it.forwarding.waiting} messages"
        if self.is_primary:
            election = it.election
            text += (
                f"; {election.role.value}, senior since {election.seniority.stamp_ms}, stands in {election.stands_in}, "
                f"vote {election.vote}, promised {election.promised}"
            )
        return text


class WatchedLane(RelayLane):
    """A lane whose messages are entered in the ledger when they arrive."""

    __slots__ = ("host", "ledger")

    host: Host
    ledger: Ledger

    def publish(self, arguments: bytes, header: bytes, body: bytes) -> None:
        if b"x-death" not in header:
            # A dead letter is a message anew, and may be one for where it was published first.
            self.ledger.arrived(self.host.name, self.host.life, body, self.reach)
        super().publish(arguments, header, body)

    def publish_run(self, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        taken = super().publish_run(arguments, properties, bodies)
        if b"x-death" not in properties:
            for body in bodies[:taken]:
                self.ledger.arrived(self.host.name, self.host.life, body, self.reach)
        return taken


class WatchingControl(Control):
    """Opens watched lanes."""

    def __init__(self, membership: Membership, host: Host, ledger: Ledger) -> None:
        it = membership
        super().__init__(it.lasting, it.leadership, it.relay, it.inquiries, it.admission, it.presences, it)
        self._watched_host = host
        self._ledger = ledger

    def _open_lane(self, connection: Connection, peer: str, lane: Lane) -> None:
        super()._open_lane(connection, peer, lane)
        channel = connection.channels[lane.number]
        if type(channel) is RelayLane and channel.reach & (Reach.PRIVATE | Reach.SHARED):
            watched = WatchedLane(connection, self._relay, peer, lane)
            watched.host, watched.ledger = self._watched_host, self._ledger
            connection.channels[lane.number] = watched
