"""Latencies in buckets say what the latencies themselves say, to the width of a bucket."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from topology.simulate.queueing.buckets import BUCKETS_PER_DECADE, bucket, edge, longest, mean, percentile

WIDTH = 10 ** (1 / BUCKETS_PER_DECADE) - 1


def test_a_bucket_holds_what_is_between_its_edges() -> None:
    for us in (1.0, 1.5, 17.0, 999.0, 1_001.0, 5e7):
        assert edge(bucket(us)) <= us < edge(bucket(us) + 1)
    assert bucket(0) == bucket(0.5) == bucket(1) == 0


def test_percentiles_of_a_known_distribution_are_found_to_a_buckets_width() -> None:
    drawn = np.random.default_rng(1).exponential(20_000, 200_000)
    counts = Counter(bucket(each) for each in drawn)

    for q in (0.5, 0.9, 0.99, 0.999):
        assert percentile(counts, q) == pytest.approx(np.quantile(drawn, q), rel=WIDTH)
        assert percentile(counts, q) == pytest.approx(-20_000 * np.log(1 - q), rel=WIDTH)
    assert mean(counts) == pytest.approx(drawn.mean(), rel=WIDTH / 4)
    assert drawn.max() <= longest(counts) <= drawn.max() * (1 + WIDTH)


def test_a_percentile_is_never_outside_of_what_there_is() -> None:
    counts = {bucket(100): 10, bucket(10_000): 1, bucket(1e6): 0}

    assert edge(bucket(100)) <= percentile(counts, 0) <= percentile(counts, 0.9) <= edge(bucket(100) + 1)
    assert percentile(counts, 1) == pytest.approx(edge(bucket(10_000) + 1))
    assert longest(counts) == edge(bucket(10_000) + 1)


def test_of_nothing_nothing_is_said() -> None:
    assert percentile({}, 0.5) == mean({}) == longest({}) == 0
