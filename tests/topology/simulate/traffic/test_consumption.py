"""One shared queue with consumers, against what is known of such queues."""

from __future__ import annotations

from itertools import chain, pairwise
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.simulate.queueing.test_broker_thread import interval, poisson
from topology.simulate.traffic.consumption import Consumed, Consuming, Consumption

WORK_US = 10_000


def consumed(at_us: list[int], consuming: Consuming, cuts: list[int] | None = None) -> Consumed:
    consumption = Consumption(consuming)
    bounds = [0, *sorted(cuts or []), len(at_us)]
    parts = [consumption.take(at_us[a:b]) for a, b in pairwise(bounds)]
    return Consumed(*(list(chain(*columns)) for columns in zip(*parts, strict=True)))


def mean_wait(consumers: int, load: float) -> float:
    """Of M/D/c, in units of the service time (Crommelin 1932)."""
    offered = consumers * load
    total = 0.0
    for i in range(1, 400):
        # Terms of the Poisson distribution with mean i * offered.
        mean, term, tail, after = i * offered, exp(-i * offered), 0.0, 0.0
        for n in range(int(mean + 12 * mean**0.5) + i * consumers + 40):
            tail += term if n >= i * consumers else 0.0
            after += term if n > i * consumers else 0.0
            term *= mean / (n + 1)
        total += tail - after * consumers / offered
        if i * consumers > 20 and tail < 1e-12:
            break
    return total


def test_the_formula_for_one_consumer_is_that_of_m_d_1() -> None:
    assert mean_wait(1, 0.6) == pytest.approx(0.6 / (2 * 0.4), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("consumers", [1, 2, 5])
def test_the_wait_of_messages_that_come_at_random_is_that_of_m_d_c(consumers: int) -> None:
    load = 0.7
    at = np.floor(poisson(consumers * load / WORK_US, 300_000, seed=consumers)).astype(int)
    found = consumed(at.tolist(), Consuming(consumers, WORK_US))

    low, high = interval((np.array(found.begun_us) - at)[5_000:])

    expected = mean_wait(consumers, load) * WORK_US
    assert low < expected < high
    assert high - low < expected / 3


def test_messages_are_begun_in_order_by_whoever_is_free_first() -> None:
    found = consumed([0, 1, 2, 3, 50], Consuming(2, 10))

    assert found.begun_us == [0, 1, 10, 11, 50]
    assert found.done_us == [10, 11, 20, 21, 60]
    assert found.waiting == [0, 0, 0, 1, 0]


def test_the_next_message_takes_a_round_trip() -> None:
    assert consumed([0, 0, 0], Consuming(1, 10, 4)).begun_us == [0, 14, 28]


def test_consumers_that_need_no_time_never_let_a_message_wait() -> None:
    found = consumed([5, 5, 5, 6], Consuming(1, 0))

    assert found.begun_us == found.done_us == [5, 5, 5, 6]
    assert found.waiting == [0] * 4


def test_a_queue_without_a_consumer_is_refused() -> None:
    with pytest.raises(ValueError, match="without a consumer"):
        Consumption(Consuming(0, 10))


@given(
    st.lists(st.integers(0, 500), max_size=60).map(sorted),
    st.integers(1, 4),
    st.integers(0, 60),
    st.lists(st.integers(0, 60), max_size=5),
)
def test_the_same_is_found_however_the_messages_are_cut(at: list[int], count: int, work: int, cuts: list[int]) -> None:
    consuming = Consuming(count, work)
    found = consumed(at, consuming)

    assert consumed(at, consuming, [min(cut, len(at)) for cut in cuts]) == found
    for number, came in enumerate(at):
        assert found.waiting[number] == sum(begun > came for begun in found.begun_us[:number])
        at_once = sum(b <= found.begun_us[number] < d for b, d in zip(found.begun_us, found.done_us, strict=True))
        assert at_once <= count
