"""`--watch`: shows a result again and again, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import click

from openclust.cli.exit_codes import DONE

CLEAR = "\x1b[H\x1b[2J"

watch_option = click.option("--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
interval_option = click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600.0),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often --watch asks.",
)


def watch_for(ask: Callable[[], Callable[[], object]], interval_s: float, *, as_json: bool) -> int:
    """Calls `ask`, which returns a function that shows the answer. A broker that does not answer is asked again."""
    try:
        while True:
            try:
                show: Callable[[], object] | None = ask()
                problem = ""
            except click.ClickException as error:
                show, problem = None, error.format_message()
            if not as_json:
                now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                click.echo(f"{CLEAR if sys.stdout.isatty() else ''}{now}")
            if show is None:
                click.echo(f"openclust: error: {problem}", err=True)
            else:
                show()
            sys.stdout.flush()
            time.sleep(interval_s)
    except KeyboardInterrupt:
        return DONE
