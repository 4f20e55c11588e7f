"""The limit of open files. Each connection needs one, so a broker raises the limit as far as the system allows."""

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
