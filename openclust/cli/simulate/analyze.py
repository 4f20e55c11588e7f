"""`openclust analyze`: the figures of a real cluster, from the traces that its brokers have written."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from openclust import __version__
from openclust.cli.simulate.progress import progress_bar
from openclust.cli.simulate.spark_options import SparkOptions, about_spark, showing_causes, spark_options, started_spark
from openclust.cli.simulate.summary import show_summary
from openclust.shell.config.schema import ConfigError
from topology.simulate.report.results_folder import PARQUET, make_folder, write_results
from topology.simulate.trace.files import TraceFiles, find_files

if TYPE_CHECKING:
    from topology.simulate.results.summary import ResultsSummary

NAMES_SHOWN_MAX = 20


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="TRACE...")
@spark_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="analysis",
    show_default=True,
    metavar="DIR",
    help="Folder of the results; what an earlier analysis left there is replaced.",
)
@click.option("--keep", is_flag=True, help="Do not replace earlier results: stop where there are some.")
@click.option("--parquet", is_flag=True, help="Put the lines of all traces there too, as Parquet.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing, and show no progress.")
@click.option("--debug", is_flag=True, help="Show where in Spark something failed, too.")
def analyze(
    files: tuple[str, ...],
    spark_options: SparkOptions,
    out: Path,
    keep: bool,
    parquet: bool,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Say what really happened in a cluster: load, latency, copies between brokers, times without a root.

    TRACE is a file that a broker wrote with --trace, a folder of them, or a pattern: JSON lines, or Parquet. Give those
    of all brokers. Results are in --out: summary.json and report.html, as openclust simulate writes them.
    """
    found = find_files(files)
    with showing_causes(debug):
        summary = _analyzed(found, out, spark_options, keep=keep, parquet=parquet, quiet=quiet)
    write_results(summary, out)
    show_summary(summary, out, as_json=as_json, quiet=quiet)


def _analyzed(
    files: TraceFiles, out: Path, options: SparkOptions, *, keep: bool, parquet: bool, quiet: bool
) -> ResultsSummary:
    from topology.simulate.spark.session import check_packages

    check_packages()
    _check_apart(files, out)
    make_folder(out, keep=keep)
    began = time.monotonic()
    with (
        progress_bar(is_shown=not quiet) as watched,
        started_spark(options, out=out, name="openclust analyze") as spark,
    ):
        from topology.simulate.results.summary import ResultsSummary
        from topology.simulate.trace.analysis import analyze as compute

        found = compute(spark, files, out=out / PARQUET if parquet else None, progress=watched)
        about = {**about_spark(spark, options), "name": str(spark.sparkContext.appName)}
    names = [each.name for each in files.all]
    shown = names if len(names) <= NAMES_SHOWN_MAX else [*names[:NAMES_SHOWN_MAX], "..."]
    return ResultsSummary(
        kind="trace",
        openclust=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=f"Cluster {found.begun.cluster}",
        topology=f"{len(found.begun.roles)} brokers that traced",
        workload={
            "name": ", ".join(shown),
            "duration_s": round(found.duration_s, 3),
            "sample": found.begun.sample,
        },
        calibration={},
        spark=about,
        took_s=round(time.monotonic() - began, 3),
        stages=found.stages,
        runs=[found.run],
        notes=found.notes,
    )


def _check_apart(files: TraceFiles, out: Path) -> None:
    """Refuses traces in the folder of the results, because the results replace its contents."""
    place = out.resolve()
    inside = [each for each in files.all if each.is_relative_to(place)]
    if inside:
        raise ConfigError(f"{inside[0]} is in the folder of the results; let --out name another")
