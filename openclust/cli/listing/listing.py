"""`openclust NOUN list`: rows of the whole cluster, page by page, filtered and ordered at the brokers."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import click

from openclust.cli.access.options import cluster_options, json_option
from openclust.cli.exit_codes import DONE, NO
from openclust.cli.http_client import HttpAnswer, HttpClient
from openclust.cli.listing.cells import cell
from openclust.cli.listing.noun import Column, Noun
from openclust.cli.term import show_json, show_table
from openclust.cli.watch import interval_option, watch_for, watch_option
from openclust.shell.host.event_log import escape

PAGE_ROWS = 500
ROWS_MAX = 10_000
"""A broker shows no more of one list, however it is asked."""


class Wanted(NamedTuple):
    """Which rows, in which order, and which columns of them; no columns are all."""

    vhost: str | None = None
    name: str = ""
    is_regex: bool = False
    sort: str = ""
    is_reversed: bool = False
    columns: tuple[str, ...] = ()
    limit: int = ROWS_MAX


class FoundRows(NamedTuple):
    """`total` is how many rows there are, of which no more than the limit are here."""

    rows: list[dict[str, Any]]
    total: int
    missing: tuple[str, ...]


def fetch(client: HttpClient, noun: Noun, wanted: Wanted) -> FoundRows:
    """The rows that are wanted; click's errors where a broker refuses."""
    page_rows = min(PAGE_ROWS, wanted.limit)
    rows: list[dict[str, Any]] = []
    missing: set[str] = set()
    page, total = 1, 0
    while True:
        answer = client.ask("GET", _path(noun, wanted, page, page_rows))
        if answer.status == 400 and page > 1:
            break  # The list has become shorter since the page before.
        document = _right(client, answer, wanted.vhost)
        missing.update(answer.missing)
        if isinstance(document, list):
            # This broker has no pages of such a list: it has sent all of it, whatever the name.
            found = [_row(each) for each in document]
            kept = [each for each in found if _is_named(each, noun, wanted)]
            return FoundRows([_cut(each, wanted) for each in kept[: wanted.limit]], len(kept), tuple(sorted(missing)))
        rows += (_cut(_row(each), wanted) for each in document.get("items", ()))
        total = int(document.get("filtered_count", len(rows)))
        if page >= document.get("page_count", 0) or len(rows) >= wanted.limit:
            break
        page += 1
    return FoundRows(rows[: wanted.limit], total, tuple(sorted(missing)))


def _path(noun: Noun, wanted: Wanted, page: int, page_rows: int) -> str:
    path = noun.path
    if wanted.vhost is not None and noun.in_vhost:
        path = noun.in_vhost.format(vhost=quote(wanted.vhost, safe=""))
    query = {"page": str(page), "page_size": str(page_rows)}
    if wanted.name:
        query |= {"name": wanted.name, "use_regex": "true" if wanted.is_regex else "false"}
    if wanted.sort:
        query |= {"sort": wanted.sort, "sort_reverse": "true" if wanted.is_reversed else "false"}
    if wanted.columns:
        # A name is needed to filter by it where the broker has no pages of the list.
        query["columns"] = ",".join(dict.fromkeys((*wanted.columns, *(noun.name_paths if wanted.name else ()))))
    return f"{path}?{urlencode(query)}"


def _right(client: HttpClient, answer: HttpAnswer, vhost: str | None) -> Any:
    if answer.status == 404:
        what = "list like this" if vhost is None else f"virtual host {vhost!r}"
        raise click.ClickException(f"{client.base} has no {escape(what)}")
    if answer.status != 200 or not isinstance(answer.document, dict | list):
        raise click.ClickException(client.refusal(answer.status, answer.document))
    return answer.document


def _row(row: Any) -> dict[str, Any]:
    """RabbitMQ shows a row without any of the columns as an empty list."""
    return row if isinstance(row, dict) else {}


def _cut(row: dict[str, Any], wanted: Wanted) -> dict[str, Any]:
    """The row without the name if only the filter needed it."""
    if not (wanted.columns and wanted.name):
        return row
    heads = {path.split(".")[0] for path in wanted.columns}
    return {name: value for name, value in row.items() if name in heads}


