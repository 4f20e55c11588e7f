"""What goes wrong, and how it is mended: one class a kind. All chance is drawn when a fault is made, from the seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from tests.torture.brokers import CLIENTS, PRIMARIES, SECONDARIES, Brokers

ROOT_PREFERRED = 0.5
SECONDARY_PREFERRED = 0.15


class Fault(Protocol):
    """`begin` says what it did, as `kill root (p2)`; the kind is what comes before the bracket."""

    lasts_s: float

    def begin(self, brokers: Brokers) -> str: ...

    def end(self, brokers: Brokers) -> None: ...


class Target:
    """A broker, chosen when the fault begins: often the root, whoever that is then."""

    def __init__(self, chance: random.Random, primaries_only: bool = False) -> None:
        draw = chance.random()
        self._wants_root = draw < ROOT_PREFERRED
        may_be_secondary = not primaries_only and draw > 1 - SECONDARY_PREFERRED
        self._pick = chance.choice(SECONDARIES if may_be_secondary else PRIMARIES)

    def choose(self, brokers: Brokers) -> tuple[str, str]:
        """Its name and its role."""
        root = brokers.root()
        name = root if self._wants_root and root else self._pick
        return name, "root" if name == root else "backup" if name in PRIMARIES else "secondary"


class Kill:
    """SIGKILL, and a start some time later: of one broker, two primaries, or all primaries at once."""

    def __init__(self, chance: random.Random) -> None:
        draw = chance.random()
        self.lasts_s = chance.uniform(0.2, 4.0)
        self._target = Target(chance)
        self._pair = chance.sample(PRIMARIES, 2)
        self._count = 3 if draw < 0.1 else 2 if draw < 0.25 else 1
        self._killed: list[str] = []

    def begin(self, brokers: Brokers) -> str:
        if self._count == 1:
            name, role = self._target.choose(brokers)
            self._killed, what = [name], role
        else:
            self._killed = self._pair if self._count == 2 else list(PRIMARIES)
            what = "two primaries" if self._count == 2 else "all primaries"
        for name in self._killed:
            brokers.by_name[name].kill()
        return f"kill {what} ({', '.join(self._killed)})"

    def end(self, brokers: Brokers) -> None:
        for name in self._killed:
            brokers.by_name[name].start()


class Stop:
    """SIGSTOP, and SIGCONT some time later: the broker does not know how long it was away."""

    def __init__(self, chance: random.Random) -> None:
        self.lasts_s = chance.choice((chance.uniform(0.2, 0.8), chance.uniform(0.8, 5.0)))
        self._target = Target(chance)
        self._stopped = ""

    def begin(self, brokers: Brokers) -> str:
        self._stopped, role = self._target.choose(brokers)
        brokers.by_name[self._stopped].stop()
        return f"stop {role} ({self._stopped}, {self.lasts_s:.1f} s)"

    def end(self, brokers: Brokers) -> None:
        brokers.by_name[self._stopped].go_on()


class CutOff:
    """One broker hears nobody, clients included."""

    def __init__(self, chance: random.Random) -> None:
        self.lasts_s = chance.uniform(0.5, 6.0)
        self._target = Target(chance)

    def begin(self, brokers: Brokers) -> str:
        name, role = self._target.choose(brokers)
        brokers.network.cut_off(name)
        return f"cut off {role} ({name}, {self.lasts_s:.1f} s)"

    def end(self, brokers: Brokers) -> None:
        brokers.network.heal()


class Halves:
    """Some brokers and the others do not hear each other; the clients are with one half."""

    def __init__(self, chance: random.Random) -> None:
        self.lasts_s = chance.uniform(0.5, 6.0)
        self._target = Target(chance, primaries_only=True)
        self._others = [name for name in SECONDARIES if chance.random() < 0.5]
        self._clients_too = chance.random() < 0.4

    def begin(self, brokers: Brokers) -> str:
        name, role = self._target.choose(brokers)
        apart = [name, *self._others, *([CLIENTS] if self._clients_too else [])]
        brokers.network.move("right", *apart)
        with_them = " with the clients" if self._clients_too else ""
        return f"halves, {role} in the smaller{with_them} ({', '.join(apart)}, {self.lasts_s:.1f} s)"

    def end(self, brokers: Brokers) -> None:
        brokers.network.heal()


class OneWay:
    """What one broker sends is lost, or what it is sent; what goes the other way arrives."""

    def __init__(self, chance: random.Random) -> None:
        self.lasts_s = chance.uniform(0.5, 6.0)
        self._target = Target(chance)
        self._is_mute = chance.random() < 0.5
        self._to_one = chance.choice((None, *PRIMARIES, *SECONDARIES, CLIENTS))

    def begin(self, brokers: Brokers) -> str:
        name, role = self._target.choose(brokers)
        network = brokers.network
        others = [each for each in network.addresses if each != name and self._to_one in (None, name, each)]
        if self._is_mute:
            network.silence(name, *others)
        else:
            for each in others:
                network.silence(each, name)
        to_whom = "" if len(others) > 1 else f" to {others[0]}"
        return f"one way, {role} {'mute' if self._is_mute else 'deaf'} ({name}{to_whom}, {self.lasts_s:.1f} s)"

    def end(self, brokers: Brokers) -> None:
        brokers.network.heal()


class Ring:
    """Each primary loses one neighbour in one direction."""

    def __init__(self, chance: random.Random) -> None:
        self.lasts_s = chance.uniform(0.5, 6.0)
        self._order = chance.sample(PRIMARIES, len(PRIMARIES))

    def begin(self, brokers: Brokers) -> str:
        for sender, receiver in zip(self._order, self._order[1:] + self._order[:1], strict=True):
            brokers.network.silence(sender, receiver)
        return f"ring ({' | '.join(self._order)}, {self.lasts_s:.1f} s)"

    def end(self, brokers: Brokers) -> None:
        brokers.network.heal()


class Loss:
    """A bad line: packets are lost, and come late."""

    def __init__(self, chance: random.Random) -> None:
        self.lasts_s = chance.uniform(2.0, 8.0)
        self._target = Target(chance)
        self._loss = chance.choice((0.0, 0.01, 0.05, 0.2))
        self._delay_ms = chance.choice((0.0, 5.0, 40.0) if self._loss else (20.0, 80.0))
        self._jitter_ms = self._delay_ms / 2
        self._seed = chance.randrange(1 << 30)

    def begin(self, brokers: Brokers) -> str:
        name, role = self._target.choose(brokers)
        brokers.network.make_line_bad(name, self._loss, self._delay_ms, self._jitter_ms, self._seed)
        lost = f"{self._loss:.0%} lost, " if self._loss else ""
        return f"bad line of {role} ({name}, {lost}{self._delay_ms:.0f} ms late, {self.lasts_s:.1f} s)"

    def end(self, brokers: Brokers) -> None:
        brokers.network.heal()


class FullDisk:
    """Not a byte can be written, for some seconds."""

    def __init__(self, chance: random.Random) -> None:
        self.lasts_s = chance.uniform(1.0, 6.0)
        self._target = Target(chance, primaries_only=True)
        self._all = chance.random() < 0.15
        self._full: list[str] = []

    def begin(self, brokers: Brokers) -> str:
        name, role = self._target.choose(brokers)
        self._full = list(PRIMARIES) if self._all else [name]
        for each in self._full:
            brokers.disks[each].fill()
        whose = "all disks full" if self._all else f"disk full of {role}"
        return f"{whose} ({', '.join(self._full)}, {self.lasts_s:.1f} s)"

    def end(self, brokers: Brokers) -> None:
        for each in self._full:
            brokers.disks[each].empty()


class StepDown:
    """The root gives up its place, because somebody said so."""

    def __init__(self, chance: random.Random) -> None:
        self.lasts_s = chance.uniform(0.1, 1.0)

    def begin(self, brokers: Brokers) -> str:
        root = brokers.root()
        done = bool(root) and brokers.by_name[root].step_down()
        return f"step-down ({root})" if done else "step-down (nobody to ask)"

    def end(self, brokers: Brokers) -> None:
        pass


KINDS: dict[str, list[Callable[[random.Random], Fault]]] = {
    "kill": [Kill],
    "stop": [Stop],
    "cut": [CutOff, Halves],
    "oneway": [OneWay],
    "ring": [Ring],
    "loss": [Loss],
    "disk": [FullDisk],
    "step": [StepDown],
}
"""By the names that `--faults` takes."""

NETWORK = frozenset({"cut", "oneway", "ring", "loss"})
"""One of them at a time: mending one mends all."""
