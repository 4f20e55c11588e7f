"""`openclust why-no-root`: yes with the root's name, or no with a line a reason."""

from __future__ import annotations

import click

from openclust.cli.access.options import cluster_options, json_option
from openclust.cli.cluster.cluster_view import ask
from openclust.cli.cluster.status import needed, reasons
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.cli.term import show_json
from openclust.shell.host.event_log import escape

NO_ROOT = 1


@click.command("why-no-root")
@cluster_options()
@json_option
def why_no_root(client: HttpClient, as_json: bool) -> int:
    """Say who stands in the way of a root, and why, one line a reason.

    Exit code 0 and the root's name where there is one, 1 where there is none, 2 where nobody answers.
    """
    view, document = ask(client)
    if as_json:
        keys = ("name", "root", "epoch", "votes", "votes_needed", "why_no_root")
        show_json({key: document[key] for key in keys if key in document})
    elif view.root is not None:
        click.echo(escape(view.root))
    else:
        for line in (*reasons(view), *needed(view)):
            click.echo(line)
    return DONE if view.root is not None else NO_ROOT
