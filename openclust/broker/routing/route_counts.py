"""What the routes of a virtual host have counted, on its way to exchanges and queues.

A publish is counted once, by its route, whatever the number of destinations. Only when somebody looks, or when the
route is forgotten, the count is added to the exchange and to each queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.broker.routing.exchange import Exchange
    from openclust.broker.routing.route import Route

DESTINATIONS_AT_ONCE = 2_000
"""A change of the topology adds up the counts of routes with so many destinations together; the rest must wait."""
DESTINATIONS_MAX = 200_000
"""Routes with more destinations do not wait: their counts are added up at once."""


class RouteCounts:
    """Call `add` for routes in use, and `forget` for those that leave a cache."""

    __slots__ = ("_exchanges", "_forgotten", "_forgotten_destinations")

    def __init__(self, exchanges: dict[str, Exchange]) -> None:
        self._exchanges = exchanges
        self._forgotten: deque[Route] = deque()
        self._forgotten_destinations = 0

    def add(self, route: Route) -> None:
        """Give what the route has counted to its exchange and its queues. The route counts from 0 again."""
        count, route.published = route.published, 0
        if count:
            self._add(route, count)

    def add_one(self, route: Route) -> None:
        """Count a message whose route is its own, and in no cache."""
        self._add(route, 1)

    def _add(self, route: Route, count: int) -> None:
        out = 0
        for destination in route.destinations:
            out += destination.count_routed(count)
        exchange = self._exchanges.get(route.exchange)
        if exchange is not None:
            if route.enters:
                exchange.published_in += count
            exchange.published_out += out

    def forget(self, routes: Iterable[Route]) -> None:
        """These routes leave their cache. The counts of a bounded number are added up now."""
        for route in routes:
            if route.published:
                self._forgotten.append(route)
                self._forgotten_destinations += len(route.destinations)
        if self._forgotten:
            excess = self._forgotten_destinations - DESTINATIONS_MAX
            self.add_forgotten(max(DESTINATIONS_AT_ONCE, excess))

    def add_forgotten(self, destinations: int = DESTINATIONS_AT_ONCE) -> bool:
        """Add up the counts of forgotten routes with so many destinations together. Returns whether some are left."""
        forgotten = self._forgotten
        while forgotten and destinations > 0:
            route = forgotten.popleft()
            size = len(route.destinations)
            destinations -= size + 1
            self._forgotten_destinations -= size
            self.add(route)
        return bool(forgotten)
