"""What must hold after every event, whatever the network, the clocks and the disks do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from openclust.cluster.election.events import (
    ElectionEffect,
    Follow,
    NoRoot,
    PersistVote,
    Resign,
    Serve,
    TakeOver,
    Tell,
    TellPeer,
)
from openclust.cluster.protocol.status import Reign

if TYPE_CHECKING:
    from tests.simulator.broker import Broker


class Violation(AssertionError):
    """Something happened that must never happen."""


class Failure(AssertionError):
    """A violation, and how to see it again."""


class Invariants:
    """Watches steps and effects of elections, and fills `roots`."""

    def __init__(self, roots: dict[int, str]) -> None:
        self.roots = roots
        self._before: dict[str, _Before] = {}

    def began(self, name: str, vote: Reign | None) -> None:
        """The broker starts anew."""
        self._before[name] = _Before(vote)

    def stepped(self, name: str, effects: list[ElectionEffect]) -> None:
        """Effects come in an order that makes sense."""
        before = self._before[name]
        for effect in effects:
            wrong = before.take(effect)
            if wrong:
                raise Violation(f"{name} {wrong}: {effect}")
            if isinstance(effect, Serve):
                known = self.roots.setdefault(effect.epoch, name)
                if known != name:
                    raise Violation(f"{name} and {known} are both root in epoch {effect.epoch}")

    def sends(self, name: str, said: Reign | None, written: Reign | None) -> None:
        """A vote that is sent is on disk."""
        if said is not None and said != written:
            raise Violation(f"{name} sends its vote {said}, and has {written} on disk")

    def alone(self, name: str, now_us: int, brokers: Iterable[Broker]) -> None:
        """Who serves, serves alone. Asked after each step of a root: only a step can begin a time of serving."""
        serving = [broker.name for broker in brokers if broker.serves(now_us)]
        if len(serving) > 1 and name in serving:
            raise Violation(f"{' and '.join(serving)} are root at the same time")


class _Before:
    """What one life of one broker was told to do so far."""

    __slots__ = ("follows", "serves", "takes_over", "vote")

    def __init__(self, vote: Reign | None) -> None:
        self.vote = vote
        self.takes_over = 0
        self.serves = 0
        self.follows: Reign | None = None

    def take(self, effect: ElectionEffect) -> str:
        """What is wrong with the effect coming now; empty if nothing is."""
        match effect:
            case PersistVote():
                if self.vote is not None and effect.vote.epoch <= self.vote.epoch:
                    return f"votes again, after {self.vote}"
                self.vote = effect.vote
            case Tell() | TellPeer():
                if effect.status.vote != self.vote:
                    return f"says it voted otherwise than for {self.vote}"
            case TakeOver():
                if self.serves or self.follows:
                    return f"takes over while it serves {self.serves} or follows {self.follows}"
                if effect.epoch <= self.takes_over:
                    return f"takes over again, after epoch {self.takes_over}"
                self.takes_over = effect.epoch
            case Serve():
                if self.serves or self.follows or effect.epoch != self.takes_over:
                    return f"serves out of turn, having taken over epoch {self.takes_over}"
                self.serves = effect.epoch
            case Resign():
                if effect.epoch != self.serves:
                    return f"resigns what it does not serve, but {self.serves}"
                self.serves = 0
            case Follow():
                if self.serves:
                    return f"follows while it serves {self.serves}"
                self.follows = effect.reign
            case NoRoot():
                if effect.last != self.follows:
                    return f"loses a root that it does not follow, but {self.follows}"
                self.follows = None
        return ""
