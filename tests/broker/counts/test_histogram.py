"""Counting values between bounds."""

from __future__ import annotations

from openclust.broker.counts.histogram import Histogram


def test_a_value_counts_up_to_the_next_bound() -> None:
    histogram = Histogram((1, 2))
    for value in (0.5, 1, 1.5, 2, 3):
        histogram.add(value)
    assert histogram.counts == [2, 2, 1] and histogram.sum == 8


def test_a_value_may_stand_for_several() -> None:
    histogram = Histogram((10,))
    histogram.add(20, 3)
    assert histogram.counts == [0, 3] and histogram.sum == 60
