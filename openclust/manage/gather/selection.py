"""Which rows of a list a caller wants, in which order, and which columns of them: RabbitMQ's query parameters.

Every broker selects among its own rows, so that a page of 100 moves 100 rows of each broker and not 10,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import re2  # type: ignore[import-untyped]

Row: TypeAlias = dict[str, Any]
SortKey: TypeAlias = tuple[int, Any, str, str]
"""The rank of the type and the value of the sorted column, then virtual host and name: no two rows are equal."""

PAGE_SIZE_DEFAULT = 100
PAGE_SIZE_MAX = 500
PAGE_MAX = 1_000_000
ROWS_MAX = 10_000
"""Of an answer without pages, and of all that lies before the end of a page."""
PATTERN_CHARACTERS_MAX = 1_000
PATTERN_MEMORY_BYTES_MAX = 1_048_576
COLUMNS_MAX = 100

_MISSING = 0
_NUMBER = 1
_TEXT = 2
_OTHER = 3


class BadSelection(ValueError):
    """A query parameter is wrong; the text says which, and what it may be."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a list. `page` 0 is a list without pages."""

    page: int = 0
    page_size: int = PAGE_SIZE_DEFAULT
    name: str = ""
    use_regex: bool = False
    sort: str = ""
    sort_reverse: bool = False
    columns: tuple[str, ...] = ()

    @property
    def start(self) -> int:
        """How many rows of the ordered list lie before the first one that is wanted."""
        return (self.page - 1) * self.page_size if self.page else 0

    @property
    def end(self) -> int:
        """How many rows of the ordered list are needed to know those that are wanted."""
        return self.page * self.page_size if self.page else ROWS_MAX


def selection_of(query: Mapping[str, str]) -> Selection:
    """The selection that a query string asks for; BadSelection names the parameter that is wrong."""
    page = _number(query["page"], "page", PAGE_MAX) if "page" in query else 0
    selection = Selection(
        page=page,
        page_size=_number(query.get("page_size", str(PAGE_SIZE_DEFAULT)), "page_size", PAGE_SIZE_MAX),
        name=query.get("name", ""),
        use_regex=_flag(query, "use_regex"),
        sort=query.get("sort", ""),
        sort_reverse=_flag(query, "sort_reverse"),
        columns=tuple(column for column in query.get("columns", "").split(",") if column),
    )
    if selection.end > ROWS_MAX:
        raise BadSelection(f"page {page} ends after row {ROWS_MAX}: ask for fewer rows with name=")
    if len(selection.columns) > COLUMNS_MAX:
        raise BadSelection(f"columns names at most {COLUMNS_MAX} columns")
    NameFilter(selection)
    return selection


class NameFilter:
    """Whether a name is one of those wanted. A pattern is matched in time linear in the name, whatever it says."""

    def __init__(self, selection: Selection) -> None:
        self._text = selection.name.casefold()
        self._pattern = _pattern(selection.name) if selection.name and selection.use_regex else None

    def __call__(self, name: str) -> bool:
        if self._pattern is not None:
            return self._pattern.search(name) is not None
        return not self._text or self._text in name.casefold()


def _pattern(text: str) -> Any:
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise BadSelection(f"name has at most {PATTERN_CHARACTERS_MAX} characters")
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.log_errors = False
    options.case_sensitive = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise BadSelection(f"name is no regular expression (RE2's, without look-around): {reason}") from None


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """The value at a path of names with dots between them; None where the row has none."""
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def sort_key(value: Any, vhost: str, name: str) -> SortKey:
    """What a row is ordered by: rows without the column first, then by number, by text, by anything else."""
    if value is None:
        return (_MISSING, "", vhost, name)
    if isinstance(value, bool | int | float):
        return (_NUMBER, value, vhost, name)
    if isinstance(value, str):
        return (_TEXT, value, vhost, name)
    return (_OTHER, str(value), vhost, name)


def with_columns(row: Row, columns: tuple[str, ...]) -> Row:
    """The row with the wanted columns only; with all of them if none is named."""
    if not columns:
        return row
    kept: Row = {}
    for column in columns:
        _keep(row, kept, column.split("."))
    return kept


def _keep(row: Mapping[str, Any], kept: Row, path: list[str]) -> None:
    name = path[0]
    if name not in row:
        return
    if len(path) == 1:
        kept[name] = row[name]
    elif isinstance(row[name], Mapping):
        within = kept.setdefault(name, {})
        if within is not row[name]:
            _keep(row[name], within, path[1:])


def _number(text: str, name: str, maximum: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= maximum):
        raise BadSelection(f"{name} is a number of 1 to {maximum}")
    return int(text)


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false")
    if text not in ("true", "false"):
        raise BadSelection(f"{name} is true or false")
    return text == "true"
