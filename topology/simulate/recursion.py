"""Rows of a group one after the other, each depending on those before it: groups in parallel, memory bounded.

Rows pass by in order, in Arrow batches that end anywhere; several groups may share a partition, and mix there. What is
kept is what the recursions themselves have not told yet.
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

from topology.simulate.rows import partitions_of

Columns: TypeAlias = Sequence[Any]
"""Numpy arrays of equal length."""


class Recursion(Protocol):
    """One group's. What `take` and `end` return is of the first rows that were not told of yet."""

    def take(self, columns: Columns) -> Columns: ...
    def end(self) -> Columns:
        """No more will come: tell all that is left."""


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

    `order` must leave no ties within a group, or the result hangs on how rows came. Where many rows have the same in
    its first column they are sorted slowly. Keys are ints from 0 on. Columns hold no nulls. What is returned by the
    recursion is rounded where `adds` says int or long.
    """
    # Dealt out in turn: by a hash some partitions would get several of few groups, and others none.
    dealt = reduce(add, (F.col(key) for key in keys))
    grouped = rows.repartitionById(partitions or partitions_of(rows.sparkSession), dealt)
    needed = list(dict.fromkeys((*keys, *order, *takes, *passes)))
    ordered = grouped.select(*needed).sortWithinPartitions(*order)
    kept = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.select(*passes).schema)
    run = _Streaming(tuple(keys), tuple(takes), tuple(passes), tuple(_added(adds)), begin)
    return ordered.mapInArrow(run, f"{kept}, {adds}")


_TYPES = {"int": pa.int32(), "long": pa.int64(), "float": pa.float32()}


def _added(ddl: str) -> Iterator[tuple[str, str]]:
    for each in ddl.split(","):
        name, kind = each.split()
        yield name, kind


class _Streaming:
    """What a worker does with a partition."""

    def __init__(
        self,
        keys: tuple[str, ...],
        takes: tuple[str, ...],
        passes: tuple[str, ...],
        adds: tuple[tuple[str, str], ...],
        begin: Begin,
    ) -> None:
        self._keys, self._takes, self._passes, self._adds, self._begin = keys, takes, passes, adds, begin

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        going: dict[tuple[int, ...], tuple[Recursion, list[Any]]] = {}
        for batch in batches:
            for key, part in self._groups(batch):
                if key not in going:
                    going[key] = self._begin(key), []
                recursion, held = going[key]
                held.append(part.select(list(self._passes)))
                columns = [part.column(name).to_numpy(zero_copy_only=False) for name in self._takes]
                yield from self._told(held, recursion.take(columns))
        for recursion, held in going.values():
            yield from self._told(held, recursion.end())

    def _groups(self, batch: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
        """The batch in parts of one key each, every part in the batch's order."""
        columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in self._keys]
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
        """As many of the held rows as the recursion has told of; the others stay in `held`."""
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


def _column(values: Any, kind: str) -> Any:
    return pa.array(np.rint(values) if kind != "float" else values).cast(_TYPES[kind])
