"""How clients come to their brokers, lose them and come back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.cluster.placing.rebalance import SETTLE_MS
from openclust.cluster.protocol.redirect import Redirect
from tests.support.examples import examples
from tests.support.simulate.clients import COSTS, Placed, dealt, group
from topology.simulate.clients.attaching import attach
from topology.simulate.clients.backoff import FIRST_MAX_MS, FIRST_MIN_MS, LATER_MAX_MS, interval_ms, spread
from topology.simulate.clients.cohort import Attempt, Ids
from topology.simulate.input.layout import DESIGNS, Design, Layout, as_design, layout_of_brokers, layout_of_counts
from topology.simulate.input.timeline import NOBODY
from topology.simulate.input.workload import ClientGroup

ACTIVE_AND_ALL: tuple[Design, ...] = ("active-passive", "openclust")
ATTACH_MS = 100
"""In about this time somebody is attached where nobody waits."""


def weighed(*weights: int, **redirect: object) -> Layout:
    layout = layout_of_brokers(len(weights))
    sites = tuple(
        msgspec.structs.replace(site, weight=weight) for site, weight in zip(layout.sites, weights, strict=True)
    )
    return msgspec.structs.replace(layout, sites=sites, redirect=Redirect(**redirect))  # type: ignore[arg-type]


# -- placing


def test_who_comes_is_attached_at_the_rate_of_the_broker() -> None:
    found = Placed(layout_of_brokers(1), [group(count=5_000)])
    found.check()
    assert found.at(1_000)[0] == pytest.approx(1_000, abs=100)
    assert found.at(4_000)[0] == pytest.approx(4_000, abs=100)
    assert found.at(5_100) == {0: 5_000}


def test_clients_that_all_come_to_one_broker_are_dealt_out_by_weight() -> None:
    found = Placed(weighed(1, 2, 1), [group(count=2_000, brokers=("p1",))])
    found.check()
    counts = found.at(10_000)
    assert counts == {0: pytest.approx(500, abs=20), 1: pytest.approx(1_000, abs=20), 2: pytest.approx(500, abs=20)}


def test_few_clients_are_balanced_as_exactly_as_the_threshold_says() -> None:
    found = Placed(layout_of_brokers(4), [group(count=30, brokers=("p1",))])
    counts = found.at(5_000)
    assert sum(counts.values()) == 30
    assert max(counts.values()) - min(counts[each] for each in range(4)) <= 1


def test_a_redirected_client_takes_less_of_a_broker_than_one_that_stays() -> None:
    found = Placed(layout_of_brokers(3), [group(count=6_000, brokers=("p1",))])
    # 2,000 stay at a thousandth of a second each, 4,000 are redirected at half of that.
    assert found.redirects == pytest.approx(4_000, abs=100)
    assert found.attached_by(0) == pytest.approx(4_000, abs=300)


def test_who_does_not_follow_stays_where_it_came() -> None:
    groups = [group(count=500, brokers=("p1",), follows=False), group(1, count=500, brokers=("p1",))]
    found = Placed(layout_of_brokers(3), groups)
    found.check()
    assert found.at(20_000, grp=0) == {0: 500}
    assert found.at(20_000, grp=1)[0] == 0


def test_nobody_is_placed_where_redirects_are_off() -> None:
    found = Placed(weighed(1, 1, 1, mode="off"), [group(count=300, brokers=("p2",))])
    assert not found.redirects
    assert found.at(20_000) == {1: 300}


def test_a_client_far_away_needs_some_round_trips_more_when_it_is_redirected() -> None:
    near = Placed(weighed(1, 1), [group(count=2, brokers=("p1",), latency_us=100)])
    far = Placed(weighed(1, 1), [group(count=2, brokers=("p1",), latency_us=50_000)])
    assert far.attached_by(0) - near.attached_by(0) == 400


# -- faults


def test_the_clients_of_a_killed_broker_are_all_back_as_fast_as_the_others_attach_them() -> None:
    found = Placed(layout_of_brokers(4), [group(count=20_000, join_over_ms=5_000)], "kill s1 at 15s")
    found.check()
    lost = found.at(14_999)[3]
    assert lost == pytest.approx(5_000, rel=0.2)
    assert found.at(15_000)[NOBODY] == lost
    # Between the first and the last of them come faster than three brokers attach them, redirects aside.
    lasts_ms = found.attached_by(15_000) - 15_000
    assert FIRST_MAX_MS <= lasts_ms <= lost / 3 * 1.5 + FIRST_MAX_MS
    many = Placed(layout_of_brokers(4), [group(count=80_000)], "kill s1 at 40s", duration_ms=70_000)
    lost = many.at(39_999)[3]
    storm_ms = many.attached_by(40_000) - 40_000
    assert lost / 3 + FIRST_MIN_MS <= storm_ms <= 1.4 * lost / 3 + FIRST_MAX_MS
    assert sum(many.at(69_999).values()) - many.at(69_999)[NOBODY] == 80_000


def test_nobody_tries_again_before_the_shortest_back_off() -> None:
    found = Placed(layout_of_brokers(3), [group(count=300)], "kill p2 at 10s")
    assert not any(
        each.to_ms < 10_000 + FIRST_MIN_MS
        for each in found.sessions
        if each.broker == NOBODY and each.from_ms == 10_000
    )
    assert found.attached_by(10_000) == pytest.approx(10_000 + FIRST_MAX_MS, abs=ATTACH_MS)


def test_who_finds_nobody_waits_longer_each_time() -> None:
    found = Placed(layout_of_brokers(1), [group(count=200)], "kill p1 at 5s", "start p1 at 13s")
    found.check()
    assert found.at(13_000) == {NOBODY: 200}
    assert found.at(13_000 + LATER_MAX_MS + ATTACH_MS) == {0: 200}
    # Not all at once, and some of them only when those who try for the first time are long back.
    assert 0 < found.at(14_000)[0] < 200
    assert found.at(13_000 + FIRST_MAX_MS + ATTACH_MS)[NOBODY] > 0


def test_a_group_that_knows_one_broker_finds_it_again_or_another_that_it_has_learnt() -> None:
    groups = [group(count=100, brokers=("p2",), follows=False), group(1, count=100, brokers=("p2",))]
    found = Placed(layout_of_brokers(3), groups, "kill p2 at 10s", "start p2 at 20s")
    found.check()
    assert found.at(19_999, grp=0) == {NOBODY: 100}
    assert found.at(19_999, grp=1)[NOBODY] == 0
    assert found.at(29_999, grp=0) == {1: 100}


def test_a_rolling_restart_leaves_everybody_somewhere() -> None:
    faults = [f"{what} p{n} at {10 * n + after}s" for n in (1, 2, 3) for what, after in (("kill", 0), ("start", 5))]
    found = Placed(layout_of_brokers(3), [group(count=900)], *faults, duration_ms=120_000)
    found.check()
    counts = found.at(119_999)
    assert counts[NOBODY] == 0
    assert all(counts[broker] >= 240 for broker in range(3)), counts


def test_while_there_is_no_root_everybody_stays_where_it_came() -> None:
    layout = layout_of_counts(2, 1)
    found = Placed(layout, [group(count=300, join_at_ms=10_000, brokers=("p2",))], "kill p1 at 5s")
    assert not found.redirects
    assert found.at(20_000) == {1: 300}


def test_an_added_secondary_gets_its_share_as_fast_as_brokers_move_clients() -> None:
    layout = msgspec.structs.replace(layout_of_counts(3, 1), redirect=Redirect(rebalance_per_s=20))
    found = Placed(layout, [group(count=1_200, brokers=("p1", "p2", "p3"))], "add s1 at 20s", duration_ms=60_000)
    found.check()
    assert found.at(20_000 + SETTLE_MS - 1).keys() == {0, 1, 2}
    # Each of the three moves 20 a second.
    early = found.at(20_000 + SETTLE_MS + 3_999)
    assert early[3] + early[NOBODY] == 4 * 3 * 20
    assert early[3] == pytest.approx(3 * 3 * 20, abs=30)
    assert found.at(59_999) == {broker: pytest.approx(300, abs=10) for broker in range(4)}


def test_who_does_not_follow_is_not_moved() -> None:
    layout = layout_of_counts(3, 1)
    groups = [group(count=300, brokers=("p1", "p2", "p3"), follows=False)]
    assert Placed(layout, groups, "add s1 at 10s", duration_ms=60_000).at(59_999) == {0: 100, 1: 100, 2: 100}


def test_a_broker_that_is_cut_from_the_root_gets_nobody_from_others() -> None:
    groups = [group(count=300, join_at_ms=15_000, brokers=("p1",))]
    found = Placed(layout_of_brokers(3), groups, "partition p1 p2 | p3 at 10s for 15s")
    found.check()
    assert found.at(20_000).keys() == {0, 1}


def test_only_openclust_rebalances() -> None:
    layout = as_design(layout_of_counts(3, 1), "virtual-synchrony")
    found = Placed(layout, [group(count=300, brokers=("p1", "p2", "p3"))], "add s1 at 10s", duration_ms=60_000)
    assert found.at(59_999)[3] == 0


# -- the other designs


def test_active_passive_has_all_clients_at_the_root_and_the_longer_storm() -> None:
    groups = [group(count=10_000)]
    layout = layout_of_counts(3, 1)
    passive, spread_out = (Placed(as_design(layout, design), groups, "kill p1 at 15s") for design in ACTIVE_AND_ALL)
    passive.check()
    spread_out.check()
    assert passive.at(14_999) == {0: 10_000}
    assert passive.at(29_999) == {1: 10_000}
    assert passive.attached_by(15_000) - 15_000 >= 10_000
    assert spread_out.attached_by(15_000) - 15_000 <= 4_000


def test_an_active_broker_that_resigns_loses_its_clients() -> None:
    layout = as_design(layout_of_counts(3, 0), "active-passive")
    found = Placed(layout, [group(count=500)], "partition p1 | p2 p3 at 10s for 10s")
    found.check()
    assert found.at(9_999) == {0: 500}
    assert found.at(20_000) == found.at(29_999) == {1: 500}


def test_one_broker_alone_gets_everybody_back_when_it_is() -> None:
    found = Placed(as_design(layout_of_brokers(3), "single"), [group(count=500)], "kill p1 at 5s", "start p1 at 8s")
    found.check()
    assert found.at(29_999) == {0: 500}


# -- in general


def test_the_same_clients_in_another_order_are_placed_alike() -> None:
    layout, groups = layout_of_brokers(3), [group(count=700, join_over_ms=2_000), group(1, count=50)]
    found = Placed(layout, groups, "kill p1 at 5s")
    attempts = reversed(dealt(groups, layout))
    assert attach(layout, groups, attempts, found.timeline, COSTS, 100) == found.sessions


def test_rows_do_not_grow_with_the_clients() -> None:
    costs = msgspec.structs.replace(COSTS, attach_per_s=100_000)
    few, many = (
        Placed(layout_of_brokers(4), [group(count=count, join_over_ms=5_000)], "kill p2 at 10s", calibration=costs)
        for count in (50_000, 500_000)
    )
    assert len(many.sessions) < 1.3 * len(few.sessions) < 10_000


def test_the_back_off_doubles_up_to_its_bound() -> None:
    assert [interval_ms(tries) for tries in (0, 1, 2, 10, 99)] == [
        (100, 2_000),
        (200, 4_000),
        (400, 5_000),
        (2_500, 5_000),
        (2_500, 5_000),
    ]


@given(st.integers(0, 1_000), st.integers(1, 60), st.integers(0, 1_000))
def test_spreading_loses_nobody_and_is_even(count: int, slots: int, turn: int) -> None:
    counts = spread(count, slots, turn)
    assert sum(counts) == count
    assert max(counts) - min(counts) <= 1


def test_one_after_another_does_not_always_come_at_the_same_time() -> None:
    assert len({spread(1, 20, turn).index(1) for turn in range(20)}) > 10


@given(st.lists(st.integers(0, 20), unique=True), st.integers(1, 5), st.integers(0, 9))
def test_parts_are_all_of_them(members: list[int], number: int, turn: int) -> None:
    parts = Ids((each, each) for each in members).parts(number, turn)
    assert sorted(each for part in parts for first, last in part for each in range(first, last + 1)) == sorted(members)
    assert max(part.count for part in parts) - min(part.count for part in parts) <= 1


BROKERS = st.sampled_from(["p1", "p2", "p3", "s1", "s2", "p9"])
SECONDS = st.integers(0, 120).map(lambda tenth: tenth / 10)
SENTENCES = st.one_of(
    st.builds("{} {} at {}s".format, st.sampled_from(["kill", "start", "add"]), BROKERS, SECONDS),
    st.builds(
        "partition {} | {} at {}s for {}s".format,
        st.sampled_from(["p1", "p1 s1", "p2 p1"]),
        st.sampled_from(["p3", "p3 s2"]),
        SECONDS,
        SECONDS.map(lambda seconds: seconds + 0.1),
    ),
)
GROUPS: st.SearchStrategy[list[dict[str, object]]] = st.lists(
    st.fixed_dictionaries(
        {
            "count": st.integers(1, 40),
            "join_at_ms": st.sampled_from([0, 300, 4_000, 20_000]),
            "join_over_ms": st.sampled_from([0, 500, 3_000]),
            "latency_us": st.sampled_from([100, 20_000]),
            "brokers": st.sampled_from([(), ("p1",), ("p2", "s1"), ("p9",)]),
            "follows": st.booleans(),
        }
    ),
    min_size=1,
    max_size=3,
)


@examples(30)
@given(
    st.sampled_from(DESIGNS),
    st.integers(1, 3),
    st.integers(0, 2),
    GROUPS,
    st.lists(SENTENCES, max_size=5),
    st.sampled_from([15, 1_000]),
)
def test_every_client_is_at_one_place_at_a_time_whatever_happens(
    design: Design,
    primaries: int,
    secondaries: int,
    fields: list[dict[str, object]],
    faults: list[str],
    rate: int,
) -> None:
    layout = as_design(layout_of_counts(primaries, secondaries), design)
    groups: list[ClientGroup] = [group(number, **each) for number, each in enumerate(fields)]  # type: ignore[arg-type]
    costs = msgspec.structs.replace(COSTS, attach_per_s=rate)
    found = Placed(layout, groups, *faults, duration_ms=12_050, calibration=costs)
    found.check()
    if design == "active-passive":
        for each in found.sessions:
            if each.from_ms < each.to_ms and each.broker != NOBODY:
                assert found.timeline.root_at(each.from_ms) == each.broker, each
                assert found.timeline.root_at(each.to_ms - 1) == each.broker


def test_attempts_after_the_end_are_nobody() -> None:
    found = Placed(layout_of_brokers(1), [group()], attempts=[Attempt(0, 40_000, 0, 0, 999)])
    assert not found.sessions
