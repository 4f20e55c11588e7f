"""Whole clusters in chaos: seeds that always run, and some that never ran before."""

from __future__ import annotations

import random
import time

import pytest

from tests.simulator.run import run

SEEDS = 40
NEW_SEEDS_S = 40.0


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_whatever_happens_all_that_is_promised_holds(first: int) -> None:
    for seed in range(first, first + 10):
        run(seed)


def test_seeds_that_nobody_has_seen_hold_as_well() -> None:
    seed = random.SystemRandom().randrange(1_000_000, 1_000_000_000)
    until_s = time.monotonic() + NEW_SEEDS_S
    while time.monotonic() < until_s:
        run(seed)  # A failure names its seed.
        seed += 1


def test_a_seed_is_a_run() -> None:
    once: list[str] = []
    again: list[str] = []
    assert run(4, tell=once.append) == run(4, tell=again.append)
    assert once == again and len(once) > 1_000
