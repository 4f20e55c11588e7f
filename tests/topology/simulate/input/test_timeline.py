"""Who is there, who is root and who does not reach whom."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from topology.simulate.input.calibration import shipped
from topology.simulate.input.fault import Add, Fault, Kill, Partition, Return, parse_fault
from topology.simulate.input.layout import DESIGNS, Design, as_design, layout_of_counts
from topology.simulate.input.timeline import NOBODY, Timeline, timeline

END_MS = 60_000
ELECTION_MS = round(shipped().election_ms)
DETECT_MS = round(shipped().detect_ms)


def of(*faults: str, primaries: int = 3, secondaries: int = 1, design: Design = "openclust") -> Timeline:
    layout = as_design(layout_of_counts(primaries, secondaries), design)
    return timeline(layout, [parse_fault(each) for each in faults], shipped(), END_MS)


def test_where_nothing_goes_wrong_all_are_there_and_the_first_primary_is_root() -> None:
    found = of()
    assert found.ups == tuple((broker, 0, END_MS) for broker in range(4))
    assert found.roots == ((0, END_MS, 0),)
    assert not found.cuts and not found.skipped


def test_after_a_killed_root_the_next_primary_is_elected() -> None:
    assert of("kill p1 at 30s").roots == (
        (0, 30_000, 0),
        (30_000, 30_000 + ELECTION_MS, NOBODY),
        (30_000 + ELECTION_MS, END_MS, 1),
    )


def test_a_killed_secondary_concerns_no_root() -> None:
    found = of("kill s1 at 30s")
    assert found.roots == ((0, END_MS, 0),)
    assert (3, 0, 30_000) in found.ups


def test_who_comes_back_is_junior_to_all_that_stayed() -> None:
    found = of("kill p1 at 10s", "start p1 at 20s", "kill p2 at 30s")
    assert [root for _, _, root in found.roots] == [0, NOBODY, 1, NOBODY, 2]
    assert found.ups.count((0, 0, 10_000)) == found.ups.count((0, 20_000, END_MS)) == 1


def test_no_root_is_made_where_half_of_the_primaries_are_left() -> None:
    assert of("kill p1 at 10s", primaries=2).roots == ((0, 10_000, 0), (10_000, END_MS, NOBODY))
    back = of("kill p1 at 10s", "start p1 at 20s", primaries=2)
    assert back.roots[-1] == (20_000 + ELECTION_MS, END_MS, 1)


def test_a_sitting_root_stays_with_half_of_the_primaries_and_resigns_with_fewer() -> None:
    found = of("kill p3 at 10s", "kill p4 at 20s", "kill p2 at 30s", primaries=4)
    assert found.roots == ((0, 30_000, 0), (30_000, END_MS, NOBODY))


def test_the_larger_side_of_a_partition_elects_when_it_has_noticed() -> None:
    found = of("partition p1 s1 | p2 p3 at 10s for 20s")
    resigned = 10_000 + DETECT_MS
    assert found.roots == (
        (0, resigned, 0),
        (resigned, resigned + ELECTION_MS, NOBODY),
        (resigned + ELECTION_MS, END_MS, 1),
    )
    pairs = ((0, 1), (0, 2), (1, 3), (2, 3))
    assert found.cuts == tuple((*pair, 10_000, 30_000) for pair in pairs)


def test_a_root_on_the_larger_side_stays() -> None:
    assert of("partition p1 p2 | p3 at 10s for 20s").roots == ((0, END_MS, 0),)


def test_a_partition_in_equal_halves_leaves_the_root_where_it_is() -> None:
    assert of("partition p1 p2 | p3 p4 at 10s for 20s", primaries=4).roots == ((0, END_MS, 0),)


def test_a_cut_that_is_over_before_it_is_noticed_moves_no_root() -> None:
    found = of(f"partition p1 | p2 p3 at 10s for {DETECT_MS - 1}ms")
    assert found.roots == ((0, END_MS, 0),)
    assert found.cuts


def test_a_cut_is_noticed_after_a_while_and_its_end_at_once() -> None:
    found = of("partition p1 | p2 at 10s for 5s")
    heard = [found.hears(1, 0, at_ms) for at_ms in (9_999, 9_999 + DETECT_MS, 10_000 + DETECT_MS, 14_999, 15_000)]
    assert heard == [True, True, False, False, True]


def test_where_a_partition_left_nobody_enough_the_healed_cluster_elects_another() -> None:
    found = of("kill p3 at 5s", "partition p1 | p2 at 20s for 10s")
    assert found.roots == (
        (0, 20_000 + DETECT_MS, 0),
        (20_000 + DETECT_MS, 30_000 + ELECTION_MS, NOBODY),
        # The one that resigned is junior now.
        (30_000 + ELECTION_MS, END_MS, 1),
    )


def test_one_that_is_added_was_not_there_before() -> None:
    assert (3, 20_000, END_MS) in of("add s1 at 20s").ups
    assert of("add s1 at 20s").skipped == ()
    assert all(broker != 3 for broker, _, _ in of("add s1 at 2min").ups)


def test_what_does_not_concern_this_layout_is_skipped() -> None:
    faults = ["kill p9 at 10s", "start p2 at 10s", "kill p2 at 2min", "partition p1 | p8 at 10s for 5s"]
    found = of(*faults, "kill s1 at 10s")
    assert found.skipped == tuple(parse_fault(each) for each in faults)
    assert found.roots == ((0, END_MS, 0),)


def test_one_broker_alone_has_no_successor_and_is_its_own_as_soon_as_it_is_back() -> None:
    found = of("kill p1 at 10s", "start p1 at 20s", "kill p2 at 5s", design="single")
    assert found.roots == ((0, 10_000, 0), (10_000, 20_000, NOBODY), (20_000, END_MS, 0))
    assert found.skipped == (Kill("p2", 5_000),)


def test_in_the_other_designs_all_brokers_are_heirs() -> None:
    for design in ("active-passive", "virtual-synchrony"):
        found = of("kill p1 at 10s", "kill p2 at 20s", secondaries=2, design=design)
        assert [root for _, _, root in found.roots] == [0, NOBODY, 1, NOBODY, 2]


TIMES = st.integers(0, 70_000)
NAMES = st.sampled_from(["p1", "p2", "p3", "p4", "s1", "s2", "elsewhere"])
SIDES = st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple)
FAULTS: st.SearchStrategy[list[Fault]] = st.lists(
    st.one_of(
        st.builds(Kill, NAMES, TIMES),
        st.builds(Return, NAMES, TIMES),
        st.builds(Add, NAMES, TIMES),
        st.builds(
            lambda left, right, at_ms, for_ms: Partition((left, right), at_ms, at_ms + for_ms),
            SIDES,
            SIDES,
            TIMES,
            st.integers(1, 30_000),
        ),
    ),
    max_size=8,
)


@given(FAULTS, st.integers(1, 4), st.integers(0, 2), st.sampled_from(DESIGNS))
def test_reigns_follow_one_another_and_a_root_is_always_there(
    faults: list[Fault], primaries: int, secondaries: int, design: Design
) -> None:
    layout = as_design(layout_of_counts(primaries, secondaries), design)
    found = timeline(layout, faults, shipped(), END_MS)
    assert found.roots[0][0] == 0 and found.roots[-1][1] == END_MS
    for (_, end, before), (begin, _, after) in pairwise(found.roots):
        assert end == begin and before != after
    for begin, end, root in found.roots:
        if root != NOBODY:
            assert root in layout.primaries and found.is_up(root, begin, end)
            for at_ms in (begin, *(each for each in found.changes() if begin <= each < end)):
                heard = [each for each in layout.primaries if found.is_up(each, at_ms)]
                heard = [each for each in heard if found.hears(root, each, at_ms)]
                assert 2 * len(heard) >= len(layout.primaries)
    assert all(0 <= begin < end <= END_MS for _, begin, end in found.ups)
