"""What one broker does in which order, against what is known of such things without simulating."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from topology.simulate.input.calibration import shipped
from topology.simulate.queueing.broker_thread import Costs, Done, Jobs, SimulatedThread

SERVICE_US = 100.0
T_999 = 3.65
"""Student's t for a 99.9 % interval of 30 means."""


def jobs_of(
    at: object,
    *,
    base: object = 0.0,
    deliveries: object = 0,
    topic: object = 0,
    size: object = 0,
    clients: object = 0,
    batch: object = 0.0,
) -> Jobs:
    """Whatever is one number is that of all jobs."""
    column = np.asarray(at, dtype=np.float64)
    others = (base, deliveries, topic, size, clients, batch)
    return Jobs(column, *(np.array(np.broadcast_to(np.asarray(each, dtype=float), column.shape)) for each in others))


def worked(jobs: Jobs, costs: Costs, cuts: list[int] | None = None) -> Done:
    turns = SimulatedThread(costs)
    bounds = [0, *sorted(cuts or []), len(jobs.at_us)]
    parts = [turns.take(Jobs(*(column[a:b] for column in jobs))) for a, b in pairwise(bounds)]
    parts.append(turns.end())
    return Done(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def costs_of(turn_us: float = 0, delivery_us: float = 0, write_us: float = 0, write_kb_us: float = 0) -> Costs:
    return Costs(turn_us, delivery_us, write_us, write_kb_us)


WAITING = Costs(turn_us=10, delivery_us=0, write_us=0, write_kb_us=0, wait_us_per_ms=20)


def poisson(rate_us: float, count: int, seed: int) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate_us, count))


def interval(values: np.ndarray, batches: int = 30) -> tuple[float, float]:
    """99.9 %, from the means of batches that are long against what lingers from one to the next."""
    means = np.array([part.mean() for part in np.array_split(values, batches)])
    half = T_999 * means.std(ddof=1) / np.sqrt(batches)
    return means.mean() - half, means.mean() + half


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_the_wait_of_jobs_that_come_at_random_and_cost_the_same_is_that_of_m_d_1(load: float) -> None:
    at = poisson(load / SERVICE_US, 300_000, seed=7)
    done = worked(jobs_of(at, base=SERVICE_US), costs_of())

    low, high = interval((done.begun_us - at)[5_000:])

    expected = load * SERVICE_US / (2 * (1 - load))
    assert low < expected < high
    assert high - low < expected / 2


def test_every_job_waits_as_long_as_lindley_says() -> None:
    chance = np.random.default_rng(3)
    at = np.cumsum(chance.exponential(100, 5_000))
    base = np.round(chance.exponential(80, 5_000))
    done = worked(jobs_of(at, base=base), costs_of())

    wait, waits = 0.0, []
    for gap, cost in zip(np.diff(at, append=at[-1]), base, strict=True):
        waits.append(wait)
        wait = max(0.0, wait + cost - gap)

    assert done.begun_us - at == pytest.approx(np.array(waits), abs=1e-3)


def test_the_kth_of_equal_subscribers_is_reached_after_base_and_k_costs() -> None:
    """`writes_from_us` to `writes_to_us` is so wide that the kth of n is at k / n of it."""
    done = worked(jobs_of([1_000], base=50, deliveries=200, clients=500), costs_of(write_us=4))

    assert done.begun_us == [1_000]
    assert done.relayed_us == done.writes_from_us == [1_050]
    for k in (1, 37, 200):
        assert done.writes_from_us + (done.writes_to_us - done.writes_from_us) * k / 200 == 1_050 + 4 * k


def test_nothing_is_delivered_where_nobody_listens() -> None:
    done = worked(jobs_of([1_000, 1_010], base=50), costs_of(turn_us=5, write_us=4))

    assert done.writes_from_us.tolist() == done.writes_to_us.tolist() == done.relayed_us.tolist() == [1_055, 1_110]


def test_work_is_conserved() -> None:
    """A broker that is never idle is busy exactly as long as its work takes."""
    chance = np.random.default_rng(5)
    at = np.sort(chance.uniform(0, 500_000, 5_000))
    at[0] = 0
    topic = chance.integers(0, 20, 5_000)
    jobs = jobs_of(at, base=40, deliveries=topic * 20, topic=topic, size=300, clients=2_000)
    done = worked(jobs, costs_of(15, 0.3, 3.7, 0.3))

    assert done.cost_us.sum() == pytest.approx(done.writes_to_us.max(), rel=1e-9)
    assert done.writes_to_us.max() > 550_000


def test_a_broker_that_is_never_idle_works_in_order() -> None:
    chance = np.random.default_rng(6)
    at = np.sort(chance.uniform(0, 100_000, 3_000))
    topic = chance.integers(0, 5, 3_000)
    done = worked(jobs_of(at, base=30, deliveries=topic, topic=topic, clients=50), costs_of(15, 0.3, 3.7))

    assert (np.diff(done.begun_us) > 0).all()
    assert (np.diff(done.relayed_us) >= 0).all()
    assert (done.begun_us >= at).all()
    assert (done.relayed_us > done.begun_us).all()
    assert (done.writes_to_us >= done.writes_from_us).all()
    assert (done.writes_from_us >= done.relayed_us - 1e-6).all()


def test_a_turn_costs_the_more_the_longer_the_broker_had_nothing_to_do_before_it() -> None:
    # The first after an eternity; a millisecond after the first was done; while that one is done; then two at once.
    done = worked(jobs_of([0, 1_110, 1_120, 3_220, 3_220], base=100), WAITING)

    assert done.cost_us == pytest.approx([310, 130, 110, 124.9, 124.9], abs=0.01)
    assert done.begun_us == pytest.approx([210, 1_140, 1_250, 3_269.8, 3_369.8], abs=0.01)


