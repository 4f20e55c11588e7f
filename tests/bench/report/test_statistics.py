from __future__ import annotations

import pytest

from openclust.bench.report.statistics import latency_percentiles_ms, median, percentile, ratio


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
