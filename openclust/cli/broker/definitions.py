"""`openclust definitions`: exports and imports the definitions of a broker, as RabbitMQ's JSON."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import Any

import click

from openclust.cli.access.options import cluster_options
from openclust.cli.http_client import IMPORT_WAIT_S, HttpClient
from openclust.shell.config.schema import ConfigError
from openclust.shell.host.event_log import escape

LINES_SHOWN_MAX = 50
REFUSED = 1


@click.group()
def definitions() -> None:
    """Export, import or check definitions: users, policies, exchanges, queues, bindings.

    The file format is RabbitMQ's. Messages are no part of definitions.
    """


@definitions.command("export")
@click.argument("file", default="-")
@cluster_options(IMPORT_WAIT_S)
def export_(file: str, client: HttpClient) -> None:
    """Write a running broker's definitions to FILE, or to standard output.

    They hold password hashes: the file is made readable for its owner only.
    """
    import msgspec

    status, document = client.call("GET", "/api/definitions")
    if status != 200:
        raise click.ClickException(client.refusal(status, document))
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    if file == "-":
        sys.stdout.buffer.write(data)
    else:
        _replace(file, data)
        click.echo(f"Wrote {_counted(document)} to {file}.")
    for line in document.get("openclust_left_out", []):
        click.echo(f"left out: {escape(line)}", err=True)


@definitions.command("import")
@click.argument("file")
@cluster_options(IMPORT_WAIT_S)
@click.option("--skip-problems", is_flag=True, help="Take all entries without a problem, and name the others.")
def import_(file: str, client: HttpClient, skip_problems: bool) -> int:
    """Import FILE into a running broker ("-": standard input).

    Nothing is changed if anything in it is wrong, or differs from what the broker has under the same name. With
    --skip-problems the rest is taken, and the exit code is still 1 where anything was left out.
    """
    data = _read(file)
    _parse(file, data)  # text that is no JSON is wrong input: exit code 2, not 1
    query = "?skip_problems=true" if skip_problems else "?report=true"
    status, answer = client.call("POST", f"/api/definitions{query}", data)
    if status == 204:  # RabbitMQ answers without a document
        click.echo(f"Imported {file}.")
        return 0
    if status not in (200, 400) or not isinstance(answer, dict):
        raise click.ClickException(client.refusal(status, answer))
    _tell("ignored", answer.get("ignored", []))
    if status == 400:
        _tell("problem", answer.get("problems") or [answer.get("reason", "")])
        changed = answer.get("changed", 0)
        click.echo(
            f"{changed} changes were made, the rest was refused." if changed else "Nothing was changed.", err=True
        )
        return REFUSED
    left_out = answer.get("problems", [])
    _tell("left out", left_out)
    rest = " but for what was left out" if left_out else ""
    click.echo(f"Imported {file}{rest}: {answer['changed']} changes, {answer['unchanged']} things were there already.")
    return REFUSED if left_out else 0


@definitions.command()
@click.argument("file")
def check(file: str) -> int:
    """Say whether FILE could be imported into an empty broker. No broker is needed for it."""
    from openclust.shell.definitions_file import check_definitions

    report = check_definitions(_parse(file, _read(file)))
    _tell("ignored", report.ignored)
    _tell("problem", report.problems)
    if report.problems:
        return REFUSED
    click.echo(f"{file} is right: an empty broker would make {report.changed} changes.")
    return 0


def _read(file: str) -> bytes:
    from openclust.shell.definitions_file import FILE_BYTES_MAX

    if file == "-":
        data = sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    else:
        with open(file, "rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{file}: definitions have at most {FILE_BYTES_MAX} bytes")
    return data


def _parse(file: str, data: bytes) -> dict[str, Any]:
    from openclust.shell.definitions_file import parse_definitions

    try:
        return parse_definitions(data)
    except ValueError as error:
        raise click.ClickException(f"{file}: {error}") from None


def _replace(file: str, data: bytes) -> None:
    """Replaces the file in one step, so that a failed export leaves the former file as it was."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.realpath(file)), prefix=".definitions-")
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(data)
        os.replace(temporary, os.path.realpath(file))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _tell(what: str, lines: list[str]) -> None:
    for line in lines[:LINES_SHOWN_MAX]:
        click.echo(f"{what}: {escape(line)}", err=True)
    if len(lines) > LINES_SHOWN_MAX:
        click.echo(f"{what}: {len(lines) - LINES_SHOWN_MAX} more", err=True)


def _counted(document: dict[str, Any]) -> str:
    parts = [
        f"{len(document[key])} {key}" for key in ("users", "vhosts", "policies", "exchanges", "queues", "bindings")
    ]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
