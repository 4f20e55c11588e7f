"""The wanted rows out of many objects, in slices: the broker serves its clients in between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from openclust.manage.gather.ordering import FirstRows
from openclust.manage.gather.questions import ReplyRows
from openclust.manage.gather.selection import (
    NameFilter,
    Row,
    Selection,
    SortKey,
    sort_key,
    value_at,
    with_columns,
)
from openclust.manage.gather.slices import Slices

_encode = msgspec.json.Encoder().encode


class Shower(Protocol):
    """Shows objects as rows. `values` are columns that can be had without the whole row: sorting by them is cheap."""

    @property
    def values(self) -> Mapping[str, Callable[[Any], Any]]: ...

    def place(self, it: Any) -> tuple[str, str]:
        """The virtual host and the name."""

    def row(self, it: Any) -> Row: ...


async def select(objects: Iterable[Any], shower: Shower, selection: Selection) -> ReplyRows:
    """The first rows up to the end of the wanted page."""
    is_wanted = NameFilter(selection)
    slices = Slices()
    first: FirstRows[Any] = FirstRows(selection.end, reverse=selection.sort_reverse, slices=slices)
    total = filtered = 0
    for it in objects:
        total += 1
        vhost, name = shower.place(it)
        if is_wanted(name):
            filtered += 1
            await first.add(_key(shower, selection, it, vhost, name), it)
        await slices.rest()
    rows = []
    for key, it in await first.take():
        rows.append((key, _encode(with_columns(shower.row(it), selection.columns))))
        await slices.rest()
    return ReplyRows(total=total, filtered=filtered, rows=rows)


def _key(shower: Shower, selection: Selection, it: Any, vhost: str, name: str) -> SortKey:
    if not selection.sort:
        return sort_key(None, vhost, name)
    value = shower.values.get(selection.sort)
    found = value(it) if value is not None else value_at(shower.row(it), selection.sort)
    return sort_key(found, vhost, name)
