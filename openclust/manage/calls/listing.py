"""Lists of what every broker has, such as users: answered by the broker that is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from aiohttp import web

from openclust.manage.calls.call import Call
from openclust.manage.calls.gathered import list_response, selection
from openclust.manage.gather.gathering import merged
from openclust.manage.gather.select import select
from openclust.manage.gather.selection import Row


class Showing(NamedTuple):
    """How objects of one kind are shown: `place` is the virtual host and the name that they are ordered by."""

    place: Callable[[Any], tuple[str, str]]
    row: Callable[[Any], Row]
    values: Mapping[str, Callable[[Any], Any]] = {}


async def listing(call: Call, objects: Iterable[Any], showing: Showing, missing: Iterable[str] = ()) -> web.Response:
    """The wanted rows of these objects; `missing` are brokers whose part of the numbers is not in them."""
    wanted = selection(call)
    found = await merged([await select(objects, showing, wanted)], wanted, list(missing))
    return list_response(found, wanted)
