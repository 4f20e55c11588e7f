"""Heartbeats: the longest silence that a client may see, and the longest that it may keep."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.limits import Limits
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.shell.net.heartbeats import beat, first_wait_ms
from openclust.shell.net.stream import Transport
from openclust.shell.net.timer_wheel import TimerWheel
from openclust.wire.frames import HEARTBEAT

TICK_MS = 100
START_MS = 10_000


class Line:
    """A transport whose client speaks and takes bytes as the test says."""

    heard = True
    is_waiting = False
    silent_ms = wait_ms = born_ms = 0
    sent_ms = START_MS

    def __init__(self, interval_s: int) -> None:
        broker = Broker(Limits(), random_name=lambda: "name")
        broker.set_clock(START_MS, 0)
        self.connection = Connection(broker, Peer("127.0.0.1", 1, True))
        self.connection.heartbeat_s = interval_s
        self.wheel: TimerWheel[Line] = TimerWheel(64, TICK_MS, START_MS)
        self.wheel.add(self, first_wait_ms(self.transport, interval_s, TICK_MS))
        self.is_given_up = False

    @property
    def transport(self) -> Transport:
        return cast(Transport, self)

    def tick(self, now_ms: int) -> int:
        """The wheel goes round as in the server; how many heartbeats were written."""
        for _ in self.wheel.advance(now_ms):
            wait_ms = beat(self.connection, self.transport, now_ms, TICK_MS)
            if wait_ms is None:
                self.is_given_up = True
            else:
                self.wheel.add(self, wait_ms)
        beats = self.connection.out.count(HEARTBEAT)
        self.connection.out.clear()
        if beats:
            self.sent_ms = now_ms
        return beats

    def longest_silence_ms(self, messages_ms: Iterable[int], until_ms: int) -> int:
        """The client hears nothing for so long, where messages go to it at these times, counted from the start."""
        written = sorted(START_MS + each for each in messages_ms)
        longest, last = 0, START_MS
        for now_ms in range(START_MS, START_MS + until_ms):
            if written and written[0] == now_ms:
                longest, last, self.sent_ms = max(longest, now_ms - last), now_ms, written.pop(0)
            if now_ms % TICK_MS == 0:
                self.heard = True
                if self.tick(now_ms):
                    longest, last = max(longest, now_ms - last), now_ms
        return max(longest, START_MS + until_ms - last)


@pytest.mark.parametrize("interval_s", [1, 2, 60])
@pytest.mark.parametrize("message_at", [None, 0.02, 0.49, 0.51, 0.9])
def test_the_broker_is_never_silent_for_longer_than_half_an_interval_and_a_tick(
    interval_s: int, message_at: float | None
) -> None:
    """A message in one half must not stand for the heartbeat of the next."""
    messages = [] if message_at is None else [int((turn + message_at) * interval_s * 1_000) for turn in (0, 1, 3)]
    assert Line(interval_s).longest_silence_ms(messages, 6_000 * interval_s) <= 500 * interval_s + TICK_MS


def test_who_is_sent_messages_all_the_time_is_sent_no_heartbeats() -> None:
    line = Line(1)
    beats = 0
    for now_ms in range(START_MS, START_MS + 5_000, TICK_MS):
        line.heard, line.sent_ms = True, now_ms
        beats += line.tick(now_ms)
    assert beats == 0


def test_an_idle_connection_is_sent_two_heartbeats_an_interval() -> None:
    line = Line(2)
    beats = 0
    for now_ms in range(START_MS, START_MS + 20_000, TICK_MS):
        line.heard = True
        beats += line.tick(now_ms)
    assert beats == pytest.approx(20, abs=2)


def test_heartbeats_do_not_pile_up_before_a_client_that_reads_nothing() -> None:
    line = Line(1)
    line.is_waiting = True
    drained_ms = START_MS + 5_050
    for now_ms in range(START_MS, drained_ms, TICK_MS):
        line.heard = True
        assert line.tick(now_ms) == 0
    line.is_waiting, line.sent_ms = False, drained_ms
    beats = 0
    for now_ms in range(drained_ms + 50, drained_ms + 550, TICK_MS):
        line.heard = True
        beats += line.tick(now_ms)
    assert beats == 1


@pytest.mark.parametrize("interval_s", [1, 10])
def test_a_client_that_says_nothing_is_given_up_after_two_intervals(interval_s: int) -> None:
    line = Line(interval_s)
    for now_ms in range(START_MS, START_MS + 4_000 * interval_s, TICK_MS):
        line.tick(now_ms)
        if line.is_given_up:
            break
    assert 2_000 * interval_s <= now_ms - START_MS <= 2_600 * interval_s


def test_a_client_that_is_not_read_is_not_given_up() -> None:
    line = Line(1)
    line.connection.hold = "memory"
    for now_ms in range(START_MS, START_MS + 10_000, TICK_MS):
        line.tick(now_ms)
    assert not line.is_given_up


def test_a_broker_that_stood_still_takes_nobody_for_gone() -> None:
    line = Line(1)
    for now_ms in (START_MS + 500, START_MS + 60_000, START_MS + 60_100):
        line.tick(now_ms)
    assert not line.is_given_up
