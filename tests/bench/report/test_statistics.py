from __future__ import annotations

import pytest

from openclust.bench.report.statistics import (
    RatioRange,
    latency_percentiles_ms,
    median,
    paired_ratio,
    percentile,
    ratio,
)


def test_a_percentile_is_a_sample_that_so_many_do_not_exceed() -> None:
    samples = list(range(1, 101))
    assert [percentile(samples, percent) for percent in (0.1, 50, 90, 99, 99.9, 100)] == [1, 50, 90, 99, 100, 100]


def test_a_percentile_is_not_pushed_up_by_binary_fractions() -> None:
    assert percentile(list(range(1, 1001)), 99.9) == 999


def test_one_sample_is_every_percentile() -> None:
    assert latency_percentiles_ms([2_000_000]) == {"p50": 2.0, "p90": 2.0, "p99": 2.0, "p99.9": 2.0, "max": 2.0}


def test_percentiles_sort_their_samples() -> None:
    assert latency_percentiles_ms([3_000_000, 1_000_000, 2_000_000])["p50"] == 2.0


def test_no_samples_have_no_percentiles() -> None:
    assert latency_percentiles_ms([]) == {}


def test_a_median_leaves_out_what_is_unknown() -> None:
    assert median([None, 3.0, 1.0, None, 2.0]) == 2.0
    assert median([None]) is None


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"), [(6, 2, 3), (None, 2, None), (6, None, None), (6, 0, None), (0, 2, 0)]
)
def test_a_ratio_needs_both_sides(ours: float | None, theirs: float | None, expected: float | None) -> None:
    assert ratio(ours, theirs) == expected


def test_figures_of_one_round_are_compared_with_each_other() -> None:
    """The machine was half as fast in the second round: the medians of both brokers would say 1.0."""
    assert paired_ratio([[(100.0, 100.0), (60.0, 50.0), (110.0, 100.0)]]) == RatioRange(1.1, 1.0, 1.2, 3)


def test_over_several_starts_each_start_counts_once() -> None:
    starts = [[(9.0, 10.0), (9.0, 10.0), (20.0, 10.0)], [(11.0, 10.0)], [(10.0, 10.0)]]
    assert paired_ratio(starts) == RatioRange(1.0, 0.9, 1.1, 3)


def test_pairs_of_which_one_side_is_unknown_are_left_out() -> None:
    assert paired_ratio([[(None, 1.0), (3.0, 2.0), (3.0, 0.0)]]) == RatioRange(1.5, 1.5, 1.5, 1)
    assert paired_ratio([[(None, 1.0)], [(1.0, None)]]) is None


def test_one_ratio_has_no_spread() -> None:
    assert RatioRange(1.5, 1.5, 1.5, 1).spread == ""
    assert RatioRange(1.0, 0.956, 1.03, 3).spread == "0.96 to 1.03"
