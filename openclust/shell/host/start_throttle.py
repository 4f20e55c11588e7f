"""A broker that starts pauses again and again, because half a second of imports slows the brokers on the same cores.

A process that wakes up on a busy core may wait for the end of a time slice, 4 ms on many kernels, and a confirm passes
through a dozen processes and threads. A lower priority would not help: the kernel ignores it between sessions, and it
cannot be raised again.
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
    """The code inside pauses for a moment again and again, if the system has interval timers. For the main thread."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    is_over = False

    def run_on() -> None:
        signal.setitimer(signal.ITIMER_REAL, RUN_S)

    def pause(*_: object) -> None:
        # A signal that comes after the end must not set the timer again: its next signal would end the process.
        if not is_over:
            time.sleep(PAUSE_S)
            run_on()

    before = signal.signal(signal.SIGALRM, pause)
    # Python repeats a system call that a signal interrupted; a library in C may not.
    signal.siginterrupt(signal.SIGALRM, False)
    run_on()
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