def test_jobs_of_a_turn_share_its_writes() -> None:
    together = worked(jobs_of([0] * 16, deliveries=1_000, clients=1_000), costs_of(0, 0.3, 3.7))
    apart = worked(jobs_of(np.arange(16) * 1e6, deliveries=1_000, clients=1_000), costs_of(0, 0.3, 3.7))

    assert together.cost_us.sum() == pytest.approx(16 * 300 + 3_700)
    assert apart.cost_us.sum() == pytest.approx(16 * (300 + 3_700))
    assert together.writes_from_us == pytest.approx([4_800] * 16)
    assert together.writes_to_us == pytest.approx([4_800 + 3_700] * 16)


def test_sixteen_in_flight_cost_as_little_against_one_as_was_measured() -> None:
    """docs/performance.md: 4.29 and, since outboxes are written in parts, 0.41 us a delivery to 1,000 subscribers."""
    ours = shipped()
    costs = Costs(ours.turn_us, ours.delivery_us, ours.write_us, ours.write_kb_us)

    def each_us(in_flight: int) -> float:
        at = np.repeat(np.arange(50) * 1e6, in_flight)
        done = worked(jobs_of(at, base=ours.publish_us, deliveries=1_000, size=100, clients=1_000), costs)
        return done.cost_us.sum() / (1_000 * len(at))

    assert each_us(1) / each_us(16) == pytest.approx(4.29 / 0.41, rel=0.15)


def test_connections_of_different_topics_are_taken_for_independent() -> None:
    done = worked(jobs_of([0, 0], deliveries=[400, 500], topic=[1, 2], clients=1_000), costs_of(write_us=1))

    assert done.cost_us.sum() == pytest.approx(1_000 * (1 - 0.6 * 0.5))
    assert done.cost_us[0] == pytest.approx(400)


def test_what_waits_to_be_written_does_not_hold_up_what_comes() -> None:
    """A part of the writes later the broker has heard it, and those not yet written get both in one write."""
    done = worked(jobs_of([0, 1_000], deliveries=1_000, clients=1_000), costs_of(delivery_us=0.5, write_us=10))

    begins = 500 + 64 * 10
    assert done.begun_us.tolist() == [0, begins]
    assert done.relayed_us.tolist() == [500, begins + 500]
    assert done.writes_to_us[0] == pytest.approx(500 + 500 + 1_000 * 10)
    assert done.writes_from_us[1] == begins + 500
    assert done.writes_to_us[1] == pytest.approx(begins + 500 + 1_000 * 10)
    assert done.cost_us.tolist() == pytest.approx([500 + 10_000, 500 + 640])


def test_a_turn_takes_no_more_than_sixty_four_jobs() -> None:
    done = worked(jobs_of([0] * 65, base=1), costs_of(turn_us=100))

    assert done.relayed_us.tolist() == [164] * 64 + [164 + 101]


def test_a_lone_delivery_among_others_of_a_turn_is_somewhere_among_them() -> None:
    done = worked(jobs_of([0] * 10, deliveries=1, topic=np.arange(10), clients=1e9), costs_of(write_us=10))

    assert done.writes_to_us == pytest.approx(np.arange(1, 11) * 10, rel=1e-6)


def test_bytes_cost_by_the_kilobyte() -> None:
    done = worked(jobs_of([0, 0], deliveries=100, size=5_000, clients=100), costs_of(write_us=2, write_kb_us=0.5))

    assert done.cost_us.sum() == pytest.approx(100 * 2 + 2 * 100 * 5 * 0.5)
    assert done.writes_to_us.tolist() == pytest.approx([700, 700])


@st.composite
def streams(draw: st.DrawFn) -> tuple[Jobs, Costs, list[int]]:
    count = draw(st.integers(1, 150))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    at = np.cumsum(chance.integers(0, draw(st.sampled_from([3, 30, 300, 3_000])), count))
    topic = chance.integers(0, draw(st.integers(1, 5)), count)
    wanted = chance.integers(0, draw(st.sampled_from([2, 100, 1_000])), 5)
    deliveries = wanted[topic] * chance.integers(0, 2, count)
    base = chance.uniform(0, 20, count)
    jobs = jobs_of(at, base=base, deliveries=deliveries, topic=topic, size=1_000, clients=700)
    costs = costs_of(draw(st.sampled_from([0, 15])), 0.3, draw(st.sampled_from([0, 3.7])), 0.3)
    return jobs, costs, draw(st.lists(st.integers(0, count), max_size=8))


@given(streams())
@examples(50)
def test_the_same_is_found_however_the_stream_is_cut(stream: tuple[Jobs, Costs, list[int]]) -> None:
    jobs, costs, cuts = stream
    whole, parts = worked(jobs, costs), worked(jobs, costs, cuts)

    for name in Done._fields:
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist(), name


@given(streams())
@examples(50)
def test_whatever_comes_every_job_is_done_and_what_was_paid_is_what_it_took(
    stream: tuple[Jobs, Costs, list[int]],
) -> None:
    jobs, costs, _ = stream
    done = worked(jobs, costs)

    assert len(done.begun_us) == len(jobs.at_us)
    assert (done.begun_us >= jobs.at_us).all()
    assert (done.writes_to_us >= done.writes_from_us).all()
    assert (done.writes_from_us >= done.relayed_us - 1e-6).all()
    # The time from the first job to the last write is either paid by a job or idle.
    idle = done.writes_to_us.max() - jobs.at_us[0] - done.cost_us.sum()
    assert idle >= -1e-3
