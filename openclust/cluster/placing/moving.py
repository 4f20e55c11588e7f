"""Moving clients away: those beyond this broker's share, or all of them while it drains.

A client is moved by closing its connection with 320 and a text that names the target; it comes back and is placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.amqp.placement import Reason, moved
from openclust.cluster.placing.placing import Placing, address
from openclust.cluster.placing.rebalance import Rebalance, astray, leaving, movable
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from openclust.wire.errors import CONNECTION_FORCED

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.server.broker import Broker


class Moved(msgspec.Struct, frozen=True):
    """The outcome of a round: `count` clients were moved, or would have been in a dry run."""

    count: int
    reason: Reason
    is_dry: bool = False


class Moving:
    """Call `round` once a second, with the current roster and the number of clients here."""

    def __init__(self, broker: Broker, name: str, placing: Placing) -> None:
        self._broker = broker
        self._name = name
        self._placing = placing
        self._settings: Redirect = placing.settings
        self._rebalance = Rebalance(name, placing.settings)

    def round(self, roster: Roster, own: int, now_ms: int, *, is_draining: bool) -> Moved:
        """Move as many clients as may go now, the youngest connections first: they have the least to lose."""
        self._placing.heard(roster, now_ms)
        surplus = self._rebalance.surplus(roster, own, now_ms)
        youngest = list(reversed(self._broker.connections))
        if is_draining:
            return Moved(self._empty(leaving(youngest)), "draining")
        strayed = self._follow_root(roster, youngest)
        if strayed:
            return Moved(strayed, "rebalancing")
        targets = self._placing.plan(surplus, own)
        if self._settings.rebalance_dry_run:
            return Moved(len(targets), "rebalancing", is_dry=True)
        return Moved(self._spread(movable(youngest, self._settings), targets), "rebalancing")

    def _follow_root(self, roster: Roster, youngest: Iterable[Connection]) -> int:
        """Move clients that have asked for the root to where it is now; returns how many."""
        root = roster.find(roster.root)
        settings = self._settings
        if root is None or root.name == self._name or not settings.rebalance or settings.rebalance_dry_run:
            return 0
        going = list(islice(astray(youngest, settings), settings.rebalance_per_s))
        for connection in going:
            _move(connection, root, "rebalancing")
        return len(going)

    def _empty(self, candidates: Iterator[Connection]) -> int:
        number = 0
        for connection in list(islice(candidates, self._settings.drain_per_s)):
            target = self._placing.best(connection.peer.is_tls)
            if target is not None:
                self._placing.sent(target)
                _move(connection, target, "draining")
                number += 1
        return number

    @staticmethod
    def _spread(candidates: Iterator[Connection], targets: list[BrokerInfo]) -> int:
        # They are not counted as underway here: they come back to be placed, and are counted then.
        followers = (each for each in candidates if address(targets[0], each.peer.is_tls))
        pairs = list(zip(targets, followers, strict=False))
        for target, connection in pairs:
            _move(connection, target, "rebalancing")
        return len(pairs)


def _move(connection: Connection, target: BrokerInfo, reason: Reason) -> None:
    connection.close(CONNECTION_FORCED, moved(address(target, connection.peer.is_tls), reason))
