"""Which faults there are in a run, and when: all from the seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from tests.torture.faults import KINDS, NETWORK, Fault

TWO_AT_ONCE = 0.3
PEACE_S = (1.5, 5.0)
LONG_PEACE_S = 12.0


class Step(msgspec.Struct, frozen=True):
    """A fault begins or ends, so many seconds after its episode began."""

    at_s: float
    number: int
    kind: str
    fault: Fault
    is_begin: bool


class Episode(msgspec.Struct, frozen=True):
    """One fault, or two that overlap, and the peace after them."""

    steps: list[Step]
    peace_s: float


def episodes(seed: int, kinds: list[str]) -> Iterator[Episode]:
    """Without end."""
    chance = random.Random(seed)
    while True:
        chosen = [chance.choice(kinds)]
        others = [kind for kind in kinds if kind != chosen[0] and not {kind, chosen[0]} <= NETWORK]
        if others and chance.random() < TWO_AT_ONCE:
            chosen.append(chance.choice(others))
        steps, begin_s = [], 0.0
        for number, kind in enumerate(chosen):
            fault = chance.choice(KINDS[kind])(chance)
            steps += [
                Step(begin_s, number, kind, fault, True),
                Step(begin_s + fault.lasts_s, number, kind, fault, False),
            ]
            begin_s = chance.uniform(0.0, fault.lasts_s)
        peace_s = LONG_PEACE_S if chance.random() < 0.1 else chance.uniform(*PEACE_S)
        yield Episode(sorted(steps, key=lambda step: (step.at_s, step.number)), peace_s)
