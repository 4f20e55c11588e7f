from __future__ import annotations

import msgspec

from tests.support.simulate import summaries
from topology.simulate.results.choosing import CHOSEN_MAX, chosen_runs, compared_designs, label_of
from topology.simulate.results.summary import Cheapest, ResultsSummary, Sweep


def sweep_with(cheapest: list[int | None]) -> ResultsSummary:
    found = [Cheapest(subscribers=1, rate=1.0, run=each, why="") for each in cheapest]
    return msgspec.structs.replace(summaries.sweep_of_24(), sweep=Sweep(grid={}, cheapest=found))


def test_few_runs_are_all_shown() -> None:
    assert [each.run for each in chosen_runs(summaries.four_designs())] == [0, 1, 2, 3]


def test_of_a_sweep_the_cheapest_are_shown() -> None:
    assert [each.run for each in chosen_runs(sweep_with([12, 2, None, 12]))] == [2, 12]


def test_of_many_cheapest_the_ends_and_some_between_are_shown() -> None:
    chosen = [each.run for each in chosen_runs(sweep_with(list(range(24))))]

    assert len(chosen) == CHOSEN_MAX
    assert (chosen[0], chosen[-1]) == (0, 23)


def test_where_none_meets_the_goal_the_lightest_and_the_heaviest_are_shown() -> None:
    assert [each.run for each in chosen_runs(sweep_with([None]))] == [0, 23]


def test_designs_are_compared_at_the_largest_load_that_all_ran_and_with_most_brokers() -> None:
    runs = [
        summaries.run(1, design="openclust", subscribers=9, secondaries=5),
        summaries.run(2, design="single", subscribers=9),
        summaries.run(3, design="openclust", subscribers=90, secondaries=5),
        summaries.run(4, design="openclust", subscribers=90, secondaries=1),
        summaries.run(5, design="single", subscribers=90),
        summaries.run(6, design="openclust", subscribers=900),
    ]

    assert [each.run for each in compared_designs(summaries.summary(runs))] == [3, 5]
    assert compared_designs(summaries.one_run()) == []


def test_a_label_tells_what_differs_and_nothing_else() -> None:
    first = summaries.run(1)
    assert label_of(first, [first]) == "openclust"
    assert label_of(first, [first, summaries.run(2, secondaries=0)]) == "3 + 5 brokers"
    assert label_of(first, [first, summaries.run(2, rate=2.0)]) == "rate x 1"
    assert label_of(first, [first, summaries.run(2)]) == "run 1"
