"""An entry of the log, as it is kept and as it travels."""

from __future__ import annotations

import msgspec

from openclust.cluster.protocol.status import Position


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """One thing that happened. `kind` says what `body` is: a reign's "opening", a "change", or "work", in bytes."""

    position: Position
    kind: str
    body: bytes
