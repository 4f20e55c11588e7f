"""Rows in their order, however they come in batches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from topology.simulate.spark.recursion import equals_in_order

ORDER = ("at", "number", "part")
ROWS = st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=30)


def batch_of(rows: list[tuple[int, ...]]) -> Any:
    columns = list(zip(*rows, strict=True)) or [()] * len(ORDER)
    return pa.RecordBatch.from_arrays([pa.array(column, pa.int64()) for column in columns], names=list(ORDER))


def rows_of(batches: Any) -> list[tuple[int, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@given(ROWS, st.lists(st.integers(0, 30), max_size=6))
def test_rows_are_in_order_wherever_batches_end(rows: list[tuple[int, ...]], ends: list[int]) -> None:
    by_first = sorted(rows, key=lambda row: row[0])
    cuts = sorted({0, len(rows), *(end for end in ends if end < len(rows))})
    batches = [batch_of(by_first[begin:end]) for begin, end in pairwise(cuts)] or [batch_of([])]

    assert rows_of(equals_in_order(iter(batches), ORDER)) == sorted(rows)


def test_rows_go_on_as_soon_as_another_time_has_come() -> None:
    batches = iter([batch_of([(1, 2, 0), (1, 1, 0), (2, 9, 0)]), batch_of([(2, 8, 0)]), batch_of([(3, 0, 0)])])
    told = equals_in_order(batches, ORDER)

    assert rows_of([next(told)]) == [(1, 1, 0), (1, 2, 0)]
    assert rows_of([next(told)]) == [(2, 8, 0), (2, 9, 0)]
    assert rows_of(told) == [(3, 0, 0)]
