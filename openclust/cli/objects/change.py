"""A change by the HTTP API, and one line where it is refused."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click
import msgspec

from openclust.cli.http_client import HttpAnswer, HttpClient
from openclust.shell.host.event_log import escape

DONE_STATUSES = (200, 201, 202, 204)


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def change(
    client: HttpClient, method: str, path: str, body: Any = None, *, of: str, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Status and document of the answer; click's error where the call is refused. `of` names what it is about."""
    data = None if body is None else msgspec.json.encode(body)
    answer = client.ask(method, path, data, headers)
    if answer.status not in DONE_STATUSES:
        raise refused(client, answer, of)
    return answer.status, answer.document


def refused(client: HttpClient, answer: HttpAnswer, of: str) -> click.ClickException:
    """The error of a call that was refused."""
    if answer.status == 404:
        return click.ClickException(f"{client.base} has no {escape(of)}")
    return click.ClickException(f"{client.refusal(answer.status, answer.document)} ({escape(of)})")
