"""In which order brokers are measured, and what comes of several starts."""

from __future__ import annotations

from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.comparison import Contender, Measured, in_turn, run_starts
from openclust.bench.load.work import Figures

A, B = Contender(name="a", url=BrokerUrl("h")), Contender(name="b", url=BrokerUrl("h"))


def test_who_is_first_in_one_round_is_last_in_the_next() -> None:
    assert ["".join(in_turn("AB", number)) for number in range(4)] == ["AB", "BA", "AB", "BA"]
    assert ["".join(in_turn("ABC", number)) for number in range(2)] == ["ABC", "CBA"]


def test_the_rounds_of_all_starts_are_kept_in_order_for_each_broker() -> None:
    def run(start: int) -> list[Measured]:
        return [(A, [Figures(messages=10 * start), Figures(messages=10 * start + 1)]), (B, [Figures(messages=start)])]

    (first, ours), (second, theirs) = run_starts(3, run)
    assert (first.name, second.name) == ("a", "b")
    assert [each.messages for each in ours] == [0, 1, 10, 11, 20, 21]
    assert [each.messages for each in theirs] == [0, 1, 2]
