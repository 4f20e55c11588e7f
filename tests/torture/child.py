"""A process that ends with the one that started it, however that one ends."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any

PR_SET_PDEATHSIG = 1
STOP_WAIT_S = 8.0

_libc = ctypes.CDLL(None, use_errno=True)


def start_child(
    command: Sequence[str],
    *,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = subprocess.DEVNULL,
    stderr: int | IO[Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Only from the main thread: the kernel ends the child when the thread ends that made it."""
    return subprocess.Popen(
        command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, text=True, preexec_fn=_end_with_parent
    )


def end_child(child: subprocess.Popen[str]) -> bool:
    """SIGTERM, and SIGKILL where that is not enough; whether it was."""
    return not end_children([child])


def end_children(children: Iterable[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    """All at once; those that had to be killed."""
    running = [child for child in children if child.poll() is None]
    for child in running:
        child.send_signal(signal.SIGCONT)
        child.terminate()
    end = time.monotonic() + STOP_WAIT_S
    stubborn = []
    for child in running:
        try:
            child.wait(max(end - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            stubborn.append(child)
            child.kill()
            child.wait()
    return stubborn


def _end_with_parent() -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
