"""Values as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from openclust.cli.listing.cells import cell, duration, rate, size


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("name", "orders", "orders"),
        ("name", "", "-"),
        ("policy", None, "-"),
        ("arguments", {}, "-"),
        ("arguments", {"x-max-length": 1}, '{"x-max-length":1}'),
        ("partitions", [], "-"),
        ("tags", ["a", "b"], "a, b"),
        ("durable", True, "yes"),
        ("durable", False, "no"),
        ("messages", 12_345, "12345"),
        ("memory", 1_500_000, "1.5 MB"),
        ("recv_oct_details.rate", 2_000.0, "2 kB/s"),
        ("message_stats.publish_details.rate", 1_204.4, "1204/s"),
        ("uptime", 5_040_000, "1 h 24 min"),
        ("connected_at", 1_700_000_000_000, "2023-11-14 22:13:20"),
        ("connected_at", 10**18, str(10**18)),
    ],
)
def test_a_cell_is_told_by_its_column_and_its_value(path: str, value: Any, shown: str) -> None:
    assert cell(path, value) == shown


def test_rates_sizes_and_durations_have_as_many_digits_as_mean_something() -> None:
    assert [rate(x) for x in (0, 0.24, 9.96, 10)] == ["0/s", "0.2/s", "10.0/s", "10/s"]
    assert [size(x) for x in (0, 999, 1_000, 2.5e9, 7e15)] == ["0 B", "999 B", "1 kB", "2.5 GB", "7000.0 TB"]
    assert [duration(x * 1_000) for x in (5, 60, 7_260, 200_000)] == ["5 s", "1 min", "2 h 1 min", "2 d"]
