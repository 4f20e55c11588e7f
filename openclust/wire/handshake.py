"""How a connection begins and ends: the server's side as a table of transitions."""

from __future__ import annotations

from enum import Enum

from openclust.wire.codec import name_of
from openclust.wire.errors import COMMAND_INVALID, ConnectionError
from openclust.wire.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
)


class State(Enum):
    """Where a connection stands."""

    GREETING = "waiting for the protocol header"
    STARTING = "waiting for start-ok"
    SECURING = "waiting for secure-ok"
    CHECKING = "checking the login"
    TUNING = "waiting for tune-ok"
    OPENING = "waiting for open"
    OPEN = "open"
    CLOSING = "waiting for close-ok"
    CLOSED = "closed"


_MET = (State.STARTING, State.SECURING, State.TUNING, State.OPENING, State.OPEN)

TRANSITIONS: dict[tuple[State, type[Method]], State] = {
    (State.STARTING, ConnectionStartOk): State.CHECKING,
    (State.SECURING, ConnectionSecureOk): State.CHECKING,
    (State.TUNING, ConnectionTuneOk): State.OPENING,
    (State.OPENING, ConnectionOpen): State.OPEN,
    (State.OPEN, ConnectionUpdateSecret): State.OPEN,
    (State.CLOSING, ConnectionClose): State.CLOSED,
    (State.CLOSING, ConnectionCloseOk): State.CLOSED,
    **{(state, ConnectionClose): State.CLOSED for state in _MET},
}
"""What a client may send on channel 0, and what comes of it; anything else is a 503."""


def step(state: State, method: type[Method]) -> State:
    """The state after `method`; 503 where it has no place."""
    after = TRANSITIONS.get((state, method))
    if after is None:
        raise ConnectionError(COMMAND_INVALID, f"{name_of(method)} while {state.value}")
    return after


def negotiate(ours: int, theirs: int) -> int:
    """The smaller of two maxima, of which 0 is "no limit"."""
    if not ours or not theirs:
        return ours or theirs
    return min(ours, theirs)
