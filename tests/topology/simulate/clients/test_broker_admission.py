"""A broker places waiting clients as one decision after another would, with far fewer decisions."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import Roster
from tests.support.simulate.clients import COSTS
from topology.simulate.clients.broker_admission import DECISIONS, BrokerAdmission
from topology.simulate.clients.cohort import Ids, Want
from topology.simulate.input.layout import layout_of_brokers

WEIGHTS = st.lists(st.integers(1, 3), min_size=2, max_size=4)


def admission_of(weights: list[int], clients: list[int], threshold: int) -> BrokerAdmission:
    """The first of some brokers that have so many clients."""
    layout = layout_of_brokers(len(weights))
    sites = tuple(msgspec.structs.replace(site, weight=each) for site, each in zip(layout.sites, weights, strict=True))
    layout = msgspec.structs.replace(layout, sites=sites, redirect=Redirect(threshold=threshold))
    admissions = [BrokerAdmission(layout, number, COSTS, staying=[]) for number in range(len(weights))]
    for admission, count in zip(admissions, clients, strict=False):
        admission.connections = count
    admissions[0].roster = Roster(root=admissions[0].name, brokers=tuple(each.presence() for each in admissions))
    return admissions[0]


def served(admission: BrokerAdmission, parts: list[int], step_ms: int) -> Counter[str]:
    first = 0
    for count in parts:
        admission.wait(Want(0, 0), Ids([(first, first + count - 1)]))
        first += count
    admission.open(step_ms)
    sent: Counter[str] = Counter()
    for _, target, ids in admission.serve(0):
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
    together = served(admission_of(weights, clients, threshold), [count], step_ms)
    single = served(admission_of(weights, clients, threshold), [1] * count, step_ms)

    assert together == single
    assert together.total() <= count


def test_many_are_placed_with_few_questions() -> None:
    asked = []

    class Counted(BrokerAdmission):
        def _choose(self, want: Want, own: int) -> None:
            asked.append(own)

    admission = Counted(layout_of_brokers(2), 0, COSTS, staying=[])
    assert served(admission, [DECISIONS], step_ms=1_000).total() == DECISIONS
    assert len(asked) <= 8
