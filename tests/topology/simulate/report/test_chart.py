from __future__ import annotations

import math
import re

import pytest

from topology.simulate.input import units
from topology.simulate.report.chart import Axis, Chart


def chart_of(x: Axis | None = None, y: Axis | None = None) -> Chart:
    return Chart("title", "what is to be seen", x or Axis(label="x"), y or Axis(label="y"))


def words(chart: Chart) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", chart.svg)


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis(label="", low=0, high=10), ["0", "2", "4", "6", "8", "10"]),
        (Axis(label="", low=0, high=1.06, tell=units.share), ["0 %", "50 %", "100 %"]),
        (Axis(label="", low=0.9, high=3.1, is_whole=True), ["1", "2", "3"]),
        (Axis(label="", low=0.5, high=3_000, is_log=True, tell=units.ms), ["1 ms", "10 ms", "100 ms", "1 s"]),
        (Axis(label="", low=9, high=110, is_log=True), ["10", "20", "50", "100"]),
    ],
)
def test_ticks_are_round_numbers_in_our_units(axis: Axis, ticks: list[str]) -> None:
    chart = chart_of(x=axis, y=Axis(label="", tell=lambda _: ""))
    chart.line("", [(1, 1), (2, 2)], 0)

    assert [each for each in words(chart) if each] == ticks


def test_a_point_between_gaps_has_a_dot() -> None:
    def dots(*points: tuple[float, float] | None) -> int:
        chart = chart_of()
        chart.line("", points, 0)
        return chart.svg.count("<use")

    assert dots((0, 1), (1, 1), (2, 1)) == 0
    assert dots((0, 1), (1, 1), None, (3, 1), None, (5, 1), (6, 1)) == 1


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-9, 1e15, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.filterwarnings("error")
def test_every_number_can_be_drawn(value: float, is_log: bool) -> None:
    chart = chart_of(y=Axis(label="y", is_log=is_log))
    chart.line("", [(1, value), (2, value)], 0, has_dots=True, is_filled=True)
    chart.mark(value, "p99")

    assert not re.search(r"\b(nan|inf)\b", chart.svg)


def test_a_mark_beyond_the_ends_of_the_axis_is_not_seen_and_moves_nothing() -> None:
    chart = chart_of(x=Axis(label="", low=0, high=4))
    chart.line("", [(0, 1), (4, 1)], 0)
    chart.mark(2, "here")
    chart.mark(40, "beyond")

    assert "here" in words(chart)
    assert "beyond" not in words(chart)


def test_one_line_alone_needs_no_legend() -> None:
    chart = chart_of()
    chart.line("p1", [(0, 1), (4, 1)], 0)
    assert not chart.legend

    chart.line("p2", [(0, 1), (4, 1)], 1)
    assert [each.name for each in chart.legend] == ["p1", "p2"]
