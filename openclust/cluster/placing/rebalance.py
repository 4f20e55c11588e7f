"""How many of its clients a broker moves, and which: only those beyond its share, and as few as will do.

Every broker decides for itself, from a roster that is a second old and that the others act on too. Hence three rules:
no broker moves clients until the brokers have been the same for a while; clients on their way count as arrived; and a
broker that has come down to its share rests until it is well above it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from openclust.broker.amqp.placement import PROXIED
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import Roster
from openclust.wire.handshake import State

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection

ROUND_MS = 1_000
SETTLE_MS = 5_000
"""No client is moved before the brokers and the root have been the same for this long."""

TOTAL_WINDOW_MS = 5_000
"""Clients that move are counted nowhere for a moment: the largest total of this time, or since moving began, counts."""

SPARE_CLIENTS = 2
"""A broker has at least this many clients beyond its share before it moves any."""

SCANNED_MAX = 20_000
"""In one round at most this many connections are looked at for clients that may be moved."""


class Rebalance:
    """Ask `surplus` in every round: it remembers what it was asked before."""

    def __init__(self, name: str, settings: Redirect) -> None:
        self._name = name
        self._settings = settings
        self._is_moving = False
        self._place: tuple[object, ...] = ()
        self._settled_ms = 0
        self._totals: deque[tuple[int, int]] = deque()

    def surplus(self, roster: Roster, own: int, now_ms: int) -> int:
        """How many of the `own` clients to move now, at most `rebalance_per_s`."""
        settings = self._settings
        if not self._is_settled(roster, now_ms) or settings.mode == "off" or not settings.rebalance:
            self._is_moving = False
            return 0
        if settings.mode == "active-passive":
            away = own if roster.root not in ("", self._name) else 0
            return min(away, settings.rebalance_per_s)
        share = self._share(roster, own, now_ms)
        if own >= share + max(SPARE_CLIENTS, share * settings.rebalance_threshold / 100):
            self._is_moving = True
        # A share is a fraction; the client that is above it only in part stays.
        beyond = max(0, int(own - share))
        if self._is_moving and not beyond:
            self._is_moving = False
            # The clients that were moved last are still on their way.
            self._totals[0] = (now_ms, self._totals[0][1])
        return min(beyond, settings.rebalance_per_s) if self._is_moving else 0

    def _is_settled(self, roster: Roster, now_ms: int) -> bool:
        """Whether the same brokers, this one among them, have been taking clients for a while."""
        taking = tuple((each.name, each.weight) for each in roster.brokers if not each.is_draining)
        place = (roster.root, taking)
        if place != self._place:
            self._place = place
            self._settled_ms = now_ms + SETTLE_MS
            self._totals.clear()
        is_among = any(name == self._name for name, _ in taking)
        # Without a root the roster is not kept up.
        return roster.root != "" and is_among and len(taking) > 1 and now_ms >= self._settled_ms

    def _share(self, roster: Roster, own: int, now_ms: int) -> float:
        """How many clients would be here, if all brokers had their share."""
        taking = [each for each in roster.brokers if not each.is_draining]
        others = sum(each.connections for each in taking if each.name != self._name)
        total = own + others
        while self._totals and self._totals[-1][1] <= total:
            self._totals.pop()  # smaller and older: it will never be the largest again
        self._totals.append((now_ms, total))
        while not self._is_moving and self._totals[0][0] < now_ms - TOTAL_WINDOW_MS:
            self._totals.popleft()
        weights = sum(self._settings.weight if each.name == self._name else each.weight for each in taking)
        return self._totals[0][1] * self._settings.weight / weights


def movable(connections: Iterable[Connection], settings: Redirect) -> Iterator[Connection]:
    """The clients among `connections` that can follow when they are moved, in the same order."""
    for each in islice(connections, SCANNED_MAX):
        # A client that cannot be redirected would come back and be accepted; one that wants the root is sent back.
        if _follows(each, settings) and not wants_root(each):
            yield each


def astray(connections: Iterable[Connection], settings: Redirect) -> Iterator[Connection]:
    """The clients that have asked for the root, at a broker that is not root any more."""
    return (each for each in islice(connections, SCANNED_MAX) if wants_root(each) and _follows(each, settings))


def wants_root(connection: Connection) -> bool:
    return connection.client_properties.get("connect_to") == "root"


def _follows(connection: Connection, settings: Redirect) -> bool:
    follows = connection.can("connection.redirect") or settings.fallback == "close"
    return follows and _is_free(connection) and connection.client_properties.get(PROXIED) is not True


def leaving(connections: Iterable[Connection]) -> Iterator[Connection]:
    """The clients among `connections` that a draining broker sends away, in the same order."""
    return filter(_is_free, connections)


def _is_free(connection: Connection) -> bool:
    """Whether the client is an application that does not insist on this broker."""
    if connection.state is not State.OPEN or connection.stays:
        return False
    return connection.user.type == "normal" and not connection.peer.is_peer
