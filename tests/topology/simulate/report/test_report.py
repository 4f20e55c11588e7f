from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.simulate import summaries
from topology.simulate.report.report import report_of, write_report
from topology.simulate.report.timeline_lines import POINTS_MAX, timeline_of
from topology.simulate.results.summary import ResultsSummary

ALWAYS = ("answer", "asked", "load", "latency", "failover", "copies", "queues", "brokers", "stages", "notes")
VOID = {"meta", "br", "img", "link", "input", "hr", "base"}
PAGE_MAX = 2_000_000


class Page(HTMLParser):
    """What is on a page. Elements that are not closed, or closed in another order, are wrong."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.sections: dict[str, list[str]] = {}
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self.sections[dict(attrs)["id"] or ""] = []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text.append(data)
        if "section" in self.open:
            list(self.sections.values())[-1].append(data)

    def words(self, section: str) -> str:
        return " ".join(self.sections[section])

    def count(self, tag: str) -> int:
        return sum(each == tag for each, _ in self.tags)


def page_of(summary: ResultsSummary) -> Page:
    return Page(report_of(summary))


def without_timelines(summary: ResultsSummary, first: int = 0) -> ResultsSummary:
    """Only the first so many runs keep their timelines: the seven charts of each take most of the time."""
    runs = [each if n < first else msgspec.structs.replace(each, timeline=[]) for n, each in enumerate(summary.runs)]
    return msgspec.structs.replace(summary, runs=runs)


MADE: dict[str, Callable[[], ResultsSummary]] = {
    "one run": summaries.one_run,
    "four designs": lambda: without_timelines(summaries.four_designs(), first=1),
    "sweep": summaries.sweep_of_24,
    "sweep without timelines": lambda: without_timelines(summaries.sweep_of_24()),
    "empty": summaries.empty,
    "idle": lambda: summaries.summary([summaries.idle_run()]),
    "trace": lambda: summaries.summary([summaries.run(has_fault=False)], kind="trace"),
}


NAMES = [
    *("one run", "empty", "idle"),
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("trace", "four designs", "sweep", "sweep without timelines")
    ),
]


@functools.cache
def text_of(name: str) -> str:
    """The report of a summary, drawn once for all tests that look at it."""
    return report_of(MADE[name]())


@pytest.fixture(scope="module")
def of_one() -> Page:
    return Page(text_of("one run"))


@pytest.fixture(scope="module")
def of_sweep() -> Page:
    return Page(text_of("sweep"))


@pytest.mark.parametrize("name", NAMES)
def test_every_part_is_there_and_linked(name: str) -> None:
    page = Page(text_of(name))

    assert set(ALWAYS) <= set(page.sections)
    assert {f"#{each}" for each in page.sections} == {attrs["href"] for tag, attrs in page.tags if tag == "a"}
    assert all("".join(words).strip() for words in page.sections.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fetches_nothing(name: str) -> None:
    text = text_of(name)
    page = Page(text)

    assert not {"script", "link", "img", "iframe", "object", "base", "image"} & {tag for tag, _ in page.tags}
    for _, attrs in page.tags:
        assert not {"src", "srcset", "action", "data"} & set(attrs)
        assert all((attrs.get(name) or "#").startswith("#") for name in ("href", "xlink:href"))
    assert not re.search(r"url\((?!#)|@import|https?:", text)


@pytest.mark.parametrize("name", NAMES)
def test_every_colour_follows_light_and_dark(name: str) -> None:
    style, _, shown = text_of(name).partition("</style>")

    light, dark = (set(re.findall(r"(--\w+): #", each)) for each in style.split("prefers-color-scheme: dark"))
    used = set(re.findall(r"var\((--\w+)\)", style + shown)) - {"--strength"}
    assert used <= light == dark
    assert not re.search(r": ?#[0-9a-f]{3,8}\b", shown), "a colour of its own is the same in both"


@pytest.mark.slow
def test_it_is_written_and_small_and_the_same_for_the_same_results(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(summaries.one_run(), path)

    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert path.read_text(encoding="utf-8") == text_of("one run")
    assert path.stat().st_size < 300_000


@pytest.mark.slow
def test_hundreds_of_runs_on_hundreds_of_brokers_stay_below_two_megabytes() -> None:
    names = [f"broker-{number}.site-{number % 7}.example" for number in range(150)]
    large = summaries.run(0, names=names, span_s=2.0)
    runs = [msgspec.structs.replace(large, run=number, subscribers=1_000 * number + 1) for number in range(600)]
    made = msgspec.structs.replace(summaries.summary(runs), workload={"name": "large", "text": "x" * 3_000_000})

    text = report_of(made)
    assert len(text.encode()) < PAGE_MAX
    assert "The first 400 of 600 runs" in text


def test_a_long_timeline_is_told_in_few_points() -> None:
    run = summaries.run(span_s=0.05)
    timeline = timeline_of(run)

    assert len(run.timeline) > 20 * POINTS_MAX / 4
    assert all(len(points) <= POINTS_MAX + 1 for points in timeline.by_broker.values())
    attaches = sum(each.attaches for points in timeline.by_broker.values() for each in points.values())
    assert attaches == sum(each.attaches for each in run.timeline)
    backlog = max(each.backlog_ms for points in timeline.by_broker.values() for each in points.values())
    assert backlog == max(each.backlog_ms for each in run.timeline)


def test_the_answer_comes_first_in_plain_sentences(of_one: Page) -> None:
    answer = of_one.words("answer")

    assert next(iter(of_one.sections)) == "answer"
    assert "100 k subscribers on 8 brokers (3 of them primaries) got 11,991,600 of 12,000,000 deliveries" in answer
    assert "99 % within 7.85 ms" in answer
    assert "p1 is nearest to its limit: 62 % of its CPU" in answer
    assert "kill p2 at 30s: no root for 240 ms; 12.5 k clients lost their broker" in answer


def test_what_was_asked_can_be_asked_again(of_one: Page) -> None:
    asked = of_one.words("asked")

    for told in ("conf/topologies/eight.toml", "match day", "kill p2 at 30s", "2026-11-18, 2 cores", "local[2]"):
        assert told in asked
    assert "seed = 7" in asked
    assert "popularity = zipf" in asked
    assert "turn_us = 15.0" in asked


def test_a_fault_has_its_timeline_and_its_numbers(of_one: Page) -> None:
    failover = of_one.words("failover")

    for told in (
        "clients connected",
        "attaches a second",
        "deliveries missed a second",
        "no root for 240 ms",
        "half back",
    ):
        assert told in failover


@pytest.mark.slow
def test_every_picture_has_a_title_and_a_description(of_one: Page, of_sweep: Page) -> None:
    for page in (of_one, of_sweep):
        pictures = [number for number, (tag, attrs) in enumerate(page.tags) if tag == "svg" and "role" in attrs]
        assert len(pictures) > 8
        assert all([tag for tag, _ in page.tags[n + 1 : n + 3]] == ["title", "desc"] for n in pictures)


def test_lines_are_told_apart_by_more_than_colour(of_one: Page) -> None:
    styles = [attrs.get("style") or "" for tag, attrs in of_one.tags if tag == "path"]
    looks = {
        (color[0], "dasharray" in each) for each in styles if (color := re.findall(r"stroke: (var\(--c\d\))", each))
    }

    assert len({color for color, _ in looks}) == 8
    assert len({is_dashed for _, is_dashed in looks}) == 2


@pytest.mark.slow
def test_designs_stand_side_by_side() -> None:
    page = Page(text_of("four designs"))
    told = page.words("designs")

    for name in ("openclust, 3 + 5 brokers", "single, 1 broker", "active-passive, 8 brokers", "Deliveries missed"):
        assert told.count(name) >= (5 if "broker" in name else 1)
    assert "4 s" in told


def test_one_design_is_not_compared_with_itself(of_one: Page) -> None:
    assert "designs" not in of_one.sections
    assert "scaling" not in of_one.sections


@pytest.mark.slow
def test_a_sweep_shows_how_it_grows_and_the_cheapest(of_sweep: Page) -> None:
    scaling, answer = of_sweep.words("scaling"), of_sweep.words("answer")

    assert "For 100 k subscribers 6 brokers (3 of them primaries) suffice" in answer
    assert "For 1 M subscribers no layout of the grid meets the goal: 16 brokers have a p99 of 112 ms" in answer
    for told in ("p99 latency against brokers", "CPU of the busiest broker against subscribers", "none of the grid"):
        assert told in scaling
    assert (
        scaling.count("the cheapest that meets the goal") == 4 * 2 + 4
    )  # two in each of four pictures, and its legend


@pytest.mark.slow
def test_a_cheapest_run_that_is_not_among_the_runs_spoils_no_page() -> None:
    made = MADE["sweep without timelines"]()
    left = [each for each in made.runs if each.run != 12]

    assert "none of the grid" in page_of(msgspec.structs.replace(made, runs=left)).words("scaling")


@pytest.mark.slow
def test_of_a_sweep_only_the_cheapest_have_timelines(of_sweep: Page) -> None:
    assert of_sweep.words("load").count("CPU of each broker over time") == 2
    assert "2 of 24 runs are shown" in of_sweep.words("load")
    assert "12 ✓" in of_sweep.words("runs")


def test_what_did_not_happen_is_said() -> None:
    quiet = summaries.summary([summaries.run(has_fault=False, has_queues=False)])
    page = page_of(without_timelines(quiet))

    assert "there was no fault" in page.words("failover")
    assert "no shared queues" in page.words("queues")
    assert "got all of their" in page.words("answer")


def test_a_trace_is_not_called_a_simulation() -> None:
    text = text_of("trace")

    assert "What really happened" in text
    assert "Simulated" not in text


@pytest.mark.slow
def test_of_many_brokers_those_with_most_cpu_or_backlog_have_lines_and_the_rest_a_band() -> None:
    names = [f"n{number}" for number in range(30)]
    run = summaries.run(names=names, primaries=30, secondaries=0, has_fault=False)
    odd = {"n17": {"cpu": 3.0}, "n23": {"backlog_ms": 900.0}}
    points = [msgspec.structs.replace(each, **odd.get(each.broker, {})) for each in run.timeline]

    shown, others = timeline_of(msgspec.structs.replace(run, timeline=points)).split()
    assert len(shown) == 8
    assert {"n17", "n23"} <= set(shown)
    assert sorted(shown + others) == sorted(names)
    assert "22 less busy, from least to most" in report_of(summaries.summary([run]))


def test_a_broker_that_is_gone_has_a_gap_not_a_line() -> None:
    run = summaries.run(span_s=1.0)
    back = msgspec.structs.replace(
        run, timeline=[*run.timeline, msgspec.structs.replace(run.timeline[0], broker="p2", at_s=50.0)]
    )

    points = timeline_of(back).values("p2", lambda point: point.cpu)
    assert points[29] is not None
    assert points[30:50] == [None] * 20
    assert points[50] is not None


def with_all_text(value: Any, change: Callable[[str], str]) -> Any:
    """A summary with every text in it changed, also the names in what was asked."""
    if isinstance(value, dict):
        return {
            key: each
            if key == "kind"
            else {change(name): with_all_text(below, change) for name, below in each.items()}
            if key in ("workload", "calibration", "spark", "grid")
            else with_all_text(each, change)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [with_all_text(each, change) for each in value]
    return change(value) if isinstance(value, str) else value


HOSTILE = (
    "<script>alert(1)</script>\"><b onclick=x>'/><i </title></svg></style> a&b ]]><!-- {{ 7 * 7 }} \x00\x1b[31m\ud800"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one run", "sweep without timelines"])
def test_no_text_of_a_result_becomes_markup(name: str) -> None:
    plain = msgspec.to_builtins(MADE[name]())

    def tags(text: str) -> Counter[str]:
        page = report_of(msgspec.convert(with_all_text(plain, lambda each: f"{text}{each}"), ResultsSummary))
        page.encode()
        assert "\x00" not in page and "\x1b" not in page
        return Counter(f"{tag} {' '.join(attrs)}" for tag, attrs in Page(page).tags)

    assert tags(HOSTILE) == tags("x" * len(HOSTILE))


@pytest.mark.slow
def test_numbers_that_are_none_spoil_no_picture() -> None:
    run = summaries.run()
    assert run.bottleneck is not None
    odd = msgspec.structs.replace(
        run,
        latency=msgspec.structs.replace(run.latency, p99_ms=float("inf"), p50_ms=float("nan")),
        bottleneck=msgspec.structs.replace(run.bottleneck, room=float("inf")),
        timeline=[msgspec.structs.replace(each, cpu=float("nan")) for each in run.timeline],
    )

    text = report_of(summaries.summary([odd, msgspec.structs.replace(run, run=2, subscribers=5)]))
    assert not re.search(r"\b(nan|inf)\b", text)
