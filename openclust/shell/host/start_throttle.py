"""A broker that starts gives way: half a second of nothing but imports is felt by the brokers that share its cores.

Who is woken on a busy core may wait for the end of a time slice, 4 ms on many kernels, and a confirm goes through a
dozen hands. A lower priority would not help: it is lost on who belongs to another session, and cannot be raised again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

RUN_S = 0.000_4
PAUSE_S = 0.000_3


@contextmanager
def giving_way() -> Iterator[None]:
    """In the main thread: what runs inside pauses for a moment again and again, where the system has such a clock."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    is_over = False

    def run_on() -> None:
        signal.setitimer(signal.ITIMER_REAL, RUN_S)

    def pause(*_: object) -> None:
        # One that was on its way when all was over must not set the clock again: nobody would hear it.
        if not is_over:
            time.sleep(PAUSE_S)
            run_on()

    before = signal.signal(signal.SIGALRM, pause)
    # Python tries again what a signal has interrupted; a library in C that loads its files may not.
    signal.siginterrupt(signal.SIGALRM, False)
    run_on()
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
