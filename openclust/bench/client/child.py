"""Ends a process that a bench started and that reads its orders from stdin."""

from __future__ import annotations

import subprocess


def end_child(process: subprocess.Popen[bytes], seconds: float, *, at_once: bool = False) -> None:
    """Close the process's stdin, and with `at_once` send SIGTERM; after so many seconds kill it."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    if at_once:
        process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        process.stdout.close()
