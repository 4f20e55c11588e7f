"""The options for Spark, its place and its memory, of all commands that compute on it."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from openclust.shell.config.schema import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkOptions(NamedTuple):
    """The options as the arguments of `spark_session`."""

    master: str | None
    memory: str
    local_dir: Path | None
    cache: Path | None


@contextmanager
def started_spark(options: SparkOptions, **more: Any) -> Iterator[SparkSession]:
    """A session of Spark, without the warnings that Spark and pandas have for developers."""
    from topology.simulate.spark.session import spark_session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with spark_session(**options._asdict(), **more) as spark:
            yield spark


def about_spark(spark: SparkSession, options: SparkOptions) -> dict[str, str]:
    """The values of a session for the summary of the results."""
    return {"version": spark.version, "master": str(spark.sparkContext.master), "memory": options.memory}


@contextmanager
def showing_causes(is_debug: bool) -> Iterator[None]:
    """With `--debug` an error in Spark prints its traceback before its one line."""
    try:
        yield
    except ConfigError as error:
        if is_debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--master`, `--memory`, `--local-dir` and `--no-cache`; the command gets them as one `spark_options`."""

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
