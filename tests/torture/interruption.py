"""Ctrl-C and SIGTERM, taken where it can be cleaned up after them.

An exception from a signal handler may come up in any callback of the interpreter, which drops it; and in the middle of
cleaning up.
"""

from __future__ import annotations

import signal
from types import FrameType


class Interruption:
    """`install` it, and `check` often."""

    def __init__(self) -> None:
        self._is_asked = False

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def check(self) -> None:
        """KeyboardInterrupt where somebody wants an end."""
        if self._is_asked:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._is_asked = True
