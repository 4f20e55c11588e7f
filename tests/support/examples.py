"""How many examples hypothesis asks for: a few in `make test`, those of the profile in `make soak`."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import HealthCheck, settings

SOAK_EXAMPLES = 1_000
"""In the profile `soak`, which `tests/conftest.py` registers."""


def examples(count: int, *, suppress: Collection[HealthCheck] = (), step_count: int = 50) -> settings:
    """Settings with `count` examples in `make test`, and with no fewer than the profile asks for in `make soak`.

    `settings(max_examples=40)` at the test itself would bind `make soak` to 40 too.
    """
    asked = settings().max_examples
    return settings(
        max_examples=max(count, asked) if asked >= SOAK_EXAMPLES else count,
        suppress_health_check=suppress,
        stateful_step_count=step_count,
    )
