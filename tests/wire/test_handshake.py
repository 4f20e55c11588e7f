"""The handshake: what has its place, what has none, and what two sides agree on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.wire.codec import name_of
from openclust.wire.errors import COMMAND_INVALID, ConnectionError
from openclust.wire.handshake import TRANSITIONS, State, negotiate, step
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
from tests.support.wire import METHODS


def test_a_login_goes_from_start_ok_to_open() -> None:
    state = step(State.STARTING, ConnectionStartOk)
    assert state is State.CHECKING
    assert step(State.TUNING, ConnectionTuneOk) is State.OPENING
    assert step(State.OPENING, ConnectionOpen) is State.OPEN


def test_a_challenge_is_answered_by_secure_ok() -> None:
    assert step(State.SECURING, ConnectionSecureOk) is State.CHECKING


def test_an_open_connection_may_renew_its_secret() -> None:
    assert step(State.OPEN, ConnectionUpdateSecret) is State.OPEN


@pytest.mark.parametrize("state", [State.STARTING, State.SECURING, State.TUNING, State.OPENING, State.OPEN])
def test_a_client_may_close_at_any_time(state: State) -> None:
    assert step(state, ConnectionClose) is State.CLOSED


@pytest.mark.parametrize("method", [ConnectionClose, ConnectionCloseOk])
def test_a_close_ends_with_close_ok_or_with_the_peers_own_close(method: type[Method]) -> None:
    assert step(State.CLOSING, method) is State.CLOSED


@pytest.mark.parametrize("state", State)
def test_a_method_out_of_its_place_is_a_503_that_names_it(state: State) -> None:
    for method in METHODS:
        if (state, method) in TRANSITIONS:
            continue
        with pytest.raises(ConnectionError) as caught:
            step(state, method)
        assert caught.value.code == COMMAND_INVALID
        assert caught.value.text == f"{name_of(method)} while {state.value}"


def test_only_methods_that_clients_may_send_have_a_place() -> None:
    assert all(method.BY_CLIENT and method.ID[0] == 10 for _, method in TRANSITIONS)


def test_nothing_follows_the_end() -> None:
    assert not [state for state, _ in TRANSITIONS if state in (State.CLOSED, State.GREETING, State.CHECKING)]


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"), [(0, 0, 0), (0, 10, 10), (10, 0, 10), (10, 20, 10), (20, 10, 10), (7, 7, 7)]
)
def test_of_two_maxima_the_smaller_holds_and_0_is_none(ours: int, theirs: int, agreed: int) -> None:
    assert negotiate(ours, theirs) == agreed


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_it_does_not_matter_who_asks(ours: int, theirs: int) -> None:
    assert negotiate(ours, theirs) == negotiate(theirs, ours)
