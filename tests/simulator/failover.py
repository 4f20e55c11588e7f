"""How long a cluster is without a root, in simulated time: a process that dies, and one that nobody hears any more."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Literal

from tests.simulator.elections import Elections
from tests.simulator.invariants import Violation

LIMIT_US = 30_000_000

Kind = Literal["killed, links end", "cut off, silently"]


def failover_ms(seed: int, primaries: int, kind: Kind) -> float:
    """Until another serves."""
    world = Elections(seed, primaries)
    world.is_calm = True
    for name in world.terms.primaries:
        world.after(0, 100_000, lambda name=name: world.start(name))  # type: ignore[misc]
    if not world.run(until_us=LIMIT_US, stop=lambda: bool(world.root())):
        raise Violation("no root to begin with")
    root = world.root()
    world.run(until_us=world.now_us + 1_000_000 + world.chance.randint(0, 100_000))
    began_us = world.now_us
    if kind == "cut off, silently":
        for pair in world.network.links:
            if root in pair:
                world.network.cut(pair)
    else:
        world.crash(root)
        for pair in world.network.links:
            if pair[0] == root:
                world.network.end(pair, world.now_us, in_order=True)
    if not world.run(until_us=began_us + LIMIT_US, stop=lambda: world.serving() not in ("", root)):
        raise Violation(f"no new root after {root} was {kind}")
    return (world.now_us - began_us) / 1000


def measure(seeds: Iterable[int], primaries: int) -> Iterator[str]:
    kinds: tuple[Kind, ...] = ("killed, links end", "cut off, silently")
    seeds = list(seeds)
    for kind in kinds:
        took = sorted(failover_ms(seed, primaries, kind) for seed in seeds)
        yield (
            f"{primaries} primaries, root {kind}: until the next serves, median {statistics.median(took):.0f} ms, "
            f"p99 {took[len(took) * 99 // 100]:.0f} ms, worst {took[-1]:.0f} ms of {len(took)}"
        )
