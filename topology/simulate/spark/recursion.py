"""Recursions over rows: each row of a group depends on the rows before it. Groups run in parallel, memory is bounded.

Rows pass in order, in Arrow batches that may end anywhere. Several groups may share a partition, and mix there. Only
rows without a result of their recursion are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from topology.simulate.spark.rows import partitions_of

Columns: TypeAlias = Sequence[Any]
"""Numpy arrays of equal length."""


class Recursion(Protocol):
    """The recursion of one group. `take` and `end` return results of the first rows that have none yet."""

    def take(self, columns: Columns) -> Columns: ...
    def end(self) -> Columns:
        """There are no more rows: returns all results that are left."""


Begin: TypeAlias = Callable[[tuple[int, ...]], Recursion]
"""Begins the recursion of the group with these keys."""


def in_order(
    rows: DataFrame,
    *,
    keys: Sequence[str],
    order: Sequence[str],
    takes: Sequence[str],
    begin: Begin,
    passes: Sequence[str],
    adds: str,
    partitions: int | None = None,
) -> DataFrame:
    """Columns `passes` of `rows`, and `adds` (DDL), which the recursion of each group finds from columns `takes`.

    `order` must leave no ties within a group, or the result depends on the order of arrival. Its first column is a
    whole number. Keys are ints from 0 on. Columns hold no nulls. Results of type int or long in `adds` are rounded.
    """
    # Groups go to partitions in turn: with a hash some partitions would get several of few groups, and others none.
    dealt = reduce(add, (F.col(key) for key in keys))
    grouped = rows.repartitionById(partitions or partitions_of(rows.sparkSession), dealt)
    needed = list(dict.fromkeys((*keys, *order, *takes, *passes)))
    # Spark sorts by one number several times faster than by several columns; the others order rows that are equal.
    ordered = grouped.select(*needed).sortWithinPartitions(order[0])
    kept = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.select(*passes).schema)
    run = _Streaming(tuple(keys), tuple(order), tuple(takes), tuple(passes), tuple(_added(adds)), begin)
    return ordered.mapInArrow(run, f"{kept}, {adds}")


_TYPES = {"int": pa.int32(), "long": pa.int64(), "float": pa.float32()}


def _added(ddl: str) -> Iterator[tuple[str, str]]:
    for each in ddl.split(","):
        name, kind = each.split()
        yield name, kind


class _Streaming:
    """The work of a worker on a partition."""

    def __init__(
        self,
        keys: tuple[str, ...],
        order: tuple[str, ...],
        takes: tuple[str, ...],
        passes: tuple[str, ...],
        adds: tuple[tuple[str, str], ...],
        begin: Begin,
    ) -> None:
        self._keys, self._order, self._begin = keys, order, begin
        self._takes, self._passes, self._adds = takes, passes, adds

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        going: dict[tuple[int, ...], tuple[Recursion, list[Any]]] = {}
        for batch in equals_in_order(batches, self._order):
            for key, part in self._groups(batch):
                if key not in going:
                    going[key] = self._begin(key), []
                recursion, held = going[key]
                held.append(part.select(list(self._passes)))
                columns = [_values(part, name) for name in self._takes]
                yield from self._told(held, recursion.take(columns))
        for recursion, held in going.values():
            yield from self._told(held, recursion.end())

    def _groups(self, batch: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        """The rows of a batch by their key, each part in the order of the batch."""
        columns = [_values(batch, name) for name in self._keys]
        order = np.lexsort(columns[::-1])
        columns = [column[order] for column in columns]
        differs = np.zeros(max(0, batch.num_rows - 1), dtype=bool)
        for column in columns:
            differs |= column[1:] != column[:-1]
        cuts = (np.flatnonzero(differs) + 1).tolist()
        by_key = batch.take(pa.array(order)) if cuts else batch
        for first, end in pairwise([0, *cuts, batch.num_rows]):
            if first < end:
                yield tuple(column[first].item() for column in columns), by_key.slice(first, end - first)

    def _told(self, held: list[Any], columns: Columns) -> Iterator[Any]:
        """The held rows that have results now, with these; the others stay in `held`."""
        begin, count = 0, len(columns[0])
        while begin < count:
            rows = held[0]
            some = min(rows.num_rows, count - begin)
            kinds = zip(columns, self._adds, strict=True)
            added = [_column(column[begin : begin + some], kind) for column, (_, kind) in kinds]
            names = [*self._passes, *(name for name, _ in self._adds)]
            yield pa.RecordBatch.from_arrays([*rows.slice(0, some).columns, *added], names=names)
            if some == rows.num_rows:
                del held[0]
            else:
                held[0] = rows.slice(some)
            begin += some


def equals_in_order(batches: Iterator[Any], order: Sequence[str]) -> Iterator[Any]:
    """Takes batches of rows sorted by the first column of `order`, and sorts equal ones by the other columns."""
    held: list[Any] = []
    """Rows that are equal in the first column; the next batch may have more of them."""
    for batch in batches:
        if not batch.num_rows:
            continue
        first = _values(batch, order[0])
        if held and first[-1] == _values(held[0], order[0])[0]:
            held.append(batch)
            continue
        last_from = int(np.searchsorted(first, first[-1]))
        before = [*held, batch.slice(0, last_from)] if last_from else held
        held = [batch.slice(last_from)]
        if before:
            yield _sorted(before, order)
    if held:
        yield _sorted(held, order)


def _sorted(batches: list[Any], order: Sequence[str]) -> Any:
    """One table of these, sorted by all columns of `order`; they are sorted by the first."""
    batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0] if len(batches) > 1 else batches[0]
    first = _values(batch, order[0])
    repeats = first[1:] == first[:-1]
    if not repeats.any():
        return batch
    equals = np.flatnonzero(np.append(repeats, False) | np.append(False, repeats))
    places = np.arange(len(first))
    places[equals] = equals[np.lexsort([_values(batch, name)[equals] for name in reversed(order)])]
    return batch.take(pa.array(places))


def _values(batch: Any, name: str) -> Any:
    return batch.column(name).to_numpy(zero_copy_only=False)


def _column(values: Any, kind: str) -> Any:
    return pa.array(np.rint(values) if kind != "float" else values).cast(_TYPES[kind])
