from __future__ import annotations

import io

import pytest
from rich.console import Console

from openclust.bench.rows.cluster_row import ClusterRow, rows_data, show_rows


def row(**fields: object) -> ClusterRow:
    return ClusterRow(**{"key": "k", "title": "some work", "unit": "x", **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "met"),
    [
        ({"target": 1.3, "value": 1.3}, True),
        ({"target": 1.3, "value": 1.31}, False),
        ({"target": 50_000.0, "value": 50_000.0, "is_floor": True}, True),
        ({"target": 50_000.0, "value": 49_999.0, "is_floor": True}, False),
        ({"target": 1.3}, None),
        ({"value": 1.3}, None),
    ],
)
def test_a_target_is_met_from_its_own_side(fields: dict[str, object], met: bool | None) -> None:
    assert row(**fields).met is met


def test_a_table_has_what_is_wanted_what_was_found_and_what_failed() -> None:
    console = Console(file=io.StringIO(), width=200)
    rows = [
        row(target=1.3, value=1.2, notes=["was busy"]),
        row(key="crowd", title="a crowd", unit="subscribers", target=50_000.0, is_floor=True, value=6_000.0),
        row(key="gone", title="more work", failed="p1 died"),
    ]
    show_rows(rows, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "at most 1.30 x" in shown and "1.20 x" in shown
    assert "at least 50,000 subscribers" in shown and "6,000 subscribers" in shown
    assert "failed" in shown and "p1 died" in shown
    assert "note, k: was busy" in shown


def test_the_data_of_a_row_says_whether_its_target_is_met() -> None:
    first, second = rows_data([row(target=1.3, value=1.2), row(failed="p1 died")])["rows"]
    assert (first["key"], first["value"], first["met"], first["failed"]) == ("k", 1.2, True, None)
    assert (second["met"], second["failed"]) == (None, "p1 died")
