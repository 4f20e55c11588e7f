"""The listener, with a socket and an event loop that only pretend."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from openclust.shell.net.listener import ACCEPTS_A_TURN, RETRY_S, Listener


class Accepted:
    """A socket of a client."""

    def __init__(self) -> None:
        self.is_blocking = True

    def setblocking(self, is_blocking: bool) -> None:
        self.is_blocking = is_blocking


class Port:
    """A listening socket: so many clients wait, then an error comes."""

    def __init__(self, waiting: int, error: OSError) -> None:
        self.waiting = waiting
        self.error = error
        self.is_closed = False

    def accept(self) -> tuple[Accepted, tuple[str, int]]:
        if not self.waiting:
            raise self.error
        self.waiting -= 1
        return Accepted(), ("10.0.0.1", self.waiting)

    def close(self) -> None:
        self.is_closed = True


class Loop:
    """The part of an event loop that a listener uses."""

    def __init__(self) -> None:
        self.readable: Callable[[], None] | None = None
        self.later: list[tuple[float, Callable[[], None]]] = []

    def add_reader(self, _: Any, call: Callable[[], None]) -> None:
        self.readable = call

    def remove_reader(self, _: Any) -> None:
        self.readable = None

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> Loop:
        self.later.append((delay_s, lambda: call(*arguments)))
        return self

    def cancel(self) -> None:
        self.later.clear()


class House:
    def __init__(self, waiting: int, error: OSError) -> None:
        self.loop, self.port = Loop(), Port(waiting, error)
        self.accepted: list[tuple[Any, tuple[str, int]]] = []
        self.listener = Listener(
            self.loop,  # type: ignore[arg-type]
            self.port,  # type: ignore[arg-type]
            lambda *each: self.accepted.append(each),
        )

    def ready(self) -> None:
        assert self.loop.readable is not None
        self.loop.readable()


NONE_LEFT = BlockingIOError()


def test_all_clients_that_wait_are_accepted() -> None:
    house = House(3, NONE_LEFT)
    house.ready()
    assert [address for _, address in house.accepted] == [("10.0.0.1", 2), ("10.0.0.1", 1), ("10.0.0.1", 0)]
    assert not any(sock.is_blocking for sock, _ in house.accepted)


def test_others_have_a_turn_between_very_many_clients() -> None:
    house = House(ACCEPTS_A_TURN + 1, NONE_LEFT)
    house.ready()
    assert len(house.accepted) == ACCEPTS_A_TURN
    house.ready()
    assert len(house.accepted) == ACCEPTS_A_TURN + 1


def test_a_client_that_has_left_already_is_none() -> None:
    house = House(0, ConnectionAbortedError())
    house.ready()
    assert house.loop.readable is not None and not house.accepted


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_a_free_file_it_pauses_and_logs_the_way_out(number: int, caplog: pytest.LogCaptureFixture) -> None:
    house = House(0, OSError(number, "Too many open files"))
    house.ready()
    assert house.loop.readable is None
    assert caplog.messages == ["not accepting for 1 s: Too many open files; raise the limit of open files"]
    ((delay_s, retry),) = house.loop.later
    assert delay_s == RETRY_S
    retry()
    house.port.waiting, house.port.error = 1, NONE_LEFT
    house.ready()
    assert len(house.accepted) == 1


def test_closing_ends_a_pause_too() -> None:
    house = House(0, OSError(errno.EMFILE, "Too many open files"))
    house.ready()
    house.listener.close()
    assert house.port.is_closed
    assert not house.loop.later and house.loop.readable is None
