"""`report.html`: the results of a simulation as one page that needs no other file."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from openclust.shell.host.event_log import escape
from topology.model.words import few
from topology.simulate.input import units
from topology.simulate.report.chart import DASHES
from topology.simulate.report.compare import design_pictures, scaling_pictures
from topology.simulate.report.pictures import (
    FAULTS_DRAWN_MAX,
    copies_picture,
    failover_picture,
    latency_pictures,
    load_pictures,
)
from topology.simulate.results.answer import answer_of, bottleneck_line
from topology.simulate.results.choosing import (
    busiest_cpu,
    chosen_runs,
    compared_designs,
    label_of,
    layout_of,
    recovery_ms,
)
from topology.simulate.results.summary import ResultsSummary, StageTime

ROWS_MAX = 400
BROKERS_MAX = 100
SENTENCES_MAX = 12
ITEMS_MAX = 40
DEPTH_MAX = 6
_TEXT_MAX = 20_000


def write_report(summary: ResultsSummary, path: Path) -> None:
    """Writes the page. Raises OSError if the file cannot be written."""
    path.write_text(report_of(summary), encoding="utf-8")


def report_of(summary: ResultsSummary) -> str:
    """The HTML of the page."""
    chosen = chosen_runs(summary)
    sweep = summary.sweep
    page: str = (
        _environment()
        .get_template("page.html")
        .render(
            summary=summary,
            chosen=chosen,
            answers=answer_of(summary),
            facts=_facts(summary),
            parameters=(
                ("The whole workload", parameter_lines(summary.workload)),
                ("The whole calibration (microseconds of CPU, unless told)", parameter_lines(summary.calibration)),
            ),
            compared=design_pictures(compared_designs(summary)),
            scaled=scaling_pictures(summary) if sweep and len(summary.runs) > 1 else [],
            cheapest={each.run for each in sweep.cheapest if each.run is not None} if sweep else set(),
            load_pictures=load_pictures,
            latency_pictures=latency_pictures,
            failover_pictures=lambda run: [
                each for fault in run.faults[:FAULTS_DRAWN_MAX] if (each := failover_picture(run, fault))
            ],
            copied=[picture for run in chosen if (picture := copies_picture(run, chosen))],
            whole=StageTime(name="from command to report", took_s=summary.took_s),
        )
    )
    return page


@functools.cache
def _environment() -> Environment:
    """The templates, compiled once. They escape all text, with the control characters of terminals and editors."""
    made = Environment(
        loader=PackageLoader("topology.simulate", "report"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else escape(str(value)),
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    for tell in (units.count, units.mbit, units.memory, units.ms, units.seconds, units.share, units.size, units.three):
        made.filters[tell.__name__] = tell
    made.filters["exact"] = "{:,}".format
    for use in (bottleneck_line, busiest_cpu, label_of, layout_of, recovery_ms):
        made.globals[use.__name__] = use
    made.globals |= {"dashes": DASHES, "rows_max": ROWS_MAX, "brokers_max": BROKERS_MAX, "answers_max": SENTENCES_MAX}
    return made


def _facts(summary: ResultsSummary) -> list[tuple[str, str]]:
    """The request as names and values. The page leaves out empty values."""
    workload, calibration = summary.workload, summary.calibration
    measured = ", ".join(str(calibration[name]) for name in ("measured", "machine") if calibration.get(name))
    version = f", openclust {calibration['version']}" if calibration.get("version") else ""
    grid = summary.sweep.grid.items() if summary.sweep else ()
    return [
        ("topology", summary.topology),
        ("workload", str(workload.get("name") or "")),
        ("duration", units.seconds(workload["duration_s"]) if _is_number(workload.get("duration_s")) else ""),
        ("time bins", units.ms(workload["bin_ms"]) if _is_number(workload.get("bin_ms")) else ""),
        ("seed", str(workload.get("seed", ""))),
        ("faults", "; ".join(str(each) for each in workload.get("faults") or ())),
        ("grid", "; ".join(f"{name} = {', '.join(each)}" for name, each in grid)),
        ("goal", summary.sweep.goal if summary.sweep else ""),
        ("costs measured", f"{measured}{version}" if measured else ""),
        ("Spark", ", ".join(f"{name} {value}" for name, value in summary.spark.items())),
    ]


def parameter_lines(values: Mapping[str, Any]) -> list[str]:
    """Nested values as lines."""
    text = "\n".join(_lines(values, 0))
    if len(text) > _TEXT_MAX:
        text = f"{text[:_TEXT_MAX]}\n... (summary.json has all)"
    return text.split("\n")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _lines(value: Any, depth: int) -> list[str]:
    """Lines like those of TOML; those of an element of a list are indented."""
    indent = "  " * depth
    if depth >= DEPTH_MAX:
        return [f"{indent}..."]
    if isinstance(value, Mapping):
        found = []
        for name, each in value.items():
            if isinstance(each, Mapping | list | tuple) and each and not _is_flat(each):
                found += [f"{indent}{name}:", *_lines(each, depth + 1)]
            else:
                found.append(f"{indent}{name} = {_told(each)}")
        return found
    found = []
    for each in list(value)[:ITEMS_MAX]:
        inner = _lines(each, depth + 1) if isinstance(each, Mapping | list | tuple) else [f"{indent}  {_told(each)}"]
        found += [f"{indent}- {inner[0].strip()}" if inner else f"{indent}-", *inner[1:]]
    return found + ([f"{indent}... {len(value) - ITEMS_MAX} more"] if len(value) > ITEMS_MAX else [])


def _is_flat(value: Any) -> bool:
    return not isinstance(value, Mapping) and not any(isinstance(each, Mapping | list | tuple) for each in value)


def _told(value: Any) -> str:
    if isinstance(value, Mapping):
        return "(none)"
    if isinstance(value, list | tuple):
        return few([_told(each) for each in value], ITEMS_MAX) or "(none)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
