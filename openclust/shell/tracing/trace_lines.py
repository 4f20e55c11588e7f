"""The lines of a trace that are not about messages (`TraceEvent` is): its begin and end, the state of the broker.

Times are the wall clock's, in microseconds.
"""

from __future__ import annotations

import msgspec

FORMAT = 1


class BeginLine(msgspec.Struct, tag_field="event", tag="begin", kw_only=True):
    """The first of each run of a broker."""

    format: int = FORMAT
    at_us: int
    broker: str
    cluster: str
    role: str
    """primary or secondary."""
    sample: int
    openclust: str


class StatusLine(msgspec.Struct, tag_field="event", tag="status", kw_only=True):
    """Every second, and when the root or the number of clients changes. It counts all messages, not only sampled ones.

    `cpu_us` is the process's CPU time since its start, `published` the number of messages from its applications.
    """

    at_us: int
    broker: str
    root: str
    clients: int
    cpu_us: int
    memory_bytes: int
    published: int


class LostLine(msgspec.Struct, tag_field="event", tag="lost", kw_only=True):
    """So many lines are missing here, because the disk was too slow."""

    at_us: int
    broker: str
    count: int


class EndLine(msgspec.Struct, tag_field="event", tag="end", kw_only=True):
    """The last line of a run that ended orderly, or of a full file."""

    at_us: int
    broker: str
    why: str
