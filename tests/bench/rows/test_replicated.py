from __future__ import annotations

from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.comparison import Contender
from openclust.bench.load.work import Figures
from openclust.bench.report.round_summary import Summary, summarize
from openclust.bench.rows.replicated import _away, _cpu_rows, _rows

HOME, PUBLISHING, CONSUMING = BrokerUrl("a"), BrokerUrl("b"), BrokerUrl("c")


def summary(name: str, messages: int, cpu_s: float) -> Summary:
    figures = Figures(
        messages=messages, deliveries=messages, elapsed_s=2.0, broker_cpu_s=cpu_s, confirm_latencies_ns=[1_000_000]
    )
    return summarize(Contender(name=name, url=HOME), [figures])


OURS, THEIRS = summary("ours", 9_000, 1.0), summary("theirs", 3_000, 2.0)


def test_throughput_and_cpu_are_a_line_each_with_a_floor() -> None:
    (rate,) = _rows("k", "work", [OURS, THEIRS], 2.0)
    (cpu,) = _cpu_rows("k-cpu", "work", [OURS, THEIRS], 7.0)
    assert (rate.value, rate.met) == (3.0, True)
    assert (cpu.value, cpu.met) == (6.0, False)
    assert "4,500/s at 111.1 us each, confirmed after 1.0 ms" in rate.shown


def test_alone_it_is_a_rate_and_no_ratio() -> None:
    (rate,) = _rows("k", "work", [OURS], 2.0)
    assert (rate.unit, rate.value, rate.met) == ("/s", 4_500.0, None)
    assert list(_cpu_rows("k", "work", [OURS], 2.0)) == []


def test_away_from_home_none_of_the_three_does_two_things() -> None:
    found = _away(Contender(name="x", url=HOME), [HOME, PUBLISHING, CONSUMING])
    assert (found.declared_at, found.url, found.subscribers_at) == (HOME, PUBLISHING, (CONSUMING,))
