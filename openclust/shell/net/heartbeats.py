"""When a connection is sent a heartbeat, and when its client counts as gone.

Some clients give up a broker that is silent for one interval. So a connection to which nothing was written for half an
interval is sent a heartbeat. The half counts from the last bytes that were written, not from the last call of `beat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.wire.frames import HEARTBEAT

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.shell.net.stream import Transport

SILENT_HALVES_MAX = 4
"""0-9-1 4.2.7: a peer that sent nothing for two intervals is gone."""


def first_wait_ms(transport: Transport, interval_s: int, tick_ms: int) -> int:
    """How long after `connection.open` the first `beat` is due."""
    transport.wait_ms = interval_s * 500
    return max(0, transport.wait_ms - tick_ms)


def beat(connection: Connection, transport: Transport, now_ms: int, tick_ms: int) -> int | None:
    """Send a heartbeat if one is due. Returns the wait until the next call; None if the client is gone.

    Calls may come a tick early or late. A heartbeat is at most one tick early or late.
    """
    half_ms = connection.heartbeat_s * 500
    if transport.heard or connection.hold:
        # The socket of a held connection is not read, so silence means nothing.
        transport.heard = False
        transport.silent_ms = 0
    else:
        # The planned wait counts, not the time that passed: a process that was stopped has read nothing meanwhile.
        transport.silent_ms += transport.wait_ms
        if transport.silent_ms >= SILENT_HALVES_MAX * half_ms:
            return None
    left_ms = transport.sent_ms + half_ms - now_ms
    if left_ms <= tick_ms or transport.is_waiting:
        left_ms = half_ms
        if not transport.is_waiting:
            connection.send(HEARTBEAT)
    transport.wait_ms = left_ms
    return max(0, left_ms - tick_ms)
