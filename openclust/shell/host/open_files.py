"""The limit of open files: one per connection, so a broker takes all that the system grants."""

from __future__ import annotations

import resource


def raise_open_files_limit() -> int:
    """Raise this process's soft limit of open files to its hard limit, and return what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems say "unlimited" and then refuse it
        return soft
    return hard
