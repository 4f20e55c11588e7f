"""The first rows of many, in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.manage.gather import ordering
from openclust.manage.gather.ordering import FirstRows
from openclust.manage.gather.selection import SortKey, sort_key
from openclust.manage.gather.slices import Slices
from tests.support.examples import examples

VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.just([1])


def first(keyed: list[tuple[SortKey, int]], count: int, *, reverse: bool) -> list[tuple[SortKey, int]]:
    async def taken() -> list[tuple[SortKey, int]]:
        rows: FirstRows[int] = FirstRows(count, reverse=reverse, slices=Slices())
        for key, it in keyed:
            await rows.add(key, it)
        return await rows.take()

    return asyncio.run(taken())


@examples(20)
@given(st.lists(VALUES, max_size=30), st.integers(min_value=1, max_value=40), st.booleans())
def test_rows_of_any_values_have_an_order(values: list[Any], count: int, reverse: bool) -> None:
    keyed = [(sort_key(value, "/", str(number)), number) for number, value in enumerate(values)]
    assert first(keyed, count, reverse=reverse) == sorted(keyed, reverse=reverse)[:count]


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_that_cannot_be_among_the_first_are_not_held(monkeypatch: pytest.MonkeyPatch, reverse: bool) -> None:
    monkeypatch.setattr(ordering, "SORTED_AT_ONCE", 3)
    monkeypatch.setattr(ordering, "HELD_MIN", 6)
    keyed = [(sort_key(number * 37 % 101, "/", ""), number) for number in range(100)]

    async def held() -> int:
        rows: FirstRows[int] = FirstRows(2, reverse=reverse, slices=Slices())
        most = 0
        for key, it in keyed:
            await rows.add(key, it)
            most = max(most, sum(map(len, rows._runs)) + len(rows._unsorted))
        assert await rows.take() == sorted(keyed, reverse=reverse)[:2]
        return most

    assert asyncio.run(held()) <= 8
