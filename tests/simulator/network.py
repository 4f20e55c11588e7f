"""A network with one link each way per pair of brokers, as TCP makes them: ordered, late, and sometimes half there.

A link is cut or whole, which nobody is told; what is sent over a cut one comes in a burst when it is whole again,
unless the sender gives it up before. And it is connected or not: when the receiver sees its end, it is told so; when
the sender does, it dials again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Protocol

QUICK_US = (50, 5_000)
"""One-way delays of a network that is well."""

REDIAL_US = (500, 200_000)
SILENCE_US = 2_000_000
"""How long what was sent may stay on a cut link before the sender gives it up, as the shell's links do."""

Pair = tuple[str, str]


class Ends(Protocol):
    """The brokers, as the network knows them. Connections of a pair are numbered."""

    def at(self, at_us: int, what: Any) -> None:
        """Do it then."""

    def dials(self, pair: Pair) -> bool:
        """Whether the first wants a link to the second."""

    def accepts(self, pair: Pair) -> bool:
        """Whether the second can take one now."""

    def connected(self, pair: Pair, number: int) -> None:
        """There it is."""

    def deliver(self, pair: Pair, number: int, sent: Any) -> None:
        """Something arrives at the second."""

    def ended(self, pair: Pair, number: int) -> None:
        """The second sees that the link has ended."""

    def lost(self, pair: Pair, now_us: int) -> None:
        """The first sees it: it has to dial again."""


class Link:
    """One direction."""

    __slots__ = ("connection", "delay_us", "held", "held_since_us", "is_connected", "is_cut", "last_us")

    def __init__(self) -> None:
        self.connection = 0
        self.is_connected = False
        self.is_cut = False
        self.delay_us = QUICK_US
        self.last_us = 0
        self.held: list[Any] = []
        self.held_since_us = 0


class Network:
    def __init__(self, pairs: Iterable[Pair], chance: random.Random, ends: Ends) -> None:
        self.links: dict[Pair, Link] = {pair: Link() for pair in pairs}
        self._chance = chance
        self._ends = ends

    # -- what brokers do

    def send(self, pair: Pair, sent: Any, now_us: int) -> None:
        link = self.links[pair]
        if not link.is_connected:
            return
        if link.is_cut:
            if not link.held:
                link.held_since_us = now_us
            elif now_us - link.held_since_us > SILENCE_US:
                self.drop(pair)
                self._ends.lost(pair, now_us)
                return
            link.held.append(sent)
            return
        self._fly(pair, link, sent, now_us)

    def _fly(self, pair: Pair, link: Link, sent: Any, now_us: int) -> None:
        link.last_us = max(now_us + self._chance.randint(*link.delay_us), link.last_us + 1)
        connection = link.connection
        self._ends.at(link.last_us, lambda: self._ends.deliver(pair, connection, sent))

    def drop(self, pair: Pair) -> None:
        """The sender sends no more."""
        link = self.links[pair]
        link.is_connected = False
        link.held.clear()

    def dial(self, pair: Pair, now_us: int) -> None:
        """Connect in a while, and try again while the way is cut or the other side cannot."""
        self.drop(pair)
        link = self.links[pair]
        wanted = link.connection = link.connection + 1

        def attempt(at_us: int) -> None:
            if link.connection != wanted or not self._ends.dials(pair):
                return
            if link.is_cut or self.links[pair[1], pair[0]].is_cut or not self._ends.accepts(pair):
                later(at_us)
                return
            link.is_connected = True
            link.last_us = at_us
            self._ends.connected(pair, wanted)

        def later(from_us: int) -> None:
            at_us = from_us + self._chance.randint(*REDIAL_US)
            self._ends.at(at_us, lambda: attempt(at_us))

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
        for each in held:
            self._fly(pair, link, each, now_us)

    def end(self, pair: Pair, now_us: int, *, in_order: bool) -> None:
        """The receiver sees the end: after all that was sent before (FIN), or at once (RST), and then that is gone."""
        link = self.links[pair]
        if not link.is_connected:
            # What is being dialled has no end yet.
            return
        connection = link.connection
        at_us = now_us + self._chance.randint(*link.delay_us)
        at_us = max(at_us, link.last_us + 1) if in_order else at_us
        self._ends.at(at_us, lambda: self._ends.ended(pair, connection))
