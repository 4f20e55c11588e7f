"""How much memory this process may use: the machine's, or less in a container with a limit."""

from __future__ import annotations

import os

# version 2 and version 1 of control groups, as a container sees its own
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """The memory of the machine or the limit of the container, whichever is less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in CGROUP_LIMITS:
        try:
            with open(path, encoding="ascii") as file:
                found.append(int(file.read(64)))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return min(found)


def high_watermark_bytes(watermark: float) -> int:
    """The bytes that `limits.memory_high_watermark` stands for: up to 1 a share of the memory, above it bytes."""
    return int(watermark) if watermark > 1 else int(watermark * memory_bytes())
