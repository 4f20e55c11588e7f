from __future__ import annotations

import threading

import pytest

from openclust.bench.brokers.bench_cluster import ClusterBenchOptions
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.load.work import Figures
from openclust.bench.rows.rejoin import ContinuousLoad, Rejoining, rows_of_rejoining


class Turns:
    """Stands in for a generator: gives back these figures, then waits for `last`, then fails or repeats the last."""

    def __init__(self, figures: list[Figures], failing: str = "") -> None:
        self._figures, self._failing = figures, failing
        self.seen = threading.Event()

    def run(self, seconds: float) -> Figures:
        if self._figures:
            return self._figures.pop(0)
        self.seen.set()
        if self._failing:
            raise BenchError(self._failing)
        return Figures()


def turn(*samples: tuple[int, int]) -> Figures:
    return Figures(
        messages=len(samples),
        confirmed_at_ns=[at for at, _ in samples],
        confirm_latencies_ns=[took for _, took in samples],
    )


def test_latencies_belong_to_the_time_in_which_the_confirm_came() -> None:
    turns = Turns([turn((10, 1_000_000), (20, 2_000_000)), turn((30, 3_000_000))])
    load = ContinuousLoad(turns)  # type: ignore[arg-type]
    assert turns.seen.wait(5)
    load.end()
    assert load.messages == 3
    assert load.p99_ms(0, 20) == 1.0
    assert load.p99_ms(20, 31) == 3.0
    assert load.p99_ms(31, 99) is None


def test_a_load_that_broke_down_is_said_at_its_end() -> None:
    turns = Turns([turn((10, 1))], failing="p1 closed the publisher")
    load = ContinuousLoad(turns)  # type: ignore[arg-type]
    assert turns.seen.wait(5)
    with pytest.raises(BenchError, match="p1 closed the publisher"):
        load.end()


def test_the_p99_of_the_whole_return_is_held_against_that_before() -> None:
    p99: dict[str, float | None] = {"before": 2.0, "starting": 5.0, "catching up": 3.0, "whole return": 4.0}
    found = Rejoining(online_s=0.5, caught_up_s=1.5, received_bytes=None, behind=7, missed_messages=70, p99_ms=p99)
    wanted = ClusterBenchOptions(
        rounds=1,
        seconds=1.0,
        warm_up=0.0,
        size=100,
        subscribers=1,
        window=1,
        bindings=1,
        crowd=1,
        per_connection=1,
        messages=1,
        unconfirmed=1,
        prefetch=1,
        rate=7.0,
        down=10.0,
        compare=(),
    )
    took, latency = rows_of_rejoining(wanted, found)
    assert (took.value, took.unit) == (1.5, "s")
    assert "7 entries for 70 messages, bytes unknown" in took.shown
    assert (latency.value, latency.met) == (2.0, True)
