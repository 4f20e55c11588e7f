"""Brokers that wait for one another's core, against what is known of such waits, and against brokers that do not."""

from __future__ import annotations

from itertools import pairwise
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from topology.simulate.input.calibration import shipped
from topology.simulate.input.layout import LocalClients, SharedHost
from topology.simulate.queueing.broker_thread import Costs, Done, Jobs, SimulatedThread
from topology.simulate.queueing.host_threads import HostRow
from topology.simulate.queueing.host_turns import HostTurns
from topology.simulate.queueing.queueing import costs_of
from topology.simulate.spark.schemas import JobKind

FREE = Costs(turn_us=0, delivery_us=0, write_us=0, write_kb_us=0)
T_999 = 3.65
"""Student's t for a 99.9 % interval of 30 means."""


CHORE = HostRow(**(dict.fromkeys(HostRow._fields, 0.0) | {"source": -1, "kind": JobKind.CHORE, "topic": 1}))


def job(at_us: float, broker: int = 0, **others: float) -> HostRow:
    return CHORE._replace(at_us=at_us, broker=broker, **others)


def worked(host: SharedHost, costs: Costs, rows: list[HostRow], cuts: list[int] | None = None) -> Done:
    turns = HostTurns(host, costs)
    bounds = [0, *sorted(cuts or []), len(rows)]
    parts = [turns.take(rows[a:b]) for a, b in pairwise(bounds)]
    parts.append(turns.end())
    return Done(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def alone(costs: Costs, rows: list[HostRow]) -> Done:
    turns = SimulatedThread(costs)
    columns = zip(*(row[: len(Jobs._fields)] for row in rows), strict=True)
    parts = turns.take(Jobs(*(np.array(column, dtype=float) for column in columns))), turns.end()
    return Done(*(np.concatenate(both) for both in zip(*parts, strict=True)))


def streams(seed: int, brokers: int, count: int, apart_us: float) -> list[HostRow]:
    """Messages of a few topics, to some or to more subscribers than are written to at once."""
    chance = np.random.default_rng(seed)
    at = np.cumsum(chance.exponential(apart_us / brokers, count))
    wanted = chance.integers(0, 150, 5)
    return [
        job(
            float(at_us),
            int(chance.integers(brokers)),
            base_us=float(chance.integers(1, 60)),
            deliveries=float(wanted[topic]),
            topic=float(topic),
            size=100.0,
            clients=200.0,
            batch_us=float(topic % 2 * 30),
            publication=float(number),
            kind=JobKind.PUBLISHED,
        )
        for number, (at_us, topic) in enumerate(zip(at, chance.integers(0, 5, count).tolist(), strict=True))
    ]


@examples(20)
@given(st.integers(0, 2**32), st.sampled_from([100.0, 400.0, 3_000.0]))
def test_with_a_core_for_each_they_do_what_brokers_alone_do(seed: int, apart_us: float) -> None:
    costs, rows = costs_of(shipped())._replace(wait_us_per_ms=20.0), streams(seed, 3, 120, apart_us)
    found = worked(SharedHost(brokers=(0, 1, 2), cores=3), costs, rows)

    for broker in range(3):
        mine = [number for number, row in enumerate(rows) if row.broker == broker]
        expected = alone(costs, [rows[number] for number in mine])
        for column, wanted in zip(found, expected, strict=True):
            assert column[mine] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.slow
def test_jobs_at_random_wait_for_two_cores_as_erlang_says() -> None:
    chance, cores, load, mean_us, brokers = np.random.default_rng(5), 2, 0.7, 100.0, 5_000
    count = 120_000
    at = np.cumsum(chance.exponential(mean_us / (load * cores), count))
    base, whose = chance.exponential(mean_us, count), chance.integers(0, brokers, count)
    rows = [job(float(a), int(b), base_us=float(c)) for a, b, c in zip(at, whose, base, strict=True)]
    done = worked(SharedHost(brokers=tuple(range(brokers)), cores=cores), FREE, rows)

    waits = (done.begun_us - at)[2_000:]
    means = np.array([part.mean() for part in np.array_split(waits, 30)])
    half = T_999 * means.std(ddof=1) / np.sqrt(30)
    offered = load * cores
    full = offered**cores / factorial(cores) / (1 - load)
    waiting = full / (sum(offered**k / factorial(k) for k in range(cores)) + full)
    expected = waiting * mean_us / (cores * (1 - load))
    assert means.mean() - half < expected < means.mean() + half
    assert half < expected / 4


@examples(15)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 150), max_size=5))
def test_it_is_the_same_however_the_rows_are_cut(seed: int, cuts: list[int]) -> None:
    host = SharedHost(
        brokers=(0, 1, 2), cores=2, clients=LocalClients(message_us=20, share=0.1, others_us=150, others_every_us=5_000)
    )
    rows = streams(seed, 3, 150, 300)
    whole, cut = worked(host, costs_of(shipped()), rows), worked(host, costs_of(shipped()), rows, cuts)

    assert all(np.array_equal(a, b) for a, b in zip(whole, cut, strict=True))
    assert all(len(column) == len(rows) for column in whole)


def test_of_three_that_are_woken_at_once_one_waits_for_a_core() -> None:
    done = worked(
        SharedHost(brokers=(0, 1, 2), cores=2), FREE, [job(1_000, broker, base_us=100) for broker in range(3)]
    )

    assert done.begun_us.tolist() == [1_000, 1_000, 1_100]
    assert done.cost_us.tolist() == [100, 100, 100]


