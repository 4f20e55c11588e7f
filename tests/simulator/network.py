"""A network with one link each way per pair of brokers, as TCP makes them: ordered, late, and sometimes half there.

A link is cut or whole, which nobody is told; what is sent over a cut one comes in a burst when it is whole again. And
it is connected or not: when the receiver sees its end, it is told so and reads no more of it; when the sender does, it
dials again. A newer connection takes the place of the older, of which nothing is read any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from openclust.cluster.status import Status

QUICK_US = (50, 5_000)
"""One-way delays of a network that is well."""

REDIAL_US = (500, 200_000)
HELD_MAX = 200

Pair = tuple[str, str]


class Link:
    """One direction. `read_of` is the connection that the receiver reads."""

    __slots__ = ("connection", "delay_us", "held", "is_connected", "is_cut", "last_us", "read_of")

    def __init__(self) -> None:
        self.connection = 0
        self.read_of = 0
        self.is_connected = False
        self.is_cut = False
        self.delay_us = QUICK_US
        self.last_us = 0
        self.held: list[Status] = []


class Network:
    """`schedule(at_us, what)` runs it then; `deliver(to, connection, status)` hands it over, `lost(to, from)` tells."""

    def __init__(
        self,
        names: tuple[str, ...],
        chance: random.Random,
        schedule: Callable[[int, Callable[[], None]], None],
        deliver: Callable[[Pair, int, Status], None],
        lost: Callable[[Pair], None],
    ) -> None:
        self.links: dict[Pair, Link] = {(one, other): Link() for one in names for other in names if one != other}
        self._chance = chance
        self._schedule = schedule
        self._deliver = deliver
        self._lost = lost

    # -- what brokers do

    def send(self, pair: Pair, status: Status, now_us: int) -> None:
        link = self.links[pair]
        if not link.is_connected:
            return
        if link.is_cut:
            if len(link.held) < HELD_MAX:
                link.held.append(status)
            return
        self._fly(pair, link, status, now_us)

    def _fly(self, pair: Pair, link: Link, status: Status, now_us: int) -> None:
        link.last_us = max(now_us + self._chance.randint(*link.delay_us), link.last_us + 1)
        connection = link.connection
        self._schedule(link.last_us, lambda: self._deliver(pair, connection, status))

    def reads(self, pair: Pair, connection: int) -> bool:
        """Whether the receiver takes something from this connection; from then on it takes nothing of older ones."""
        link = self.links[pair]
        if connection < link.read_of:
            return False
        link.read_of = connection
        return True

    def dial(self, pair: Pair, now_us: int, is_up: Callable[[str], bool]) -> None:
        """Connect in a while, and try again while the way is cut or the other side down."""
        link = self.links[pair]
        link.is_connected = False
        link.held.clear()
        wanted = link.connection = link.connection + 1

        def attempt(at_us: int) -> None:
            if link.connection != wanted or not is_up(pair[0]):
                return
            if link.is_cut or self.links[pair[1], pair[0]].is_cut or not is_up(pair[1]):
                later(at_us)
                return
            link.is_connected = True
            link.last_us = at_us

        def later(from_us: int) -> None:
            at_us = from_us + self._chance.randint(*REDIAL_US)
            self._schedule(at_us, lambda: attempt(at_us))

        later(now_us)

    # -- what happens to them

    def cut(self, pair: Pair) -> None:
        self.links[pair].is_cut = True

    def mend(self, pair: Pair, now_us: int) -> None:
        """Whole again: what was sent meanwhile comes now, if nobody gave up."""
        link = self.links[pair]
        if not link.is_cut:
            return
        link.is_cut = False
        held, link.held = link.held, []
        for status in held:
            self._fly(pair, link, status, now_us)

    def end(self, pair: Pair, now_us: int, *, in_order: bool) -> None:
        """The receiver sees the end: after all that was sent before (FIN), or at once (RST), and then that is gone."""
        link = self.links[pair]
        connection = link.connection

        def seen() -> None:
            if self.reads(pair, connection):
                link.read_of = connection + 1
                self._lost(pair)

        at_us = now_us + self._chance.randint(*link.delay_us)
        self._schedule(max(at_us, link.last_us + 1) if in_order else at_us, seen)
