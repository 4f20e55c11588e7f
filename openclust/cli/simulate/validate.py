"""`openclust simulate --validate`: plays a workload for real, simulates it, and shows the differences."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

import topology.simulate
from openclust.cli.bench.options import data_in_option
from openclust.cli.simulate.costs_here import CostsHere, middle
from openclust.cli.simulate.played import SAMPLED_OF, played
from openclust.cli.simulate.spark_options import SparkOptions, showing_causes, spark_options, started_spark
from openclust.cli.term import show_structs, wide_console
from openclust.shell.config.schema import ConfigError
from topology.simulate.input.calibration import Calibration
from topology.simulate.input.fault import Kill, parse_fault
from topology.simulate.input.layout import GridCell, Layout, LocalClients, layout_of_counts
from topology.simulate.input.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from openclust.bench.live.cost import LiveFound
    from openclust.bench.live.run import PlayedStage
    from topology.simulate.results.summary import RunSummary
    from topology.simulate.traffic.drawn import Drawn

WORKLOAD = Path(topology.simulate.__file__).with_name("validate.toml")
PRIMARIES, SECONDARIES = 3, 1
SETTLED_S = 2.0
"""The time after the last client is attached until the brokers have only the measured work."""
MARGIN_S = 1.0
ROUNDS = 3
Tell = Callable[[str], None]


@click.command("simulate --validate")
@click.argument("files", nargs=-1, metavar="[TOPOLOGY] [WORKLOAD]")
@click.option("--validate", is_flag=True, expose_value=False, help="This.")
@click.option(
    "--calibration",
    metavar="FILE",
    help="Costs of this machine that openclust bench --calibrate wrote. Without, they are measured now.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 20),
    default=ROUNDS,
    show_default=True,
    help="How often it is played; medians count.",
)
@spark_options
@data_in_option()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--quiet", is_flag=True, help="Do not say what is being done.")
@click.option("--debug", is_flag=True, help="Show where in Spark something failed, too.")
def validated(
    files: tuple[str, ...],
    calibration: str | None,
    rounds: int,
    spark_options: SparkOptions,
    data_in: Path | None,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Play a workload for real, on this machine, and show what the simulation says of it beside what was measured.

    WORKLOAD is one that comes with openclust, if none is given. Three primaries and a secondary are started, or as
    many as the TOPOLOGY has; all are on this machine, as are all clients: its other settings, links and latencies do
    not count. Before each round it is measured what brokers that share this machine cost in these minutes.
    """
    from openclust.cli.simulate.validation_report import data, show
    from topology.simulate.input.calibration import read_calibration
    from topology.simulate.spark.session import check_packages

    topology, read = _read(files)
    known = read_calibration(Path(calibration)) if calibration is not None else None
    stage_of(read)
    check_packages()

    def tell(what: str) -> None:
        if not quiet:
            click.echo(what, err=True)

    with showing_causes(debug), started_spark(spark_options) as spark:
        here = CostsHere(data_in)
        if known is None:
            tell("measuring what a broker costs on this machine, some four minutes")
            known = here.all()
        found = validate(spark, read, known, topology, data_in, tell, here=here, rounds=rounds)
    if as_json:
        show_structs(data(found))
    else:
        show(found, wide_console(120))


