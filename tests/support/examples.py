"""How many examples and seeds a test takes: a few in `make test`, many in `make soak`."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import HealthCheck, settings

SOAK_EXAMPLES = 1_000
"""In the profile `soak`, which `tests/conftest.py` registers."""
SOAK_SEEDS = 20
"""So many times the seeds of `make test`."""


def examples(count: int, *, suppress: Collection[HealthCheck] = (), step_count: int = 50) -> settings:
    """Settings with `count` examples in `make test`, and with no fewer than the profile asks for in `make soak`.

    `settings(max_examples=40)` at the test itself would bind `make soak` to 40 too.
    """
    return settings(
        max_examples=max(count, settings().max_examples) if _is_soak() else count,
        suppress_health_check=suppress,
        stateful_step_count=step_count,
    )


def seeds(count: int) -> range:
    """The first `count` seeds in `make test`, and `SOAK_SEEDS` times as many in `make soak`."""
    return range(count * SOAK_SEEDS if _is_soak() else count)


def _is_soak() -> bool:
    return settings().max_examples >= SOAK_EXAMPLES
