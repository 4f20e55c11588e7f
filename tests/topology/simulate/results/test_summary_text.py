from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.support.simulate import summaries
from topology.simulate.results.summary import ResultsSummary
from topology.simulate.results.summary_text import show


def shown(summary: ResultsSummary, *, is_terminal: bool = False, width: int = 120) -> str:
    stream = io.StringIO()
    show(summary, Console(file=stream, force_terminal=is_terminal, width=width, color_system=None))
    return stream.getvalue()


def test_of_one_run_there_are_brokers_queues_and_an_answer() -> None:
    lines = shown(summaries.one_run()).splitlines()

    assert [line.split()[0] for line in lines[2:10]] == ["p1", "p2", "p3", "s1", "s2", "s3", "s4", "s5"]
    assert lines[2].split()[1:4] == ["root", "12.5", "k"]
    text = "\n".join(lines)
    assert "orders" in text
    assert "p1 is nearest to its limit" in text
    assert "kill p2 at 30s: no root for 240 ms" in text
    assert text.endswith("note: Clients that joined late are not counted as missed.")


def test_of_several_runs_there_is_a_line_each_and_only_columns_that_differ() -> None:
    lines = shown(summaries.sweep_of_24()).splitlines()

    assert lines[1].split()[:3] == ["run", "brokers", "subscribers"]
    assert "design" not in lines[1] and "rate" not in lines[1]
    assert [line.split()[0] for line in lines[2:26]] == [str(number) for number in range(24)]
    assert lines[26].startswith("For 10 k subscribers 3 brokers suffice")


def test_designs_are_a_column_where_there_are_several() -> None:
    assert "virtual-synchrony" in shown(summaries.four_designs()).splitlines()[5]


@pytest.mark.parametrize("made", [summaries.empty(), summaries.summary([summaries.idle_run()])])
def test_nothing_is_told_as_nothing(made: ResultsSummary) -> None:
    text = shown(made)

    assert "nothing" in text
    assert "broker  role" not in text


def test_a_terminal_gets_a_table_no_wider_than_it_is() -> None:
    lines = shown(summaries.sweep_of_24(), is_terminal=True, width=100).splitlines()

    assert any("───" in line for line in lines)
    assert max(map(len, lines)) <= 100


def test_names_do_not_steer_the_terminal() -> None:
    run = summaries.run(names=["p1\x1b[2J", "[red]p2"], primaries=2, secondaries=0)
    text = shown(summaries.summary([run]), is_terminal=True)

    assert "\x1b[2J" not in text
    assert "p1\\x1b[2J" in text
    assert "[red]p2" in text
