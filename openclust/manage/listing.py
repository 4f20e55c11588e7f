"""Listings by pages, as RabbitMQ's API has them: `?page=2&page_size=100`. Without a page, a bounded number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from aiohttp import web

from openclust.manage.call import ROWS_MAX, Call, answer, bad_request

PAGE_SIZE_DEFAULT = 100
PAGE_MAX = 1_000_000
NOTE = "X-Openclust-Note"
"""The header that says what an answer does not hold."""

T = TypeVar("T")


def listing(call: Call, groups: Iterable[Mapping[str, T]], show: Callable[[T], Any]) -> web.Response:
    """The rows that the call asks for, out of groups that follow each other, each ordered by its names.

    Only what is shown is built, and only the groups that it comes from are ordered.
    """
    query = call.request.query
    if "page" not in query:
        rows, total = _window(groups, 0, ROWS_MAX)
        note = f"the first {ROWS_MAX} of {total} rows; ask for more with ?page=2&page_size={ROWS_MAX}"
        headers = {NOTE: note} if total > len(rows) else None
        return answer([show(row) for row in rows], headers=headers)
    page = _number(query["page"], "page", PAGE_MAX)
    size = _number(query.get("page_size", str(PAGE_SIZE_DEFAULT)), "page_size", ROWS_MAX)
    rows, total = _window(groups, (page - 1) * size, size)
    page_count = max(1, -(-total // size))
    if page > page_count:
        raise bad_request(f"page {page} is past the last one, {page_count}")
    return answer(
        {
            "filtered_count": total,
            "item_count": len(rows),
            "items": [show(row) for row in rows],
            "page": page,
            "page_count": page_count,
            "page_size": size,
            "total_count": total,
        }
    )


def _window(groups: Iterable[Mapping[str, T]], start: int, size: int) -> tuple[list[T], int]:
    rows: list[T] = []
    total = 0
    for group in groups:
        first, last = max(0, start - total), min(len(group), start + size - total)
        if first < last:
            rows += [group[name] for name in sorted(group)[first:last]]
        total += len(group)
    return rows, total


def _number(text: str, name: str, maximum: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= maximum):
        raise bad_request(f"{name} is a number of 1 to {maximum}")
    return int(text)
