"""Where Spark runs and with what: the options of all commands that compute on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def spark_options(command: Command) -> Command:
    """`--master`, `--memory`, `--local-dir`."""
    for option in reversed(
        (
            click.option(
                "--master", metavar="URL", help="local[N], spark://HOST:PORT, yarn, k8s://URL. [default: local[*]]"
            ),
            click.option("--memory", default="2g", show_default=True, help="Of Spark's driver, and of each executor."),
            click.option(
                "--local-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where Spark puts things aside."
            ),
        )
    ):
        command = option(command)
    return command
