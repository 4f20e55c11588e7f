"""The states of a connection on the server's side, and the methods that change them, as a table."""

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
    """The state of a connection."""

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
"""The methods that a client may send on channel 0 in each state, and the next state. All others are a 503."""


def step(state: State, method: type[Method]) -> State:
    """The state after `method`; 503 if the method may not come in this state."""
    after = TRANSITIONS.get((state, method))
    if after is None:
        raise ConnectionError(COMMAND_INVALID, f"{name_of(method)} while {state.value}")
    return after


def negotiate(ours: int, theirs: int) -> int:
    """The smaller of two maxima; 0 means "no limit"."""
    if not ours or not theirs:
        return ours or theirs
    return min(ours, theirs)
