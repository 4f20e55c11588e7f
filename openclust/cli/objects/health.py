"""`openclust health`: whether a broker and its cluster are well."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from openclust.cli.access.options import cluster_options, json_option
from openclust.cli.exit_codes import DONE, NO
from openclust.cli.http_client import HttpClient
from openclust.cli.term import show_json, show_table

PATHS = {
    "ready": "/api/ready",
    "alarms": "/api/health/checks/alarms",
    "local-alarms": "/api/health/checks/local-alarms",
    "virtual-hosts": "/api/health/checks/virtual-hosts",
    "quorum-critical": "/api/health/checks/node-is-quorum-critical",
    "certificates": "/api/health/checks/certificate-expiration/1/months",
}
"""The checks of a broker by their names here."""


class Health(NamedTuple):
    """`is_well` is None if the broker does not know the check."""

    check: str
    is_well: bool | None
    reason: str


@click.command()
@click.argument("checks", metavar="[CHECK]...", nargs=-1, type=click.Choice(list(PATHS)))
@json_option
@cluster_options()
def health(checks: tuple[str, ...], as_json: bool, client: HttpClient) -> int:
    """Say whether the broker behind --url and its cluster are well. Exit code 1 if a check fails.

    Checks: ready (clients may come), alarms (of all brokers), local-alarms, virtual-hosts, quorum-critical (no root
    would be left without this broker), certificates (none ends within a month). All, if none is named.
    """
    found = [_check(client, name) for name in checks or PATHS]
    if checks and (unknown := [each.check for each in found if each.is_well is None]):
        raise click.ClickException(f"the broker at {client.base} has no check {unknown[0]}")
    if as_json:
        show_json([{"check": each.check, "is_well": each.is_well, "reason": each.reason} for each in found])
    else:
        words = {True: "well", False: "ill", None: "unknown"}
        show_table(("check", "result", "reason"), [(each.check, words[each.is_well], each.reason) for each in found])
    return NO if any(each.is_well is False for each in found) else DONE


def _check(client: HttpClient, name: str) -> Health:
    status, answer = client.call("GET", PATHS[name])
    if status == 404:
        return Health(name, None, "not known to this broker")
    if status not in (200, 503):
        raise click.ClickException(client.refusal(status, answer))
    return Health(name, status == 200, _reason(answer) if isinstance(answer, dict) else "")


def _reason(answer: dict[str, Any]) -> str:
    if isinstance(answer.get("not_ready"), list):
        return "; ".join(str(each.get("reason", each)) for each in answer["not_ready"] if isinstance(each, dict))
    reason = answer.get("reason", "")
    return " ".join(map(str, reason)) if isinstance(reason, list) else str(reason)
