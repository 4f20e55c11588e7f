"""One thing that can be asked for: what the router serves, and what the documents of the API say of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from aiohttp import web

from openclust.manage.calls.call import Call

Handler: TypeAlias = Callable[[Call], Awaitable[web.Response]]

LIST_PARAMETERS = ("page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns")


class ApiRoute(NamedTuple):
    """`tags` are those of which a user needs one; `summary` is a sentence for the documents.

    `body` is the type of the JSON body, if the call reads one; `query` are the parameters that it knows.
    """

    method: str
    path: str
    handler: Handler
    tags: frozenset[str]
    summary: str
    body: type | None = None
    query: tuple[str, ...] = ()