def _is_named(row: dict[str, Any], noun: Noun, wanted: Wanted) -> bool:
    if not wanted.name:
        return True
    names = [str(found) for path in noun.name_paths if (found := Column(path, "").value(row)) is not None]
    if not wanted.is_regex:
        return any(wanted.name.casefold() in name.casefold() for name in names)
    try:
        return any(re.search(wanted.name, name, re.IGNORECASE) for name in names)
    except re.error as error:
        raise click.UsageError(f"--name {wanted.name!r} is no regular expression: {error.msg}") from None


# -- shown


def show_found(found: FoundRows, columns: tuple[Column, ...]) -> None:
    show_table(
        [each.heading for each in columns],
        [[cell(each.path, each.value(row)) for each in columns] for row in found.rows],
    )


def tell_what_is_left_out(found: FoundRows, noun: Noun) -> None:
    """On stderr, so that what is on stdout are rows and nothing else."""
    if found.missing:
        names = escape(", ".join(found.missing))
        click.echo(f"openclust: warning: no answer from {names}: rows that only they have are left out", err=True)
    if found.total > len(found.rows):
        click.echo(
            f"openclust: note: {len(found.rows)} of {found.total} {noun.name} are shown (--limit, --name)", err=True
        )


def list_command(noun: Noun) -> click.Command:
    """The command `list` of a noun."""
    usual = ", ".join(each.path for each in noun.columns)

    @click.command("list", help=_HELP.format(name=noun.name, usual=usual))
    @click.option("--name", default="", metavar="TEXT", help="Only those with this text in their name.")
    @click.option("--regex", "is_regex", is_flag=True, help="--name is a regular expression.")
    @click.option("--columns", default="", metavar="A,B", help="These columns, in this order; `A.B` is B inside A.")
    @click.option("--sort", default="", metavar="COLUMN", help="Order by this column.")
    @click.option("--reverse", "is_reversed", is_flag=True, help="The largest first.")
    @click.option(
        "--limit",
        type=click.IntRange(1, ROWS_MAX),
        default=ROWS_MAX,
        show_default=True,
        metavar="ROWS",
        help="The most rows to show.",
    )
    @json_option
    @watch_option
    @interval_option
    @cluster_options()
    def list_(
        client: HttpClient,
        name: str,
        is_regex: bool,
        columns: str,
        sort: str,
        is_reversed: bool,
        limit: int,
        as_json: bool,
        watch: bool,
        interval: float,
        vhost: str | None = None,
    ) -> int:
        paths = tuple(path for path in columns.replace(" ", "").split(",") if path)
        chosen = noun.chosen(paths)
        pushed = () if as_json and not paths else tuple(each.path for each in chosen)
        by_path = {each.path for each in noun.columns}
        order = sort if not sort or sort in by_path else noun.chosen((sort,))[0].path
        if is_reversed and not sort:
            raise click.UsageError("--reverse needs --sort")
        wanted = Wanted(vhost, name, is_regex, order, is_reversed, pushed, limit)

        def ask() -> Callable[[], int]:
            return functools.partial(_show, fetch(client, noun, wanted), noun, chosen, as_json, watch)

        return watch_for(ask, interval, as_json=as_json) if watch else ask()()

    if noun.in_vhost:
        list_ = click.option("--vhost", metavar="VHOST", help="Only those of this virtual host.")(list_)
    return list_


_HELP = """List the {name} of the whole cluster.

Exit code 1 where a broker did not answer, so that its rows are left out; it is named on standard error.

Columns of a table, if none are named: {usual}. JSON has all.
"""


def _show(found: FoundRows, noun: Noun, columns: tuple[Column, ...], as_json: bool, is_watched: bool) -> int:
    if as_json and is_watched:
        import json

        click.echo(json.dumps(found.rows))
    elif as_json:
        show_json(found.rows)
    else:
        show_found(found, columns)
    sys.stdout.flush()
    tell_what_is_left_out(found, noun)
    return NO if found.missing else DONE
