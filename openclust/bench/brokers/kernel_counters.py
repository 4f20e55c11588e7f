"""How many bytes a process has received over its open TCP connections, as the kernel counted them."""

from __future__ import annotations

import re
import shutil
import subprocess

SS_SECONDS = 10.0


def received_bytes(pid: int) -> int | None:
    """The sum over all connections that are open now; None if `ss` (iproute2) is not installed or lists none."""
    command = shutil.which("ss")
    if command is None:
        return None
    try:
        said = subprocess.run(
            [command, "-tinpOH", "state", "established"], capture_output=True, text=True, timeout=SS_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return sum_of_received(said.stdout, pid)


def sum_of_received(said: str, pid: int) -> int | None:
    """The sum over the lines of `ss` that name this process; each line is a connection with its counters."""
    own = [line for line in said.splitlines() if re.search(rf"\bpid={pid}\b", line)]
    found = [int(match[1]) for line in own if (match := re.search(r"\bbytes_received:(\d+)", line))]
    return sum(found) if own else None
