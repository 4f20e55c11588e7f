"""The options by which every command finds its cluster, and those by which it shows something."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from openclust.cli.access.context_file import contexts_path, load_contexts
from openclust.cli.access.login import PASSWORD_VARIABLE, URL_DEFAULT, client_for

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
vhost_option = click.option("--vhost", default="/", show_default=True, help="The virtual host that it is in.")


def _complete_context(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    try:
        names = load_contexts(contexts_path()).contexts
    except (click.ClickException, OSError):
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def cluster_options(wait_s: float | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command `client`, of the cluster that --url, --context or the context in use names."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--url",
            "urls",
            metavar="URL",
            multiple=True,
            help=f"HTTP API of a broker: http://USER@HOST:PORT. Give several, and where one does not answer the next "
            f"is asked. Default: the context in use, or else {URL_DEFAULT}.",
        )
        @click.option(
            "--context",
            metavar="NAME",
            shell_complete=_complete_context,
            help="The cluster of this name in the file of contexts (openclust context list).",
        )
        @click.option(
            "--password-file",
            metavar="FILE",
            help=f"The password is the first line of FILE. Else it is {PASSWORD_VARIABLE} of the environment, or asked "
            "for.",
        )
        @click.option("--ca-file", metavar="FILE", help="Trust https:// certificates of these authorities.")
        @functools.wraps(function)
        def wrapped(
            urls: tuple[str, ...],
            context: str | None,
            password_file: str | None,
            ca_file: str | None,
            **rest: Any,
        ) -> Any:
            return function(client=client_for(urls, context, password_file, ca_file, wait_s), **rest)

        return wrapped

    return decorate
