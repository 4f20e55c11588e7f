"""Bare elections: many more runs a second than whole nodes, and every step of the state machine is looked at."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from openclust.cluster.election.events import (
    CaughtUp,
    ElectionEffect,
    Event,
    Follow,
    NoRoot,
    PeerLost,
    PersistVote,
    Resign,
    Serve,
    StatusHeard,
    StepDown,
    StoreRead,
    TakeOver,
    Tell,
    TellPeer,
    Tick,
)
from openclust.cluster.election.view import Terms
from openclust.cluster.protocol.status import Reign, Status
from tests.simulator.broker import Broker, Waiting
from tests.simulator.disk import Disk
from tests.simulator.invariants import Invariants, Violation
from tests.simulator.member import BareElection
from tests.simulator.network import Pair
from tests.simulator.world import World

TAKE_OVER_PATIENCE_MS = 1_000
"""After so long a node gives up taking over, and steps down."""


class Elector(Broker):
    """`waits_for_disk`: whether its loop stands still while it writes, or only the effects after it wait."""

    def __init__(self, name: str, disk: Disk, chance: random.Random) -> None:
        super().__init__(name, disk, chance)
        self.waits_for_disk = chance.random() < 0.5

    def reset(self) -> None:
        super().reset()
        self.member: BareElection | None = None
        self.effects: deque[ElectionEffect] = deque()
        self.is_writing = False
        self.takes_over = 0

    @property
    def is_up(self) -> bool:  # type: ignore[override]
        return self.member is not None

    def is_busy(self, now_us: int) -> bool:
        return super().is_busy(now_us) or (self.is_writing and self.waits_for_disk)

    def serves(self, now_us: int) -> bool:
        return self.member is not None and self.member.serves(self.clock.monotonic_ms(now_us))

    def describe(self) -> str:
        return self.member.describe() if self.member is not None else self.name


class Elections(World):
    brokers: dict[str, Elector]

    def __init__(
        self,
        seed: int,
        primaries: int,
        *,
        disk: type[Disk] = Disk,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        chance = random.Random(seed)
        terms = Terms(primaries=tuple(f"p{number}" for number in range(1, primaries + 1)))
        names = terms.primaries
        super().__init__(chance, terms, names, [(a, b) for a in names for b in names if a != b], tell)
        self.invariants = Invariants(self.roots)
        self.brokers = {name: Elector(name, disk(name), chance) for name in names}
        # The connection that the receiver of each link reads: a newer one takes the place of the older.
        self._read: dict[Pair, int] = dict.fromkeys(self.network.links, 0)

    # -- lives

    def start(self, name: str) -> None:
        broker = self.brokers[name]
        if broker.is_up:
            return
        clock = broker.clock
        vote = broker.disk.vote
        broker.member = BareElection(
            self.terms, name, clock.wall_ms(self.now_us), clock.monotonic_ms(self.now_us), vote
        )
        self.invariants.began(name, vote)
        self.note(name, f"starts with {vote}")
        slow = not self.is_calm and self.chance.random() < 0.1
        self.later(broker, 100, 3_000_000 if slow else 50_000, StoreRead)
        self._tick(broker, broker.life)
        for other in self.terms.primaries:
            if other != name:
                for pair in ((name, other), (other, name)):
                    self.network.dial(pair, self.now_us)

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
                self.network.drop((other, name))

    def step_down(self, name: str) -> None:
        broker = self.brokers[name]
        self.give(broker, broker.life, lambda now_ms: StepDown(now_ms, "somebody says so"))

    # -- events

    def go_on(self, broker: Elector, life: int) -> None:
        """The loop, or the disk, has come to itself."""
        while broker.life == life and not broker.is_busy(self.now_us):
            self._perform(broker)
            if broker.life != life or broker.is_busy(self.now_us) or not broker.inbox:
                break
            self.handle(broker, broker.inbox.popleft())

    def handle(self, broker: Elector, waiting: Waiting) -> None:
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

    def _step(self, broker: Elector, event: Event) -> list[ElectionEffect]:
        assert broker.member is not None, "only who is up is stepped"
        try:
            return broker.member.step(event)
        except Exception as error:
            raise Violation(f"{broker.name} fails at {event}: {error!r}") from error

    def _tick(self, broker: Elector, life: int) -> None:
        def tick(now_ms: int) -> Event:
            self.at(
                broker.clock.true_us(now_ms + self.terms.heartbeat_ms),
                lambda: self.give(broker, life, tick),
            )
            return Tick(now_ms)

        self.give(broker, life, tick)

    def _wake(self, broker: Elector) -> None:
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

    def _perform(self, broker: Elector) -> None:
        """One after the other; what comes after a vote waits until that is on disk."""
        life = broker.life
        while broker.effects and not broker.is_writing and self.now_us >= broker.stalled_until_us:
            effect = broker.effects.popleft()
            self._do(broker, effect)
            if broker.life != life:
                return

    def _do(self, broker: Elector, effect: ElectionEffect) -> None:
        match effect:
            case PersistVote():
                self._write(broker, effect)
            case Tell():
                for other in self.terms.primaries:
                    if other != broker.name:
                        self._send((broker.name, other), effect.status)
            case TellPeer():
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

    def _write(self, broker: Elector, effect: PersistVote) -> None:
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
            self.go_on(broker, life)
            self._perform(broker)

        self.after(*broker.write_us, written)

    def _take_over(self, broker: Elector, epoch: int) -> None:
        broker.takes_over = epoch
        if self.is_calm or self.chance.random() < 0.9:
            self.later(broker, 0, 10_000 if self.is_calm else 200_000, lambda now_ms: CaughtUp(now_ms, epoch))
            return
        patience_us = TAKE_OVER_PATIENCE_MS * 1000

        def give_up(now_ms: int) -> Event | None:
            return StepDown(now_ms, f"nobody gives epoch {epoch}") if broker.takes_over == epoch else None

        self.later(broker, patience_us, patience_us, give_up)

    # -- what the network says

    def connected(self, pair: Pair, number: int) -> None:
        """Nobody is told: there is nothing to be said first."""

    def deliver(self, pair: Pair, number: int, sent: Status) -> None:
        broker = self.brokers[pair[1]]

        def heard(now_ms: int) -> Event | None:
            return StatusHeard(now_ms, sent) if self._reads(pair, number) else None

        self.give(broker, broker.life, heard)

    def _reads(self, pair: Pair, number: int) -> bool:
        """Whether the receiver takes something from this connection; from then on it takes nothing of older ones."""
        if number < self._read[pair]:
            return False
        self._read[pair] = number
        return True

    def ended(self, pair: Pair, number: int) -> None:
        if not self._reads(pair, number):
            return
        self._read[pair] = number + 1
        broker = self.brokers[pair[1]]
        self.give(broker, broker.life, lambda now_ms: PeerLost(now_ms, pair[0]))

    def lost(self, pair: Pair, now_us: int) -> None:
        self.network.dial(pair, now_us)

    def reconnect(self) -> None:
        for pair, link in self.network.links.items():
            if link.is_connected and self._read[pair] > link.connection:
                self.network.dial(pair, self.now_us)

    # -- who leads

    def reign_of(self, broker: Elector) -> Reign | None:
        return broker.member.reign() if broker.member is not None else None

    def line(self, traced: tuple[int, str, object]) -> str:
        at_us, who, what = traced
        return (
            super().line((at_us, who, f"at {what.now_ms} hears {_brief(what.status)}"))
            if isinstance(what, StatusHeard)
            else super().line(traced)
        )


def _brief(status: Status) -> str:
    heard = " ".join(f"{name}:{number}" for name, number in status.heard.items())
    vote = f"{status.vote.root}/{status.vote.epoch}" if status.vote else "none"
    reign = f"{status.reign.root}/{status.reign.epoch}" if status.reign else "none"
    stands = f" stands in {status.stands_in}," if status.stands_in else ""
    return f"{status.name}#{status.number} {status.phase},{stands} vote {vote}, reign {reign}, heard {heard}"
