"""The table of all calls in the page on the HTTP API, made from the routes.

python -m openclust.manage.api.table            # write it into docs/http-api.md
python -m openclust.manage.api.table --print
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from openclust.manage.api.routes import ROUTES
from openclust.manage.calls.call import ADMINISTRATOR, WHOEVER_LOGS_IN, WITHOUT_LOGIN
from openclust.manage.calls.route import LIST_PARAMETERS, ApiRoute

PAGE = Path("docs", "http-api.md")
BEGIN, END = "<!-- calls: begin -->", "<!-- calls: end -->"


def table(routes: Iterable[ApiRoute]) -> str:
    """A row for each route."""
    rows = [
        f"| `{each.method} {_shown(each.path)}` | {_tag(each.tags)} | {each.summary}{_parameters(each)} |"
        for each in routes
    ]
    return "\n".join(["| call | tag needed | does |", "|---|---|---|", *rows])


def with_table(page: str, routes: Iterable[ApiRoute]) -> str:
    """The page with the table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(routes)}\n{END}{after}"


def _shown(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda part: part[1].upper(), path)


def _tag(tags: frozenset[str]) -> str:
    if tags is WITHOUT_LOGIN:
        return "(no login)"
    if tags is WHOEVER_LOGS_IN:
        return "(none)"
    if tags == ADMINISTRATOR:
        return "administrator"
    others = tags - ADMINISTRATOR
    return "any" if len(others) > 1 and "management" in others else ", ".join(sorted(others))


def _parameters(route: ApiRoute) -> str:
    told = [f"`{name}`" for name in route.query if name not in LIST_PARAMETERS]
    if route.is_list:
        told.insert(0, "[pages](#lists-and-pages)")
    return f"; {', '.join(told)}" if told else ""


def main() -> None:
    if "--print" in sys.argv[1:]:
        print(table(ROUTES))
        return
    page = PAGE.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        sys.exit(f"{PAGE}: has not the marks {BEGIN} and {END}")
    PAGE.write_text(with_table(page, ROUTES), encoding="utf-8")


if __name__ == "__main__":
    main()
