from __future__ import annotations

from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.comparison import Contender
from openclust.bench.load.work import Figures
from openclust.bench.report.round_summary import Summary, summarize
from openclust.bench.rows.against_others import cpu_row, rate_row, speed_row


def summary(name: str, *messages: int, cpu_s: float) -> Summary:
    rounds = [
        Figures(messages=each, deliveries=each, elapsed_s=2.0, broker_cpu_s=cpu_s, confirm_latencies_ns=[1_000_000])
        for each in messages
    ]
    return summarize(Contender(name=name, url=BrokerUrl("h")), rounds)


OURS, THEIRS = summary("ours", 9_000, cpu_s=1.0), summary("theirs", 3_000, cpu_s=2.0)


def test_speed_and_cpu_are_a_line_each_with_a_floor() -> None:
    rate, cpu = speed_row("k", "work", [OURS, THEIRS], THEIRS, 2.0), cpu_row("k-cpu", "work", OURS, THEIRS, 7.0)
    assert (rate.title, rate.value, rate.met) == ("work, against theirs", 3.0, True)
    assert (cpu.value, cpu.met) == (6.0, False)
    assert rate.shown == (
        "4,500/s at 111.1 us each, confirmed after 1.0 ms, p99 1.0; "
        "theirs 1,500/s at 666.7 us each, confirmed after 1.0 ms, p99 1.0"
    )
    assert list(rate.figures) == ["ours", "theirs"]


def test_the_range_of_the_ratio_stands_behind_its_figures() -> None:
    ours, theirs = summary("ours", 90, 100, 110, cpu_s=1.0), summary("theirs", 100, 100, 100, cpu_s=1.0)
    assert speed_row("k", "work", [ours, theirs], theirs, None).shown.endswith("; 0.90 to 1.10 x")


def test_alone_it_is_a_rate_and_no_ratio() -> None:
    rate = rate_row("k", "work", OURS)
    assert (rate.unit, rate.value, rate.met) == ("/s", 4_500.0, None)
