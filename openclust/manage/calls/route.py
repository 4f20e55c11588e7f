"""One thing that can be asked for: what the router serves, and what the documents of the API say of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeAlias

from aiohttp import web

from openclust.manage.calls.call import Call

Handler: TypeAlias = Callable[[Call], Awaitable[web.Response]]

AGE_PARAMETERS = (
    "lengths_age",
    "lengths_incr",
    "msg_rates_age",
    "msg_rates_incr",
    "data_rates_age",
    "data_rates_incr",
)

LIST_PARAMETERS = ("page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", *AGE_PARAMETERS)


class ApiRoute(NamedTuple):
    """`tags` are those of which a user needs one; `summary` is a sentence for the documents.

    `body` is the type of the JSON body, if the call reads one; `query` are the parameters that it knows; `produces` is
    the type of its answers.
    """

    method: str
    path: str
    handler: Handler
    tags: frozenset[str]
    summary: str
    body: Any = None
    query: tuple[str, ...] = ()
    produces: str = "application/json"

    @property
    def is_list(self) -> bool:
        """Whether it answers with rows: an array, or a page of one."""
        return "page" in self.query
