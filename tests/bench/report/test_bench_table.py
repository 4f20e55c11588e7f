from __future__ import annotations

import io

import pytest
from rich.console import Console

from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.comparison import Contender
from openclust.bench.load.work import Figures, LoadWork
from openclust.bench.report.bench_report import show_summaries, show_table, summaries_data, table_data
from openclust.bench.report.bench_table import ROWS, MeasuredRow, in_running_order, select_rows
from openclust.bench.report.round_summary import Summary, summarize


def summary(name: str, deliveries: int, cpu_s: float | None, **more: object) -> Summary:
    figures = Figures(messages=deliveries, deliveries=deliveries, elapsed_s=2.0, broker_cpu_s=cpu_s, **more)  # type: ignore[arg-type]
    return summarize(Contender(name=name, url=BrokerUrl("h"), product=f"{name} 1"), [figures])


def idle(name: str, rss: int, attach_s: float) -> Summary:
    return summary(
        name, 100, 1.0, attached=1_000, attach_s=attach_s, attach_cpu_s=0.5, rss_before=1_000_000, rss_idle=rss
    )


def shown(results: list[MeasuredRow]) -> str:
    console = Console(file=io.StringIO(), width=200)
    show_table(results, console)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


P2P, MEMORY, ATTACH = select_rows("p2p,memory,attach")


def test_the_ratio_is_deliveries_per_cpu_second_of_the_first_to_the_other() -> None:
    result = MeasuredRow(row=P2P, summaries=[summary("ours", 4_000, 1.0), summary("theirs", 2_000, 2.0)])
    assert result.cpu_ratio(result.summaries[1]) == 4.0
    assert result.wall_ratio(result.summaries[1]) == 2.0
    assert (result.ours, result.met) == (4.0, True)


def test_a_missed_target_is_said() -> None:
    result = MeasuredRow(row=P2P, summaries=[summary("ours", 2_900, 1.0), summary("theirs", 1_000, 1.0)])
    assert result.met is False
    line = next(line for line in shown([result]).splitlines() if "point to point" in line)
    assert "2.9 x" in line and ">= 3 x" in line and " no " in line


def test_less_memory_is_a_larger_ratio_and_held_against_kilobytes() -> None:
    result = MeasuredRow(row=MEMORY, summaries=[idle("ours", 9_000_000, 1.0), idle("theirs", 81_000_000, 1.0)])
    assert (result.ours, result.met, result.cpu_ratio(result.summaries[1])) == (8.0, True, 10.0)
    assert MeasuredRow(row=MEMORY, summaries=[idle("ours", 14_000_000, 1.0)]).met is False


def test_attaching_is_held_against_a_rate_even_without_a_peer() -> None:
    assert MeasuredRow(row=ATTACH, summaries=[idle("ours", 0, 0.2)]).met is True
    assert MeasuredRow(row=ATTACH, summaries=[idle("ours", 0, 0.3)]).met is False


def test_without_a_peer_or_without_its_cpu_no_ratio_is_claimed() -> None:
    alone = MeasuredRow(row=P2P, summaries=[summary("ours", 4_000, 1.0)])
    remote = MeasuredRow(row=P2P, summaries=[summary("ours", 4_000, 1.0), summary("theirs", 2_000, None)])
    assert alone.met is None and remote.met is None
    assert "2.0 x" in shown([remote])  # on the clock it can be compared


def test_a_failed_row_says_why_under_the_table() -> None:
    text = shown([MeasuredRow(row=P2P, failed="theirs: closed the publisher: 541 broken")])
    assert "failed, p2p: theirs: closed the publisher: 541 broken" in text


def test_memory_is_measured_first_and_works_that_are_the_same_once() -> None:
    groups = in_running_order(list(ROWS))
    assert [row.key for row in groups[0]] == ["memory", "attach"]
    assert [row.key for group in groups for row in group].count("p2p") == 1
    assert sum(map(len, groups)) == len(ROWS)


def test_an_unknown_row_is_refused() -> None:
    with pytest.raises(KeyError, match="p3p"):
        select_rows("p2p,p3p")


def test_table_data_has_a_row_each_with_figures_and_ratios() -> None:
    ours, theirs = summary("ours", 4_000, 1.0), summary("theirs", 2_000, 2.0)
    done, failed = table_data([MeasuredRow(row=P2P, summaries=[ours, theirs]), MeasuredRow(row=ATTACH, failed="no")])[
        "rows"
    ]
    assert done["ratios"] == {"theirs": {"cpu": 4.0, "wall": 2.0}}
    assert (done["row"], done["met"], len(done["brokers"])) == ("p2p", True, 2)
    assert (failed["met"], failed["failed"]) == (None, "no")


def test_a_pattern_shows_each_broker_and_the_ratio() -> None:
    work = LoadWork(pattern="fanout", subscribers=1_000)
    both = [summary("ours", 4_000, 1.0, latencies_ns=[5_000_000]), summary("theirs", 2_000, 2.0)]
    console = Console(file=io.StringIO(), width=200)
    show_summaries(work, both, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "ours / theirs: 4.00 x deliveries per broker cpu second, 2.00 x deliveries per second" in text
    assert "250.00 us" in text and "5.00 ms" in text
    assert summaries_data(work, both)["ratios"] == {
        "theirs": {"deliveries_per_broker_cpu_second": 4.0, "deliveries_per_second": 2.0}
    }


def test_the_spread_of_a_ratio_is_that_of_the_starts_or_with_one_start_that_of_the_rounds() -> None:
    def runs(name: str, deliveries: tuple[int, ...], starts: int) -> Summary:
        rounds = [Figures(messages=each, deliveries=each, elapsed_s=1.0, broker_cpu_s=1.0) for each in deliveries]
        return summarize(Contender(name=name, url=BrokerUrl("h")), rounds, starts)

    def last_line(starts: int) -> str:
        both = [runs("ours", (110, 90, 120, 120), starts), runs("theirs", (100,) * 4, starts)]
        console = Console(file=io.StringIO(), width=200)
        show_summaries(LoadWork(pattern="p2p"), both, console)
        return console.file.getvalue().splitlines()[-1]  # type: ignore[attr-defined, no-any-return]

    assert last_line(1).endswith("1.15 x deliveries per second (0.90 to 1.20 in 4 rounds)")
    assert last_line(2).endswith("1.10 x deliveries per second (1.00 to 1.20 in 2 starts)")


def test_too_little_cpu_to_measure_is_noted() -> None:
    assert any("rough" in note for note in summary("ours", 10, 0.02).notes)
    assert summary("ours", 10, 1.5).notes == []


def test_a_generator_busier_than_the_broker_is_noted() -> None:
    assert any("busier" in note for note in summary("ours", 10, 1.0, generator_cpu_s=1.95).notes)
    assert summary("ours", 10, 1.95, generator_cpu_s=1.95).notes == []
