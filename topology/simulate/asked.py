"""The request of a simulation, read and checked before Spark is started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from openclust.shell.config.schema import ConfigError
from topology.simulate.input.calibration import Calibration, read_calibration, shipped
from topology.simulate.input.fault import Add, parse_fault
from topology.simulate.input.grid import Axes, parse_sweep, runs_of
from topology.simulate.input.layout import DESIGNS, Design, GridCell
from topology.simulate.input.layouts import layout_of_model, read_model
from topology.simulate.input.workload import Workload
from topology.simulate.input.workload_check import problems_of
from topology.simulate.input.workload_file import WorkloadFile, brokers_of, check_against, read_workload_file
from topology.simulate.results.goal import Goal, parse_goal


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The runs to compute. `swept` are the axes of --sweep; `notes` are remarks on the request for the report."""

    workload: Workload
    runs: tuple[GridCell, ...]
    calibration: Calibration
    topology: str
    swept: Axes
    goal: Goal | None
    notes: tuple[str, ...]


def read_asked(
    topology: str | None,
    workload: str,
    *,
    designs: Sequence[str] = (),
    sweep: Sequence[str] = (),
    goal: str | None = None,
    calibration: str | None = None,
    seed: int | None = None,
    subscribers: int | None = None,
    duration_s: float | None = None,
) -> Asked:
    """Raises ConfigError for the first of the arguments that has a mistake."""
    swept = parse_sweep(sweep)
    aim = parse_goal(goal) if goal is not None else None
    axes = dict(swept)
    if designs and "design" in axes:
        raise ConfigError("--design and --sweep design=... say the same thing; give one of them")
    if subscribers is not None and "subscribers" in axes:
        raise ConfigError("--subscribers and --sweep subscribers=... say the same thing; give one of them")
    if subscribers is not None:
        axes["subscribers"] = [subscribers]
    costs = read_calibration(Path(calibration)) if calibration is not None else shipped()
    base = layout_of_model(read_model(topology)) if topology is not None else None
    read, notes = _changed(read_workload_file(workload), seed, duration_s)
    runs = runs_of(axes, read.workload, base=base, designs=_designs(designs))
    # The design "single" leaves brokers out. Faults may name brokers that the layout had before.
    layouts = [each.layout for each in runs]
    check_against(read, *layouts, *([base] if base is not None else []))
    return Asked(
        workload=read.workload,
        runs=tuple(runs),
        calibration=costs,
        topology=topology or f"{len(set(layouts))} layouts by their number of brokers",
        swept=swept,
        goal=aim,
        notes=(*notes, *_of_absent(read.workload, runs)),
    )


def _designs(given: Sequence[str]) -> tuple[Design, ...]:
    if not given:
        return ("openclust",)
    return DESIGNS if "all" in given else tuple(each for each in DESIGNS if each in given)


def _changed(read: WorkloadFile, seed: int | None, duration_s: float | None) -> tuple[WorkloadFile, tuple[str, ...]]:
    """The workload with the options of the command line. Faults after a shorter duration are left out, with a note."""
    workload, notes = read.workload, []
    if seed is not None:
        workload = msgspec.structs.replace(workload, seed=seed)
    if duration_s is not None:
        end_ms = round(duration_s * 1000)
        late = [each for each in workload.faults if parse_fault(each).at_ms >= end_ms]
        kept = tuple(each for each in workload.faults if each not in late)
        notes = [f"left out, since the run ends at {duration_s:g} s: {each}" for each in late]
        workload = msgspec.structs.replace(workload, duration_s=duration_s, faults=kept)
    if problems := problems_of(workload):
        raise ConfigError(*(read.told(where, text) for where, text in problems))
    return msgspec.structs.replace(read, workload=workload), tuple(notes)


def _of_absent(workload: Workload, runs: Sequence[GridCell]) -> list[str]:
    """Notes on faults of brokers that only some layouts have."""
    faults = {text: parse_fault(text) for text in workload.faults}
    added = {each.broker for each in faults.values() if isinstance(each, Add)}
    notes = []
    for text, fault in faults.items():
        named = {*brokers_of(fault)} - added
        without = sum(not named <= {*each.layout.names} for each in runs)
        if without:
            notes.append(f"{text}: {without} of {len(runs)} runs have no such broker, and nothing happens to it there")
    return notes
