"""Seeds one after another until one fails."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulator.invariants import Failure


def first_failure(run: Callable[[int], object], seeds: int) -> str:
    """What the first of the seeds from 0 that fails says; empty where none does."""
    for seed in range(seeds):
        try:
            run(seed)
        except Failure as failure:
            return str(failure)
    return ""
