from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from topology.simulate.input import units


@pytest.mark.parametrize(
    ("number", "told"),
    [(0, "0"), (7, "7"), (9_812, "9,812"), (12_345, "12.3 k"), (999_600, "1 M"), (10_000_000, "10 M"), (2.5, "2.5")],
)
def test_counts_have_three_digits_from_ten_thousand_on(number: float, told: str) -> None:
    assert units.count(number) == told


@pytest.mark.parametrize(
    ("time_ms", "told"), [(0, "0 ms"), (0.25, "250 us"), (4.1, "4.1 ms"), (1_500, "1.5 s"), (240_000, "4 min")]
)
def test_times_come_in_the_unit_that_suits_them(time_ms: float, told: str) -> None:
    assert units.ms(time_ms) == told


@pytest.mark.parametrize(
    ("part", "told"), [(1, "100 %"), (0, "0 %"), (0.63, "63 %"), (0.004, "0.4 %"), (0.99929, "99.92 %"), (1.2, "120 %")]
)
def test_a_share_is_never_all_unless_it_is_all(part: float, told: str) -> None:
    assert units.share(part) == told


def test_what_is_a_hair_from_all_is_not_all() -> None:
    assert units.share(1 - 1e-12) != "100 %"


@pytest.mark.parametrize(
    "tell", [units.count, units.ms, units.seconds, units.share, units.size, units.mbit, units.times]
)
@pytest.mark.parametrize("number", [None, math.nan, math.inf])
def test_what_is_no_number_is_a_dash(tell: Callable[[float | None], str], number: float | None) -> None:
    assert tell(number) == "-"


def test_sizes_and_rates() -> None:
    assert units.size(16_800_000) == "16.8 MB"
    assert units.memory(87.5) == "87.5 MB"
    assert units.mbit(1_250) == "1.25 Gbit/s"
    assert units.per_s(12_300) == "12.3 k/s"
    assert units.plural(1, "broker") == "1 broker"
    assert units.plural(20_000, "broker") == "20 k brokers"