def test_who_has_more_to_do_stands_behind_who_waits() -> None:
    # More writes than one turn has; the other broker's job comes during the first of them.
    costs = Costs(turn_us=10, delivery_us=0, write_us=1, write_kb_us=0)
    long = job(0, 0, deliveries=128, clients=500, kind=JobKind.PUBLISHED)
    done = worked(SharedHost(brokers=(0, 1), cores=1), costs, [long, job(20, 1)])

    assert done.begun_us.tolist() == [10, 10 + 64 + 10]
    assert done.writes_to_us[0] == 10 + 64 + 10 + 64


def chain(**others: float) -> list[HostRow]:
    """A message from a secondary, through the root, to another; each way takes 50 us."""
    message = {"publication": 7.0, "topic": 1.0} | others
    return [
        job(1_000, 2, kind=JobKind.PUBLISHED, copies=1, base_us=100, **message),
        job(1_050, 0, kind=JobKind.PASSED_ON, source=2, copies=1, base_us=30, **message),
        job(1_100, 3, kind=JobKind.FROM_ROOT, source=0, base_us=5, **message),
    ]


def test_a_copy_comes_when_it_has_left_and_is_told_by_the_clock_of_who_waited_nowhere() -> None:
    # The root has something else to do when the copy comes at 1,150, until 1,180: not when it would have without waits.
    rows = [*chain(), job(1_140, 0, base_us=40)]
    done = worked(SharedHost(brokers=(0, 1, 2, 3), cores=3), FREE, rows)

    # What the first two kept it is added to its latency elsewhere: 100 us, and 30 us of waiting and 30 us of work.
    assert done.relayed_us.tolist() == [1_100, 1_110, 1_105, 1_180]
    assert done.begun_us.tolist() == [1_000, 1_080, 1_100, 1_140]


def test_a_copy_from_another_host_comes_when_it_comes() -> None:
    done = worked(SharedHost(brokers=(0, 3), cores=1), FREE, chain()[1:])
    assert done.begun_us.tolist() == [1_050, 1_100]


def test_a_copy_of_which_nothing_is_known_is_done_in_the_end() -> None:
    done = worked(SharedHost(brokers=(0, 2, 3), cores=1), FREE, chain()[1:])
    assert len(done.begun_us) == 2


@pytest.mark.parametrize(("left_max", "waited_us"), [(2, [50, 50]), (1, [0, 50])])
def test_of_too_many_messages_with_copies_to_other_hosts_the_first_is_forgotten(
    left_max: int, waited_us: list[float]
) -> None:
    # Each leaves broker 0 after 100 us, with a copy to another host and one to broker 1, which is busy when it comes.
    left = [job(at, 0, publication=at, copies=2, base_us=100, kind=JobKind.PUBLISHED) for at in (0, 1_000)]
    copies = [job(2_000 + at, 1, publication=at, source=0, kind=JobKind.RELAYED) for at in (0, 1_000)]
    others = [job(at, 1, base_us=100) for at in (2_050, 3_050)]
    turns = HostTurns(SharedHost(brokers=(0, 1), cores=2), FREE, left_max)
    rows = sorted([*left, *copies, *others], key=lambda row: row.at_us)
    begun = [*turns.take(rows).begun_us, *turns.end().begun_us]

    assert [begun[rows.index(row)] - row.at_us for row in copies] == waited_us


def test_clients_of_the_host_read_when_they_have_a_core() -> None:
    clients = LocalClients(message_us=40, share=0.5)
    costs = Costs(turn_us=0, delivery_us=0, write_us=10, write_kb_us=0)
    published = job(0, 0, base_us=100, deliveries=1, clients=10, kind=JobKind.PUBLISHED)
    rows = [published, job(5, 1, base_us=300)]
    done = worked(SharedHost(brokers=(0, 1), cores=1, clients=clients), costs, rows)

    # The broker until 110; then the clients, who still had to do with the publishing; the other broker behind them.
    assert done.writes_to_us[0] == 110 + 40
    assert done.begun_us.tolist() == [0, 150 + 0.5 * 40]
    assert done.cost_us.tolist() == [110, 300]


def test_who_looks_from_time_to_time_takes_a_core_then_and_nobody_wakes_it() -> None:
    clients = LocalClients(message_us=0, share=0, others_us=100, others_every_us=1_000)
    rows = [job(at_us, 0, base_us=10) for at_us in (950, 1_010, 1_500, 1_990, 2_050, 9_050)]
    done = worked(SharedHost(brokers=(0, 1), cores=1, clients=clients), FREE, rows)

    assert done.begun_us.tolist() == [950, 1_100, 1_500, 1_990, 2_100, 9_100]


def test_who_only_reads_waits_for_a_core_too() -> None:
    clients = LocalClients(message_us=40, share=0.5)
    relayed = job(0, 0, base_us=100, deliveries=1, clients=10, kind=JobKind.RELAYED, source=5)
    rows = [relayed, job(5, 1, base_us=300)]
    done = worked(SharedHost(brokers=(0, 1), cores=1, clients=clients), FREE, rows)

    assert done.begun_us.tolist() == [0, 100]
    assert done.writes_to_us[0] == 400
