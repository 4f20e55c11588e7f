"""Where Spark runs and with what: the options of all commands that compute on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click


class SparkOptions(NamedTuple):
    """As `spark_session` takes them."""

    master: str | None
    memory: str
    local_dir: Path | None
    cache: Path | None


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--master`, `--memory`, `--local-dir`, `--no-cache`: the command gets them together, as `spark_options`."""

    @wraps(command)
    def told(
        *args: Any, master: str | None, memory: str, local_dir: Path | None, no_cache: bool, **options: Any
    ) -> Any:
        from topology.simulate.spark.class_archive import cache_folder

        cache = None if no_cache else cache_folder(os.environ)
        return command(*args, spark_options=SparkOptions(master, memory, local_dir, cache), **options)

    for option in reversed(
        (
            click.option(
                "--master", metavar="URL", help="local[N], spark://HOST:PORT, yarn, k8s://URL. [default: local[*]]"
            ),
            click.option("--memory", default="2g", show_default=True, help="Of Spark's driver, and of each executor."),
            click.option(
                "--local-dir", type=click.Path(path_type=Path), metavar="DIR", help="Where Spark puts things aside."
            ),
            click.option(
                "--no-cache",
                is_flag=True,
                envvar="OPENCLUST_NO_CACHE",
                help="Start Spark without what an earlier run left in ~/.cache for it, and leave nothing there.",
            ),
        )
    ):
        told = option(told)
    return told
