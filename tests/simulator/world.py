"""Brokers, their network, clocks and disks, and the order in which everything happens: one seed, one run."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable
from itertools import pairwise

from openclust.cluster.events import (
    Answer,
    CaughtUp,
    Effect,
    Event,
    Follow,
    NoRoot,
    PeerLost,
    PersistVote,
    Ready,
    Resign,
    Serve,
    StatusHeard,
    StepDown,
    TakeOver,
    Tell,
    Tick,
)
from openclust.cluster.status import Status
from openclust.cluster.view import Terms
from tests.simulator.broker import Broker, Waiting
from tests.simulator.disk import Disk
from tests.simulator.invariants import Invariants, Violation
from tests.simulator.member import BareElection, Starter
from tests.simulator.network import Network, Pair

TRACE_MAX = 60
TAKE_OVER_PATIENCE_MS = 1_000
"""After so long a node gives up taking over, and steps down."""


class World:
    """`on_turn` is asked after every Serve and every vote: the moments at which a failure hurts most."""

    def __init__(
        self,
        seed: int,
        primaries: int,
        *,
        start: Starter = BareElection,
        disk: type[Disk] = Disk,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.chance = random.Random(seed)
        self.terms = Terms(primaries=tuple(f"p{number}" for number in range(1, primaries + 1)))
        self.now_us = 0
        self.steps = 0
        self.invariants = Invariants()
        self.brokers = {name: Broker(name, disk(name), self.chance) for name in self.terms.primaries}
        self.network = Network(self.terms.primaries, self.chance, self.at, self._deliver, self._lost)
        self.on_turn: Callable[[Broker], None] = lambda broker: None
        self.on_crash: Callable[[Broker], None] = lambda broker: None
        self.is_calm = False
        self.trace: deque[tuple[int, str, object]] = deque(maxlen=TRACE_MAX)
        self._tell = tell
        self._start = start
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    # -- time

    def at(self, at_us: int, what: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (at_us, self._sequence, what))

    def after(self, least_us: int, most_us: int, what: Callable[[], None]) -> None:
        self.at(self.now_us + self.chance.randint(least_us, most_us), what)

    def run(
        self, *, until_us: int | None = None, steps: int | None = None, stop: Callable[[], bool] | None = None
    ) -> bool:
        """Go on until the time, or the number of steps from now, or until `stop` says so: only then True."""
        last = None if steps is None else self.steps + steps
        while self._queue and (last is None or self.steps < last):
            if until_us is not None and self._queue[0][0] > until_us:
                self.now_us = until_us
                break
            self.now_us, _, what = heapq.heappop(self._queue)
            what()
            if stop is not None and stop():
                return True
        return False

    def note(self, who: str, what: object) -> None:
        self.trace.append((self.now_us, who, what))
        if self._tell is not None:
            self._tell(line((self.now_us, who, what)))

    # -- lives

    def start(self, name: str) -> None:
        broker = self.brokers[name]
        if broker.is_up:
            return
        clock = broker.clock
        vote = broker.disk.vote
        broker.member = self._start(self.terms, name, clock.wall_ms(self.now_us), clock.monotonic_ms(self.now_us), vote)
        self.invariants.began(name, vote)
        self.note(name, f"starts with {vote}")
        slow = not self.is_calm and self.chance.random() < 0.1
        self.later(broker, 100, 3_000_000 if slow else 50_000, Ready)
        self._tick(broker, broker.life)
        for other in self.terms.primaries:
            if other != name:
                for pair in ((name, other), (other, name)):
                    self.network.dial(pair, self.now_us, self._is_up)

    def crash(self, name: str) -> None:
        """It is gone; each peer sees it at once, after reading what was sent, or not at all."""
        broker = self.brokers[name]
        if not broker.is_up:
            return
        broker.reset()
        self.note(name, "crashes")
        self.on_crash(broker)
        for other in self.terms.primaries:
            if other != name:
                seen = self.chance.random()
                if seen < 0.8:
                    self.network.end((name, other), self.now_us, in_order=seen < 0.4)
                self.network.links[other, name].is_connected = False

    def step_down(self, name: str) -> None:
        broker = self.brokers[name]
        self.give(broker, broker.life, lambda now_ms: StepDown(now_ms, "somebody says so"))

    def stall(self, name: str, for_us: int) -> None:
        """Its loop stands still: what comes waits, and is then taken all at once."""
        broker = self.brokers[name]
        broker.stalled_until_us = max(broker.stalled_until_us, self.now_us + for_us)
        self.note(name, f"stalls for {for_us // 1000} ms")
        life = broker.life
        self.at(broker.stalled_until_us, lambda: self._go_on(broker, life))

    def _is_up(self, name: str) -> bool:
        return self.brokers[name].is_up

    # -- events

    def later(self, broker: Broker, least_us: int, most_us: int, event: Waiting) -> None:
        life = broker.life
        self.after(least_us, most_us, lambda: self.give(broker, life, event))

    def give(self, broker: Broker, life: int, event: Waiting) -> None:
        if broker.life != life or not broker.is_up:
            return
        if broker.is_busy(self.now_us):
            broker.inbox.append(event)
        else:
            self._handle(broker, event)

    def _go_on(self, broker: Broker, life: int) -> None:
        """The loop, or the disk, has come to itself."""
        while broker.life == life and not broker.is_busy(self.now_us):
            self._perform(broker)
            if broker.life != life or broker.is_busy(self.now_us) or not broker.inbox:
                break
            self._handle(broker, broker.inbox.popleft())

    def _handle(self, broker: Broker, waiting: Waiting) -> None:
        member = broker.member
        assert member is not None, "only who is up handles events"
        event = waiting(broker.clock.monotonic_ms(self.now_us))
        if event is None:
            return
        self.steps += 1
        self.note(broker.name, event)
        effects = self._step(broker, event)
        self.invariants.stepped(broker.name, effects)
        self.invariants.alone(broker.name, self.now_us, self.brokers.values())
        self._wake(broker)
        broker.effects += effects
        self._perform(broker)

    def _step(self, broker: Broker, event: Event) -> list[Effect]:
        assert broker.member is not None, "only who is up is stepped"
        try:
            return broker.member.step(event)
        except Exception as error:
            raise Violation(f"{broker.name} fails at {event}: {error!r}") from error

    def _tick(self, broker: Broker, life: int) -> None:
        def tick(now_ms: int) -> Event:
            self.at(
                broker.clock.true_us(now_ms + self.terms.heartbeat_ms),
                lambda: self.give(broker, life, tick),
            )
            return Tick(now_ms)

        self.give(broker, life, tick)

    def _wake(self, broker: Broker) -> None:
        """A root has to know when its lease ends."""
        wakes_ms = broker.member.wakes_ms() if broker.member is not None else None
        if wakes_ms is None or wakes_ms > 2**61 or broker.wakes_at_us > self.now_us:
            return
        broker.wakes_at_us = max(broker.clock.true_us(wakes_ms + 1), self.now_us + 1)
        life = broker.life

        def wake(now_ms: int) -> Event | None:
            late = broker.member.wakes_ms() if broker.member is not None else None
            if late is not None and late >= now_ms:
                self._wake(broker)
                return None
            return Tick(now_ms)

        self.at(broker.wakes_at_us, lambda: self.give(broker, life, wake))

    # -- effects

    def _perform(self, broker: Broker) -> None:
        """One after the other; what comes after a vote waits until that is on disk."""
        life = broker.life
        while broker.effects and not broker.is_writing and self.now_us >= broker.stalled_until_us:
            effect = broker.effects.popleft()
            self._do(broker, effect)
            if broker.life != life:
                return

    def _do(self, broker: Broker, effect: Effect) -> None:
        match effect:
            case PersistVote():
                self._write(broker, effect)
            case Tell():
                for other in self.terms.primaries:
                    if other != broker.name:
                        self._send((broker.name, other), effect.status)
            case Answer():
                self._send((broker.name, effect.name), effect.status)
            case TakeOver():
                self.note(broker.name, effect)
                self._take_over(broker, effect.epoch)
            case Serve():
                self.note(broker.name, effect)
                self.on_turn(broker)
            case Resign() | Follow() | NoRoot():
                self.note(broker.name, effect)

    def _send(self, pair: Pair, status: Status) -> None:
        broker = self.brokers[pair[0]]
        self.invariants.sends(broker.name, status.vote, broker.disk.vote)
        self.network.send(pair, status, self.now_us)

    def _write(self, broker: Broker, effect: PersistVote) -> None:
        broker.is_writing = True
        life = broker.life

        def written() -> None:
            if broker.life != life:
                return
            if broker.crashes_at_vote == "before it is on disk":
                self.crash(broker.name)
                return
            broker.disk.write(effect.vote)
            self.note(broker.name, effect)
            if broker.crashes_at_vote:
                self.crash(broker.name)
                return
            broker.is_writing = False
            self.on_turn(broker)
            self._go_on(broker, life)
            self._perform(broker)

        self.after(*broker.write_us, written)

    def _take_over(self, broker: Broker, epoch: int) -> None:
        broker.takes_over = epoch
        if self.is_calm or self.chance.random() < 0.9:
            self.later(broker, 0, 10_000 if self.is_calm else 200_000, lambda now_ms: CaughtUp(now_ms, epoch))
            return
        patience_us = TAKE_OVER_PATIENCE_MS * 1000

        def give_up(now_ms: int) -> Event | None:
            return StepDown(now_ms, f"nobody gives epoch {epoch}") if broker.takes_over == epoch else None

        self.later(broker, patience_us, patience_us, give_up)

    # -- what the network says

    def _deliver(self, pair: Pair, connection: int, status: Status) -> None:
        broker = self.brokers[pair[1]]

        def heard(now_ms: int) -> Event | None:
            return StatusHeard(now_ms, status) if self.network.reads(pair, connection) else None

        self.give(broker, broker.life, heard)

    def _lost(self, pair: Pair) -> None:
        broker = self.brokers[pair[1]]
        self.give(broker, broker.life, lambda now_ms: PeerLost(now_ms, pair[0]))

    # -- who leads

    def root(self) -> str:
        """Who serves now and is followed by all who are up; empty if there is no such broker."""
        serving = [broker for broker in self.brokers.values() if broker.serves(self.now_us)]
        if len(serving) != 1:
            return ""
        reign = serving[0].reign()
        return serving[0].name if all(each.reign() == reign for each in self.brokers.values() if each.is_up) else ""

    def serving(self) -> str:
        return next((broker.name for broker in self.brokers.values() if broker.serves(self.now_us)), "")

    def describe(self) -> Iterable[str]:
        for broker in self.brokers.values():
            yield broker.member.describe() if broker.member is not None else f"{broker.name} is down"


def line(traced: tuple[int, str, object]) -> str:
    """One line of a trace."""
    at_us, who, what = traced
    if isinstance(what, StatusHeard):
        what = f"at {what.now_ms} hears {_brief(what.status)}"
    return f"{at_us / 1000:12.3f} ms  {who:4} {what}"


def _brief(status: Status) -> str:
    heard = " ".join(f"{name}:{number}" for name, number in status.heard.items())
    vote = f"{status.vote.root}/{status.vote.epoch}" if status.vote else "none"
    reign = f"{status.reign.root}/{status.reign.epoch}" if status.reign else "none"
    stands = f" stands in {status.stands_in}," if status.stands_in else ""
    return f"{status.name}#{status.number} {status.phase},{stands} vote {vote}, reign {reign}, heard {heard}"


def ring(names: tuple[str, ...]) -> list[Pair]:
    """Every broker to its next."""
    return list(pairwise((*names, names[0]))) if len(names) > 1 else []
