"""`openclust simulate`: the behaviour of a layout of brokers under a workload, computed on Spark."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from openclust import __version__
from openclust.cli.simulate.progress import progress_bar
from openclust.cli.simulate.spark_options import SparkOptions, about_spark, showing_causes, spark_options, started_spark
from openclust.cli.simulate.summary import show_summary
from openclust.cli.simulate.validate import OrValidate
from topology.simulate.asked import Asked, read_asked
from topology.simulate.input.grid import parse_count, shown
from topology.simulate.input.layout import DESIGNS
from topology.simulate.input.workload_check import CLIENTS_MAX, DAY_S
from topology.simulate.report.results_folder import make_folder, write_results

if TYPE_CHECKING:
    from topology.simulate.pipeline import Simulated
    from topology.simulate.results.summary import ResultsSummary

MET, UNMET = 0, 1
_TERM = re.compile(r"[A-Za-z]\w*=\S+")


def _count(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """`100000`, `100k`, `1.5M`."""
    if value is None:
        return None
    try:
        number = parse_count(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not 1 <= number <= CLIENTS_MAX:
        raise click.BadParameter(f"allowed is 1 to {CLIENTS_MAX:,}, not {number:,}")
    return number


@click.command("simulate", cls=OrValidate)
@click.argument("files", nargs=-1, metavar="[TOPOLOGY] WORKLOAD")
@click.option(
    "--design",
    "designs",
    multiple=True,
    type=click.Choice([*DESIGNS, "all"]),
    help="Another than openclust, to compare; more than once, or all.",
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=VALUES...",
    help="A grid of runs: subscribers=10k,1M brokers=1..16 primaries=1..5/2 secondaries=0..8 design=all rate=x0.5,x2.",
)
@click.option("--goal", metavar="TEXT", help='What a layout must do: "p99<50ms, survive=1, cpu<0.7, missed<1%".')
@click.option("--calibration", metavar="FILE", help="Costs that openclust bench --calibrate wrote, not the shipped.")
@spark_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="simulation",
    show_default=True,
    metavar="DIR",
    help="Folder of the results; what an earlier simulation left there is replaced.",
)
@click.option("--keep", is_flag=True, help="Do not replace earlier results: stop where there are some.")
@click.option("--no-parquet", is_flag=True, help="Only summary.json and report.html.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Another than the workload's.")
@click.option("--subscribers", callback=_count, metavar="N", help="So many, all groups scaled alike: 100000, 100k, 1M.")
@click.option("--duration", type=click.FloatRange(0.001, DAY_S), metavar="SECONDS", help="Another than the workload's.")
@click.option(
    "--validate",
    is_flag=True,
    expose_value=False,
    help="Play the workload on this machine, and hold the simulation against it: see simulate --validate --help.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--quiet", is_flag=True, help="Print nothing, and show no progress.")
@click.option("--debug", is_flag=True, help="Show where in Spark something failed, too.")
def simulate(
    files: tuple[str, ...],
    designs: tuple[str, ...],
    sweep: tuple[str, ...],
    goal: str | None,
    calibration: str | None,
    spark_options: SparkOptions,
    out: Path,
    keep: bool,
    no_parquet: bool,
    seed: int | None,
    subscribers: int | None,
    duration: float | None,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> int:
    """Compute what a layout of brokers does under a workload: load, latency, copies between brokers, failover.

    TOPOLOGY is a cluster file, as for openclust lint; it may be left out where --sweep says how many brokers there are.
    Results are in --out: summary.json, report.html, and tables as Parquet.

    Exit code 0, 1 where there is a --goal and for some number of subscribers no layout meets it, 2 for bad input.
    """
    topology, workload, terms = _sorted_out(files, sweep)
    asked = read_asked(
        topology,
        workload,
        designs=designs,
        sweep=terms,
        goal=goal,
        calibration=calibration,
        seed=seed,
        subscribers=subscribers,
        duration_s=duration,
    )
    with showing_causes(debug):
        summary = _simulated(asked, out, spark_options, keep=keep, parquet=not no_parquet, quiet=quiet)
    write_results(summary, out)
    show_summary(summary, out, as_json=as_json, quiet=quiet)
    unmet = summary.sweep is not None and any(each.run is None for each in summary.sweep.cheapest)
    return UNMET if unmet else MET


def _sorted_out(files: tuple[str, ...], sweep: tuple[str, ...]) -> tuple[str | None, str, tuple[str, ...]]:
    """Moves `b=2` of `--sweep a=1 b=2` from the files to the option: click gives only the first word to the option."""
    terms = tuple(each for each in files if sweep and _TERM.fullmatch(each) and not Path(each).exists())
    named = [each for each in files if each not in terms]
    if len(named) not in (1, 2):
        told = "name a workload" if not named else f"{len(named)} files are too many; name a topology and a workload"
        raise click.UsageError(f"{told}, such as conf/topologies/eight.toml conf/workloads/market-data.toml")
    if len(named) == 1 and not sweep:
        raise click.UsageError(
            f"{named[0]} alone: name a topology before the workload, or say how many brokers: --sweep brokers=1..8"
        )
    return named[0] if len(named) == 2 else None, named[-1], (*sweep, *terms)


def _simulated(
    asked: Asked, out: Path, options: SparkOptions, *, keep: bool, parquet: bool, quiet: bool
) -> ResultsSummary:
    from topology.simulate.spark.session import check_packages

    check_packages()
    make_folder(out, keep=keep)
    began = time.monotonic()
    with progress_bar(is_shown=not quiet) as watched:
        with started_spark(options, out=out) as spark:
            from topology.simulate.pipeline import simulate as compute

            folders = out if parquet else None
            found = compute(spark, asked.runs, asked.workload, asked.calibration, out=folders, progress=watched)
            about = about_spark(spark, options)
        return _summary(asked, found, about, time.monotonic() - began)


def _summary(asked: Asked, found: Simulated, about: dict[str, str], took_s: float) -> ResultsSummary:
    import msgspec

    from topology.simulate.results.goal import cheapest
    from topology.simulate.results.summary import ResultsSummary, Sweep

    sweep = None
    if asked.swept or asked.goal is not None:
        answers = cheapest(found.runs, asked.goal) if asked.goal is not None else []
        sweep = Sweep(grid=shown(asked.swept), goal=asked.goal.text if asked.goal else "", cheapest=answers)
    return ResultsSummary(
        openclust=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=asked.workload.name,
        topology=asked.topology,
        workload=msgspec.to_builtins(asked.workload),
        calibration=msgspec.to_builtins(asked.calibration),
        spark=about,
        took_s=round(took_s, 3),
        stages=found.stages,
        runs=found.runs,
        sweep=sweep,
        notes=list(asked.notes),
    )
