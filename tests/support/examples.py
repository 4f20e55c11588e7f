"""How many examples and seeds a test takes: some in `make test`, a third of them in `make unit`, many in a soak."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import HealthCheck, settings

SOAK_EXAMPLES = 1_000
"""In the profile `soak`, which `tests/conftest.py` registers."""
SOAK_SEEDS = 20
"""So many times the seeds of `make test`."""
UNIT_SHARE = 3
"""`make unit` takes one of so many examples and seeds: it runs after each change, and `make test` takes them all."""
TEST_EXAMPLES = 50
"""In the profile `fixed`, of a test that says no number."""


def examples(count: int, *, suppress: Collection[HealthCheck] = (), step_count: int = 50) -> settings:
    """Settings with `count` examples in `make test`, and with no fewer than the profile asks for in `make soak`.

    `settings(max_examples=40)` at the test itself would bind `make unit` and `make soak` to 40 too.
    """
    return settings(
        max_examples=max(count, SOAK_EXAMPLES) if _is_soak() else _share_of(count),
        suppress_health_check=suppress,
        stateful_step_count=step_count,
    )


def seeds(count: int) -> range:
    """The first `count` seeds in `make test`, fewer in `make unit`, and `SOAK_SEEDS` times as many in `make soak`."""
    return range(count * SOAK_SEEDS if _is_soak() else _share_of(count))


def _share_of(count: int) -> int:
    return -(-count // UNIT_SHARE) if settings().max_examples < TEST_EXAMPLES else count


def _is_soak() -> bool:
    return settings().max_examples >= SOAK_EXAMPLES
