"""What gives way pauses while it works, and leaves nothing behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from openclust.shell.host import start_throttle as module
from openclust.shell.host.start_throttle import PAUSE_S, RUN_S, giving_way

NO_CLOCK = (0.0, 0.0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(module.time, "sleep", found.append)
    return found


LONG_S = 10.0
"""A machine with other work may keep this process from its core for a while."""


def work(is_enough: Callable[[], bool], at_most_s: float) -> None:
    end = time.monotonic() + at_most_s
    while time.monotonic() < end and not is_enough():
        pass


def test_work_pauses_again_and_again(pauses: list[float]) -> None:
    with giving_way():
        work(lambda: len(pauses) >= 5, LONG_S)
    assert len(pauses) >= 5
    assert set(pauses) == {PAUSE_S}


def test_after_it_nothing_pauses(pauses: list[float]) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(ImportError), giving_way():
        raise ImportError
    pauses.clear()
    assert signal.getitimer(signal.ITIMER_REAL) == NO_CLOCK
    assert signal.getsignal(signal.SIGALRM) is before
    work(lambda: False, 10 * RUN_S)
    assert pauses == []


def test_a_pause_that_comes_too_late_sets_no_clock(pauses: list[float]) -> None:
    handlers: list[Callable[..., Any]] = []
    with giving_way():
        handler = signal.getsignal(signal.SIGALRM)
        assert callable(handler)
        handlers.append(handler)
    pauses.clear()
    handlers[0](signal.SIGALRM, None)
    assert pauses == []
    assert signal.getitimer(signal.ITIMER_REAL) == NO_CLOCK


def test_a_system_without_such_a_clock_just_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "setitimer")
    done = []
    with giving_way():
        done.append(True)
    assert done
