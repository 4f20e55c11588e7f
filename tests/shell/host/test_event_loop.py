"""The broker's selector: a bounded number of events at once, each in its turn, and none of what is gone."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from openclust.shell.host.event_loop import EVENTS_AT_ONCE, BoundedSelector

pytestmark = pytest.mark.sockets

PAIRS = EVENTS_AT_ONCE + 50


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    """Sockets that all have something to be read."""
    made = [socket.socketpair() for _ in range(PAIRS)]
    for one, _ in made:
        one.send(b"x")
    yield made
    for one, other in made:
        one.close()
        other.close()


def test_all_that_is_ready_is_told_a_bounded_number_at_a_time(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    with BoundedSelector() as selector:
        for _, other in pairs:
            selector.register(other, selectors.EVENT_READ)
        first, second = selector.select(0), selector.select(0)
    assert (len(first), len(second)) == (EVENTS_AT_ONCE, PAIRS - EVENTS_AT_ONCE)
    assert {key.fd for key, _ in first + second} == {other.fileno() for _, other in pairs}


def test_what_went_before_its_turn_is_not_told(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    with BoundedSelector() as selector:
        for _, other in pairs:
            selector.register(other, selectors.EVENT_READ)
        told = {key.fd for key, _ in selector.select(0)}
        waiting = [other for _, other in pairs if other.fileno() not in told]
        selector.unregister(waiting[0])
        selector.modify(waiting[1], selectors.EVENT_WRITE)
        assert {key.fd for key, _ in selector.select(0)} == {each.fileno() for each in waiting[2:]}