class OrValidate(click.Command):
    """The command `simulate`, which becomes `validated` with the option `--validate`."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> click.Context:
        if "--validate" in args:
            return validated.make_context(info_name, args, *rest, **extra)
        return super().make_context(info_name, args, *rest, **extra)


def _read(files: tuple[str, ...]) -> tuple[Layout | None, Workload]:
    from topology.simulate.input.layouts import layout_of_model, read_model
    from topology.simulate.input.workload_file import check_against, read_workload_file

    if len(files) > 2:
        raise click.UsageError(f"{len(files)} files are too many; name a topology and a workload")
    name = files[-1] if files else str(WORKLOAD)
    found = read_workload_file(name)
    base = layout_of_model(read_model(files[0])) if len(files) == 2 else None
    check_against(found, base or layout_of_counts(PRIMARIES, SECONDARIES))
    return base, found.workload


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """`calm` simulates the time before the first fault, `whole` all of it; `live` is the median of the rounds."""

    layout: Layout
    workload: Workload
    calibration: Calibration
    from_s: float
    to_s: float
    live: LiveFound
    rounds: list[LiveFound]
    whole: RunSummary
    calm: RunSummary
    log_copies_per_s: float


def local_layout(costs: Calibration, cores: int, base: Layout | None = None) -> Layout:
    """A layout of so many brokers on one machine with so many cores."""
    base = base or layout_of_counts(PRIMARIES, SECONDARIES)
    primaries = [each.name for each in base.sites if each.is_primary]
    secondaries = [each.name for each in base.sites if not each.is_primary]
    plain = layout_of_counts(len(primaries), len(secondaries), latency_us=round(costs.hop_us))
    named = zip(plain.sites, [*primaries, *secondaries], strict=True)
    sites = (msgspec.structs.replace(site, name=name, host="this machine", cores=cores) for site, name in named)
    return msgspec.structs.replace(plain, sites=tuple(sites))


def near(workload: Workload) -> Workload:
    """The workload with all clients on this machine."""

    def moved(groups: tuple[msgspec.Struct, ...], **nearer: float) -> tuple[msgspec.Struct, ...]:
        return tuple(msgspec.structs.replace(each, **nearer) for each in groups)

    return msgspec.structs.replace(
        workload,
        subscribers=moved(workload.subscribers, latency_ms=0, jitter_ms=0),
        publishers=moved(workload.publishers, latency_ms=0, jitter_ms=0),
        queues=moved(workload.queues, latency_ms=0),
    )


def stage_of(workload: Workload) -> PlayedStage:
    """The time to measure: from the last attached client to the first fault. Raises ConfigError if there is none."""
    from openclust.bench.live.run import PlayedStage

    kills = []
    for text in workload.faults:
        fault = parse_fault(text)
        if not isinstance(fault, Kill):
            raise ConfigError(f"--validate can play `kill NAME at TIME` only, not {text!r}: leave it out")
        kills.append((fault.broker, fault.at_ms))
    first_ms = min((at_ms for _, at_ms in kills), default=workload.duration_ms)
    from_ms = max(group.join_at_ms + group.join_over_ms for group in workload.groups) + round(SETTLED_S * 1000)
    to_ms = first_ms - round(MARGIN_S * 1000)
    # Whole seconds, because deliveries are counted by the second.
    from_ms, to_ms = -(-from_ms // 1000) * 1000, to_ms // 1000 * 1000
    if to_ms - from_ms < 1000:
        raise ConfigError(
            f"--validate: all clients are there after {from_ms / 1000:g} s, and the run or its calm ends at "
            f"{first_ms / 1000:g} s: make the workload longer"
        )
    return PlayedStage(from_ms=from_ms, to_ms=to_ms, kills=tuple(sorted(kills, key=lambda each: each[1])))


def validate(
    spark: SparkSession,
    workload: Workload,
    known: Calibration,
    base: Layout | None,
    data_in: Path | None,
    tell: Tell,
    *,
    here: CostsHere,
    rounds: int = ROUNDS,
) -> Validation:
    """Plays the workload once in each round, and simulates it twice. Failures raise ConfigError."""
    from openclust.bench.live.cost import middle as middle_of_rounds
    from topology.simulate.pipeline import simulate
    from topology.simulate.traffic.drawn import drawn

    cores = len(os.sched_getaffinity(0))
    layout, workload = local_layout(known, cores, base), near(workload)
    stage = stage_of(workload)
    run = GridCell(number=0, layout=layout, subscribers=workload.subscriber_count)
    tell("drawing what clients do")
    try:
        plan = drawn(spark, run, workload)
    except ValueError as error:
        raise ConfigError(f"--validate: {error}") from None
    company, lives = [], []
    for number in range(1, rounds + 1):
        # Machines change from minute to minute: the two that are compared are measured in turn.
        tell(f"round {number} of {rounds}: measuring what brokers cost that share this machine")
        company.append(here.in_company(known))
        tell(f"round {number} of {rounds}: playing {workload.name} for {workload.duration_s:g} s")
        lives.append(played(layout, workload, plan, stage, data_in))
    live, costs = middle_of_rounds(lives), middle(company)
    layout = msgspec.structs.replace(local_layout(costs, cores, base), local_clients=_clients(live))
    run = msgspec.structs.replace(run, layout=layout)
    tell("simulating it")
    whole = simulate(spark, [run], workload, costs.in_company()).runs[0]
    tell("simulating what was before the first fault")
    calm_workload = msgspec.structs.replace(workload, duration_s=stage.to_ms / 1000, faults=())
    calm = simulate(spark, [run], calm_workload, costs.in_company()).runs[0]
    return Validation(
        layout=layout,
        workload=workload,
        calibration=costs,
        from_s=stage.from_ms / 1000,
        to_s=stage.to_ms / 1000,
        live=live,
        rounds=lives,
        whole=whole,
        calm=calm,
        log_copies_per_s=_log_copies(layout, workload, plan, stage),
    )


def _clients(live: LiveFound) -> LocalClients:
    """The processes of our clients on this machine, with the CPU time that they took."""
    from openclust.bench.live.player_process import DOZE_SECONDS

    every_us = DOZE_SECONDS * 1e6 / (1 - min(live.others_cpu, 0.9))
    return LocalClients(
        message_us=live.client_us,
        share=1 / SAMPLED_OF,
        others_us=live.others_cpu * every_us,
        others_every_us=every_us,
    )


def _log_copies(layout: Layout, workload: Workload, plan: Drawn, stage: PlayedStage) -> float:
    """Copies that the simulation counts and a broker does not: messages in log entries to each backup."""
    replicated: list[bool] = []
    for kind in workload.queues:
        replicated += [kind.replicate == "messages"] * kind.count
    sent = [
        each
        for each in plan.messages
        if each.topic < 0 and replicated[-1 - each.topic] and stage.from_ms <= each.at_us / 1000 < stage.to_ms
    ]
    return len(sent) * (len(layout.primaries) - 1) / (stage.to_ms - stage.from_ms) * 1000
