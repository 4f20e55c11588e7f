"""`report.html`: what a simulation found, as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from topology.simulate.input import units
from topology.simulate.report.compare import design_pictures, scaling_pictures
from topology.simulate.report.html import EMPTY, Content, Html, element, nothing, section
from topology.simulate.report.pictures import (
    FAULTS_DRAWN_MAX,
    copies_picture,
    failover_picture,
    latency_pictures,
    load_pictures,
)
from topology.simulate.report.style import STYLE
from topology.simulate.report.tables import (
    brokers_table,
    cheapest_table,
    facts,
    faults_table,
    latency_table,
    parameters,
    queues_table,
    runs_table,
    stages_table,
    totals_table,
)
from topology.simulate.results.answer import answer_of, bottleneck_line
from topology.simulate.results.choosing import chosen_runs, compared_designs, label_of
from topology.simulate.results.summary import RunSummary, Summary

SENTENCES_MAX = 12
# A page that may fetch nothing shows that it needs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_Section = tuple[str, str, list[Html]]


def write_report(summary: Summary, path: Path) -> None:
    """Raises OSError where it cannot be written."""
    path.write_text(report_of(summary), encoding="utf-8")


def report_of(summary: Summary) -> str:
    """The page."""
    sections = [each for each in _sections(summary) if each[2]]
    links = [element("li", element("a", title, href=f"#{anchor}")) for anchor, title, _ in sections]
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        element("title", summary.title or "Simulation"),
        element("style", Html(STYLE)),
    )
    top = element(
        "header",
        element("h1", summary.title or "Simulation"),
        element("p", _byline(summary), class_="byline"),
        element("nav", element("ul", *links), aria_label="Parts of this page"),
    )
    body = [section(anchor, title, *content) for anchor, title, content in sections]
    page = element("html", head, element("body", top, element("main", *body)), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _byline(summary: Summary) -> str:
    what = "What really happened, from a trace of the brokers" if summary.kind == "trace" else "Simulated"
    took = f", in {units.seconds(summary.took_s)}" if summary.took_s else ""
    return f"{what}, with openclust {summary.openclust} on {summary.created}{took}."


def _sections(summary: Summary) -> list[_Section]:
    chosen = chosen_runs(summary)
    compared = compared_designs(summary)
    return [
        ("answer", "The answer", [_answer(summary)]),
        ("asked", "What was asked", _asked(summary)),
        ("designs", "The designs side by side", [_pictures(design_pictures(compared))] if compared else []),
        ("scaling", "How it grows", _scaling(summary)),
        ("runs", "Runs", [runs_table(summary.runs, _cheapest(summary))] if len(summary.runs) > 1 else []),
        ("load", "Load", _each(chosen, len(summary.runs), _load, "There is no timeline.")),
        ("latency", "Latency", _latency(chosen)),
        ("failover", "Failover", _each(chosen, len(chosen), _failover, "Nothing went wrong: there was no fault.")),
        ("copies", "Copies", _copies(chosen)),
        ("queues", "Shared queues", _each(chosen, len(chosen), _queues, "There were no shared queues.")),
        ("brokers", "Brokers", _each(chosen, len(chosen), _brokers, "There were no brokers.")),
        ("stages", "Stages", [stages_table(summary.stages, summary.took_s)]),
        ("notes", "Notes", [_notes(summary)]),
    ]


def _answer(summary: Summary) -> Html:
    sentences = answer_of(summary)
    items = [element("li", each) for each in sentences[:SENTENCES_MAX]]
    if len(sentences) > SENTENCES_MAX:
        items.append(element("li", f"There are {len(sentences) - SENTENCES_MAX} more of these: see the tables."))
    return element("ul", *items)


def _asked(summary: Summary) -> list[Html]:
    workload, calibration = summary.workload, summary.calibration
    measured = ", ".join(str(calibration[name]) for name in ("measured", "machine") if calibration.get(name))
    version = f", openclust {calibration['version']}" if calibration.get("version") else ""
    pairs: list[tuple[str, Content]] = [
        ("topology", summary.topology),
        ("workload", str(workload.get("name") or "")),
        ("duration", units.seconds(workload["duration_s"]) if _is_number(workload.get("duration_s")) else ""),
        ("time bins", units.ms(workload["bin_ms"]) if _is_number(workload.get("bin_ms")) else ""),
        ("seed", str(workload.get("seed", ""))),
        ("faults", "; ".join(str(each) for each in workload.get("faults") or ())),
        ("grid", "; ".join(f"{name} = {', '.join(each)}" for name, each in _grid(summary))),
        ("goal", summary.sweep.goal if summary.sweep else ""),
        ("costs measured", f"{measured}{version}" if measured else ""),
        ("Spark", ", ".join(f"{name} {value}" for name, value in summary.spark.items())),
    ]
    found = [facts(pairs)]
    if workload:
        found.append(parameters("The whole workload", workload))
    if calibration:
        found.append(parameters("The whole calibration (microseconds of CPU, unless told)", calibration))
    return found


def _scaling(summary: Summary) -> list[Html]:
    pictures = scaling_pictures(summary) if len(summary.runs) > 1 and summary.sweep else []
    cheapest = [cheapest_table(summary.sweep, summary.runs)] if summary.sweep and summary.sweep.cheapest else []
    return [*cheapest, *([_pictures(pictures)] if pictures else [])]


def _load(run: RunSummary) -> list[Html]:
    pictures = load_pictures(run)
    return [element("p", bottleneck_line(run.bottleneck)), _pictures(pictures)] if pictures else []


def _latency(chosen: Sequence[RunSummary]) -> list[Html]:
    pictures = latency_pictures(chosen)
    if not pictures:
        return [nothing("Nothing was delivered.")]
    return [_pictures(pictures), latency_table(chosen)]


def _failover(run: RunSummary) -> list[Html]:
    if not run.faults:
        return []
    pictures = [each for fault in run.faults[:FAULTS_DRAWN_MAX] if (each := failover_picture(run, fault))]
    return [faults_table(run.faults), *([_pictures(pictures)] if pictures else [])]


def _copies(chosen: Sequence[RunSummary]) -> list[Html]:
    pictures = [picture for run in chosen if (picture := copies_picture(run, chosen))]
    return [_pictures(pictures)] if pictures else [nothing("Nothing was copied from broker to broker.")]


def _queues(run: RunSummary) -> list[Html]:
    return [queues_table(run)] if run.queues else []


def _brokers(run: RunSummary) -> list[Html]:
    return [totals_table(run), brokers_table(run)] if run.brokers else []


def _notes(summary: Summary) -> Html:
    if not summary.notes:
        return nothing("There is nothing to note.")
    return element("ul", *(element("li", each) for each in summary.notes))


def _each(
    chosen: Sequence[RunSummary], among: int, part: Callable[[RunSummary], list[Html]], otherwise: str
) -> list[Html]:
    """A part of each of the chosen runs, under its name where there are several."""
    found = []
    for run in chosen:
        if content := part(run):
            found += [element("h3", label_of(run, chosen)) if len(chosen) > 1 else EMPTY, *content]
    if not found:
        return [nothing(otherwise)]
    if among > len(chosen):
        told = f"{len(chosen)} of {among} runs are shown from here on: the cheapest of the sweep, or its ends."
        found.insert(0, element("p", told, class_="note"))
    return found


def _pictures(pictures: Sequence[Html]) -> Html:
    return element("div", *pictures, class_="pictures one" if len(pictures) == 1 else "pictures")


def _cheapest(summary: Summary) -> set[int]:
    return {each.run for each in (summary.sweep.cheapest if summary.sweep else []) if each.run is not None}


def _grid(summary: Summary) -> list[tuple[str, list[str]]]:
    return list(summary.sweep.grid.items()) if summary.sweep else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
