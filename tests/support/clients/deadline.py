"""Waiting for something to become true, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within_s: float = 15.0, every_s: float = 0.02) -> T:
    """The first truthy answer of `condition`. Fails with the last answer when none came within the time."""
    end = time.monotonic() + within_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not true within {within_s} s; the last answer was {answer!r}")
        time.sleep(every_s)
