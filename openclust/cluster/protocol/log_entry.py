"""An entry of the log, as it is stored and as it is sent."""

from __future__ import annotations

import msgspec

from openclust.cluster.protocol.status import Position


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """One entry. `kind` says what `body` encodes: the "opening" of a reign, a "change" of definitions, or "work"."""

    position: Position
    kind: str
    body: bytes
