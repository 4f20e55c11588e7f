"""The end of a process that a bench started and talks to."""

from __future__ import annotations

import subprocess


def end_child(process: subprocess.Popen[bytes], seconds: float, *, at_once: bool = False) -> None:
    """Tell it by the end of its stdin, and by a signal where it is to go `at_once`; it has so long to clean up."""
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
