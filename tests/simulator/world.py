"""Time, a network, and brokers on it: what happens in which order. One seed, one run.

What runs in the brokers is up to the kind of world: bare elections, or whole nodes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

from openclust.cluster.election.view import Terms
from openclust.cluster.protocol.status import Reign
from tests.simulator.broker import Broker, Waiting
from tests.simulator.network import Network, Pair

TRACE_MAX = 60
NEVER = 2**62


class World:
    """`on_turn` is asked after every vote and where a root begins: the moments at which a failure hurts most."""

    brokers: Mapping[str, Broker]

    def __init__(
        self,
        chance: random.Random,
        terms: Terms,
        names: tuple[str, ...],
        pairs: Iterable[Pair],
        tell: Callable[[str], None] | None,
    ) -> None:
        self.chance = chance
        self.terms = terms
        self.names = names
        self.now_us = 0
        self.steps = 0
        self.roots: dict[int, str] = {}
        """Who was told to serve, by epoch, in all of the run."""
        self.network = Network(pairs, chance, self)
        self.on_turn: Callable[[Broker], None] = lambda broker: None
        self.on_crash: Callable[[Broker], None] = lambda broker: None
        self.is_calm = False
        self.trace: deque[tuple[int, str, object]] = deque(maxlen=TRACE_MAX)
        self.tell = tell
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    # -- time

    def at(self, at_us: int, what: Callable[[], None]) -> None:
        self._sequence += 1
        heappush(self._queue, (at_us, self._sequence, what))

    def after(self, least_us: int, most_us: int, what: Callable[[], None]) -> None:
        # As `at` does it: this is the way of most.
        self._sequence += 1
        heappush(self._queue, (self.now_us + self.chance.randint(least_us, most_us), self._sequence, what))

    def run(
        self, *, until_us: int | None = None, steps: int | None = None, stop: Callable[[], bool] | None = None
    ) -> bool:
        """Go on until the time, or the number of steps from now, or until `stop` says so: only then True."""
        queue = self._queue
        end_us = NEVER if until_us is None else until_us
        last = NEVER if steps is None else self.steps + steps
        while queue and self.steps < last:
            if queue[0][0] > end_us:
                self.now_us = end_us
                break
            self.now_us, _, what = heappop(queue)
            what()
            if stop is not None and stop():
                return True
        return False

    def wait(self, stop: Callable[[], bool], within_us: int) -> bool:
        """Go on until it says so, if that is in time."""
        return stop() or self.run(until_us=self.now_us + within_us, stop=stop)

    def note(self, who: str, what: object) -> None:
        self.trace.append((self.now_us, who, what))
        if self.tell is not None:
            self.tell(self.line((self.now_us, who, what)))

    def line(self, traced: tuple[int, str, object]) -> str:
        """One line of a trace."""
        at_us, who, what = traced
        return f"{at_us / 1000:12.3f} ms  {who:4} {what}"

    # -- lives

    def start(self, name: str) -> None:
        raise NotImplementedError

    def crash(self, name: str) -> None:
        raise NotImplementedError

    def step_down(self, name: str) -> None:
        raise NotImplementedError

    def stop(self, name: str) -> None:
        """It ends as an operator ends it."""
        self.crash(name)

    def stall(self, name: str, for_us: int) -> None:
        """Its loop stands still: what comes waits, and is then taken all at once."""
        broker = self.brokers[name]
        broker.stalled_until_us = max(broker.stalled_until_us, self.now_us + for_us)
        self.note(name, f"stalls for {for_us // 1000} ms")
        life = broker.life
        self.at(broker.stalled_until_us, lambda: self.go_on(broker, life))

    def later(self, broker: Broker, least_us: int, most_us: int, event: Waiting) -> None:
        life = broker.life
        self.after(least_us, most_us, lambda: self.give(broker, life, event))

    def give(self, broker: Broker, life: int, event: Waiting) -> None:
        """Have the broker handle it, now or when it comes to it."""
        if broker.life != life or not broker.is_up:
            return
        if broker.is_busy(self.now_us) or broker.inbox:
            # Nothing overtakes what waits, where it comes to itself at this very moment.
            broker.inbox.append(event)
        else:
            self.handle(broker, event)

    def handle(self, broker: Any, waiting: Waiting) -> None:
        raise NotImplementedError

    def go_on(self, broker: Any, life: int) -> None:
        """The broker has come to itself."""
        raise NotImplementedError

    # -- the network's questions

    def dials(self, pair: Pair) -> bool:
        return self.brokers[pair[0]].is_up

    def accepts(self, pair: Pair) -> bool:
        return self.brokers[pair[1]].is_up

    def connected(self, pair: Pair, number: int) -> None:
        raise NotImplementedError

    def deliver(self, pair: Pair, number: int, sent: Any) -> None:
        raise NotImplementedError

    def ended(self, pair: Pair, number: int) -> None:
        raise NotImplementedError

    def lost(self, pair: Pair, now_us: int) -> None:
        raise NotImplementedError

    def reconnect(self) -> None:
        """Senders notice at once which of their links have ended without a word."""
        raise NotImplementedError

    # -- who leads

    def serving(self) -> str:
        return next((name for name in self.terms.primaries if self.brokers[name].serves(self.now_us)), "")

    def reign_of(self, broker: Any) -> Reign | None:
        """The root it has, itself included."""
        raise NotImplementedError

    def root(self) -> str:
        """Who serves now and is followed by all who are up; empty if there is no such broker."""
        serving = [name for name in self.terms.primaries if self.brokers[name].serves(self.now_us)]
        if len(serving) != 1:
            return ""
        reign = self.reign_of(self.brokers[serving[0]])
        up = [broker for broker in self.brokers.values() if broker.is_up]
        return serving[0] if all(self.reign_of(broker) == reign for broker in up) else ""

    def describe(self) -> Iterable[str]:
        for broker in self.brokers.values():
            yield broker.describe() if broker.is_up else f"{broker.name} is down"


def ring(names: tuple[str, ...]) -> list[Pair]:
    """Every broker to its next."""
    return list(pairwise((*names, names[0]))) if len(names) > 1 else []
