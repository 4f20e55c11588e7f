"""The lines of a trace beside those of messages (`broker.tracing.TraceEvent`): its begin and end, how the broker is.

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
    """Every second, and when there is another root, or other clients are there. Nothing in it is a sample.

    `cpu_us` is what the process has used since it began, `published` what it has taken from applications.
    """

    at_us: int
    broker: str
    root: str
    clients: int
    cpu_us: int
    memory_bytes: int
    published: int


class LostLine(msgspec.Struct, tag_field="event", tag="lost", kw_only=True):
    """So many lines were not written here, because the disk did not keep up."""

    at_us: int
    broker: str
    count: int


class EndLine(msgspec.Struct, tag_field="event", tag="end", kw_only=True):
    """The last of a run that ended orderly, or of a file that is full."""

    at_us: int
    broker: str
    why: str
