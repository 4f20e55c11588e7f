"""What an earlier run left that was ended before it could clean up: namespaces, what runs in them, and disks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

from tests.torture.network import PREFIX

_NAMESPACE = re.compile(rf"{PREFIX}-(\d+)-\S+")
_DISK = re.compile(rf"{PREFIX}-(\d+) (\S+) tmpfs ")


def disk_source(pid: int) -> str:
    """The name under which a run mounts its disks."""
    return f"{PREFIX}-{pid}"


def clear_leftovers() -> list[str]:
    """Remove it; what it was. What belongs to a run that goes on is left alone."""
    cleared = []
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, timeout=10).stdout
    for match in _NAMESPACE.finditer(listed):
        if not _is_a_run(int(match[1])):
            _end_all_in(match[0])
            subprocess.run(["ip", "netns", "delete", match[0]], capture_output=True, timeout=10)
            cleared.append(match[0])
    for match in _DISK.finditer(Path("/proc/mounts").read_text(encoding="utf-8")):
        if not _is_a_run(int(match[1])):
            subprocess.run(["umount", "-l", match[2]], capture_output=True, timeout=10)
            cleared.append(match[2])
    return cleared


def _is_a_run(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"tests.torture" in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"/", b".")
    return False


def _end_all_in(namespace: str) -> None:
    inside = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, timeout=10).stdout
    for pid in inside.split():
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)
