"""The line of connections to be written, against one in which every connection is there by itself."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from tests.topology.simulate.queueing.test_broker_thread import jobs_of, worked
from topology.simulate.queueing.broker_thread import JOBS_A_TURN, Costs, Jobs
from topology.simulate.queueing.write_queue import WRITES_A_TURN, WriteQueue


def written_one_by_one(jobs: Jobs, members: list[np.ndarray], costs: Costs) -> tuple[float, np.ndarray]:
    """What a broker does, with a real set of connections for each topic: all it paid, and each job's mean delivery."""
    waiting: deque[int] = deque()
    outbox: dict[int, list[int]] = {}
    reached = [0.0] * len(jobs.at_us)
    now, paid, job = 0.0, 0.0, 0
    while job < len(jobs.at_us) or waiting:
        if not waiting:
            now = max(now, jobs.at_us[job])
        begun, taken = now, job
        while job < len(jobs.at_us) and jobs.at_us[job] <= begun and job - taken < JOBS_A_TURN:
            now += jobs.base_us[job] + jobs.deliveries[job] * costs.delivery_us
            for each in members[int(jobs.topic[job])] if jobs.deliveries[job] else ():
                if each not in outbox:
                    outbox[each] = []
                    waiting.append(each)
                outbox[each].append(job)
            job += 1
        now += costs.turn_us if job > taken else 0
        for _ in range(min(WRITES_A_TURN, len(waiting))):
            now += costs.write_us
            for one in outbox.pop(waiting.popleft()):
                reached[one] += now / jobs.deliveries[one]
        paid += now - begun
    return paid, np.array(reached)


def means(jobs: Jobs, costs: Costs) -> tuple[float, np.ndarray]:
    """The same by `SimulatedThread`. The kth of n is at k / n of the time in which they are written."""
    done = worked(jobs, costs)
    span = done.writes_to_us - done.writes_from_us
    return done.cost_us.sum(), done.writes_from_us + span * (jobs.deliveries + 1) / (2 * jobs.deliveries)


@pytest.mark.parametrize("gap_us", [400, 1_500, 4_000, 20_000])
def test_one_topics_messages_are_written_as_they_would_be_one_by_one(gap_us: int) -> None:
    costs = Costs(15, 0.3, 3.7, 0)
    at = np.round(np.cumsum(np.random.default_rng(4).exponential(gap_us, 300)))
    jobs = jobs_of(at, base=2, deliveries=1_000, clients=1_000)

    paid, reached = written_one_by_one(jobs, [np.arange(1_000)], costs)
    ours, ours_reached = means(jobs, costs)

    assert ours == pytest.approx(paid, rel=0.01)
    assert (ours_reached - at).mean() == pytest.approx((reached - at).mean(), rel=0.05)
    assert np.median(ours_reached - at) == pytest.approx(np.median(reached - at), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("topics", "each", "gap_us"), [(20, 100, 200), (20, 100, 600), (200, 20, 60), (5, 600, 1_500)])
def test_topics_that_share_subscribers_by_chance_are_written_nearly_as_one_by_one(
    topics: int, each: int, gap_us: int
) -> None:
    costs = Costs(15, 0.3, 3.7, 0)
    chance = np.random.default_rng(8)
    members = [np.sort(chance.choice(1_500, each, replace=False)) for _ in range(topics)]
    at = np.round(np.cumsum(chance.exponential(gap_us, 2_000)))
    jobs = jobs_of(at, base=2, deliveries=each, topic=chance.integers(0, topics, 2_000), clients=1_500)

    paid, reached = written_one_by_one(jobs, members, costs)
    ours, ours_reached = means(jobs, costs)

    assert ours == pytest.approx(paid, rel=0.03)
    assert (ours_reached - at).mean() == pytest.approx((reached - at).mean(), rel=0.1)


def test_a_topic_that_comes_again_before_it_is_written_has_the_same_places() -> None:
    line = WriteQueue(2.0)

    assert line.put(1, 100, 1_000, 0) == (0, 100, 100)
    assert line.put(1, 100, 1_000, 0) == (0, 100, 0)
    assert line.write(0, 0) == 64 * 2
    first, last, new = line.put(1, 100, 1_000, 0)
    assert (first, last) == (64, 164)
    assert new == 64


def test_writing_goes_on_in_parts_until_the_next_job_comes() -> None:
    line = WriteQueue(1.0)
    line.put(1, 1_000, 1_000, 0)

    assert line.write(0, 100) == 128
    assert line.write(128, 129) == 192
    assert line.write(192, 1e9) == 1_000
    assert line.is_empty
