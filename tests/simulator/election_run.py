"""One seed from its start to its end: chaos, then peace, then a broker that starts anew while a root sits."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec

from tests.simulator.chaos import Chaos
from tests.simulator.disk import Disk
from tests.simulator.elections import Elections
from tests.simulator.invariants import Failure, Violation

STEPS = 1_000
PRIMARIES = (1, 2, 3, 3, 3, 4, 5, 5, 7)
PEACE_BEATS = 20
LAST_LINK_US = 1_300_000
"""So long after the chaos the last sender has noticed that its link had ended, and has dialled again."""


class Outcome(msgspec.Struct, frozen=True):
    """What a run without a violation was like. `peace_ms` is from the end of the chaos until one root led all."""

    steps: int
    reigns: int
    peace_ms: int


def peace_ms_max(world: Elections) -> int:
    """When all is well there is a root after the grace for who was never heard, and ten heartbeats."""
    return world.terms.start_grace_ms + 10 * world.terms.heartbeat_ms


def run_elections(
    seed: int,
    *,
    steps: int = STEPS,
    primaries: int | None = None,
    disk: type[Disk] = Disk,
    tell: Callable[[str], None] | None = None,
) -> Outcome:
    """Run it; raises Failure."""
    count = primaries or random.Random(seed).choice(PRIMARIES)
    world = Elections(seed, count, disk=disk, tell=tell)
    try:
        chaos = Chaos(world)
        chaos.begin()
        world.run(steps=steps)
        chaos.end()
        world.run(until_us=world.now_us + LAST_LINK_US)
        healed_us = world.now_us
        root = _peace(world)
        peace_ms = (world.now_us - healed_us) // 1000
        _hold(world, root)
        _newcomer(world, root)
    except Violation as error:
        raise Failure(_report(world, seed, steps, primaries, error)) from error
    return Outcome(world.steps, len(world.roots), peace_ms)


def _peace(world: Elections) -> str:
    limit_ms = peace_ms_max(world)
    if not world.run(until_us=world.now_us + limit_ms * 1000, stop=lambda: bool(world.root())):
        raise Violation(f"no root that all follow, {limit_ms} ms after all was well")
    return world.root()


def _hold(world: Elections, root: str) -> None:
    """It stays."""
    reign = world.reign_of(world.brokers[root])
    left = lambda: world.reign_of(world.brokers[root]) != reign  # noqa: E731
    if world.run(until_us=world.now_us + PEACE_BEATS * world.terms.heartbeat_ms * 1000, stop=left):
        raise Violation(f"{root} does not stay root, though all is well")
    if world.root() != root:
        raise Violation(f"{root} is root, but not all follow it")


def _newcomer(world: Elections, root: str) -> None:
    """Somebody else starts anew, with a clock that makes it the most senior: the root stays."""
    others = [name for name in world.terms.primaries if name != root]
    if not others:
        return
    name = world.chance.choice(others)
    world.crash(name)
    world.brokers[name].clock.skew_ms = -1_000_000
    world.after(100, 1_000_000, lambda: world.start(name))
    world.run(until_us=world.now_us + 1_000_000)
    _hold(world, root)


def _report(world: Elections, seed: int, steps: int, primaries: int | None, error: Violation) -> str:
    options = f" --steps {steps}" if steps != STEPS else ""
    options += f" --primaries {primaries}" if primaries else ""
    return "\n".join(
        [
            f"seed {seed}: {error}",
            *(f"  {each}" for each in world.describe()),
            "the last that happened:",
            *(world.line(each) for each in world.trace),
            f"see it again: python -m tests.simulator --elections --seed {seed}{options} --trace",
        ]
    )
