"""`openclust context`: names for clusters, so that commands need no URL."""

from __future__ import annotations

import os

import click

from openclust.cli.access.context_file import (
    CONTEXTS_MAX,
    ClusterContext,
    ContextFile,
    contexts_path,
    load_contexts,
    save_contexts,
)
from openclust.cli.access.login import refuse_passwords
from openclust.cli.access.options import json_option
from openclust.cli.http_client import parse_api_url
from openclust.cli.term import show_json, show_table


@click.group()
def context() -> None:
    """Name clusters, and choose the one that commands talk to.

    They are kept in $XDG_CONFIG_HOME/openclust/contexts.toml, readable for you only.
    """


@context.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the contexts; the one in use has a star."""
    file = load_contexts(contexts_path())
    found = sorted(file.contexts.items())
    if as_json:
        show_json(
            [
                {
                    "name": name,
                    "is_current": name == file.current,
                    "urls": [_shown(url) for url in each.urls],
                    "password_file": each.password_file,
                    "ca_file": each.ca_file,
                }
                for name, each in found
            ]
        )
        return
    rows = [
        ("*" if name == file.current else "", name, " ".join(map(_shown, each.urls)), each.password_file or "-")
        for name, each in found
    ]
    show_table(("", "name", "urls", "password file"), rows)


@context.command()
@click.argument("name")
@click.option(
    "--url",
    "urls",
    metavar="URL",
    multiple=True,
    required=True,
    help="HTTP API of a broker: http://USER@HOST:PORT. Give it again for each broker of the cluster.",
)
@click.option("--password-file", metavar="FILE", help="The password is the first line of FILE.")
@click.option("--ca-file", metavar="FILE", help="Trust https:// certificates of these authorities.")
def add(name: str, urls: tuple[str, ...], password_file: str | None, ca_file: str | None) -> None:
    """Add the cluster NAME, or change it. The first one is used at once."""
    refuse_passwords(urls)
    path = contexts_path()
    file = load_contexts(path)
    if len(file.contexts) >= CONTEXTS_MAX and name not in file.contexts:
        raise click.ClickException(f"{path}: there are {CONTEXTS_MAX} contexts already; openclust context remove")
    is_new = name not in file.contexts
    file.contexts[name] = ClusterContext(urls=list(urls), password_file=_whole(password_file), ca_file=_whole(ca_file))
    file.current = file.current or name
    save_contexts(path, file)
    used = ", in use now" if file.current == name else f"; openclust context use {name} uses it"
    click.echo(f"{'Added' if is_new else 'Changed'} {name} in {path}{used}.")


@context.command()
@click.argument("name")
def use(name: str) -> None:
    """Have commands talk to the cluster NAME."""
    path = contexts_path()
    file = load_contexts(path)
    _find(file, name, path)
    file.current = name
    save_contexts(path, file)
    click.echo(f"Commands talk to {name}.")


@context.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove the cluster NAME from the file."""
    path = contexts_path()
    file = load_contexts(path)
    _find(file, name, path)
    del file.contexts[name]
    was_current = file.current == name
    file.current = "" if was_current else file.current
    save_contexts(path, file)
    click.echo(f"Removed {name} from {path}{'; no context is in use' if was_current else ''}.")


def _find(file: ContextFile, name: str, path: str) -> None:
    if name not in file.contexts:
        known = f"; there are {', '.join(sorted(file.contexts))}" if file.contexts else ""
        raise click.ClickException(f"{path} has no context {name!r}{known}")


def _shown(url: str) -> str:
    parts = parse_api_url(url)
    return parts.base if parts.user is None else parts.with_login(parts.user)


def _whole(path: str | None) -> str | None:
    """Commands run in other folders find the file too."""
    return None if path is None else os.path.abspath(os.path.expanduser(path))
