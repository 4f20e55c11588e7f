"""The exit codes of commands. `docs/` and every `--help` promise these."""

from __future__ import annotations

import click

DONE = 0
NO = 1
"""The answer is no: findings, no root, a drain that would break the quorum, a target that was missed."""
FAILED = 2
"""Wrong usage or input, or something that cannot be used: a file, a broker, a disk."""
INTERRUPTED = 130


class CommandFailure(click.ClickException):
    """Raise this to end a command with one line and the exit code `FAILED`."""

    exit_code = FAILED
