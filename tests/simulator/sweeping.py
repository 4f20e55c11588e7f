"""Seeds one after another: new ones for a while, or until one fails."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.simulator.invariants import Failure


def sweep_new_seeds(run: Callable[[int], object], for_s: float) -> None:
    """Seeds that nobody has seen. A failure names its seed."""
    seed = random.SystemRandom().randrange(1_000_000, 1_000_000_000)
    until_s = time.monotonic() + for_s
    while time.monotonic() < until_s:
        run(seed)
        seed += 1


def first_failure(run: Callable[[int], object], seeds: int) -> str:
    """What the first of the seeds from 0 that fails says; empty where none does."""
    for seed in range(seeds):
        try:
            run(seed)
        except Failure as failure:
            return str(failure)
    return ""
