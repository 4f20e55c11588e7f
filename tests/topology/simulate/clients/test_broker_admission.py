"""A broker's desk places those who wait as one decision after another would, though it makes far fewer."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import Roster
from tests.support.simulate.clients import COSTS
from topology.simulate.clients.broker_admission import DECISIONS, Desk
from topology.simulate.clients.cohort import Ids, Want
from topology.simulate.input.layout import layout_of_brokers

WEIGHTS = st.lists(st.integers(1, 3), min_size=2, max_size=4)


def desk_of(weights: list[int], clients: list[int], threshold: int) -> Desk:
    """The first of some brokers that have so many clients."""
    layout = layout_of_brokers(len(weights))
    sites = tuple(msgspec.structs.replace(site, weight=each) for site, each in zip(layout.sites, weights, strict=True))
    layout = msgspec.structs.replace(layout, sites=sites, redirect=Redirect(threshold=threshold))
    desks = [Desk(layout, number, COSTS, staying=[]) for number in range(len(weights))]
    for desk, count in zip(desks, clients, strict=False):
        desk.connections = count
    desks[0].roster = Roster(root=desks[0].name, brokers=tuple(each.presence() for each in desks))
    return desks[0]


def served(desk: Desk, parts: list[int], step_ms: int) -> Counter[str]:
    first = 0
    for count in parts:
        desk.wait(Want(0, 0), Ids([(first, first + count - 1)]))
        first += count
    desk.open(step_ms)
    sent: Counter[str] = Counter()
    for _, target, ids in desk.serve(0):
        sent[target] += ids.count
    return sent


@given(
    WEIGHTS,
    st.lists(st.integers(0, 60), min_size=4, max_size=4),
    st.integers(1, 5),
    st.integers(1, DECISIONS),
    st.integers(1, 60),
)
def test_who_comes_together_is_placed_as_one_after_the_other(
    weights: list[int], clients: list[int], threshold: int, count: int, step_ms: int
) -> None:
    together = served(desk_of(weights, clients, threshold), [count], step_ms)
    single = served(desk_of(weights, clients, threshold), [1] * count, step_ms)

    assert together == single
    assert together.total() <= count


def test_many_are_placed_with_few_questions() -> None:
    asked = []

    class Counted(Desk):
        def _choose(self, want: Want, own: int) -> None:
            asked.append(own)

    desk = Counted(layout_of_brokers(2), 0, COSTS, staying=[])
    assert served(desk, [DECISIONS], step_ms=1_000).total() == DECISIONS
    assert len(asked) <= 8
