"""Goals: what may be written, who meets one, and which layout is the cheapest."""

from __future__ import annotations

import msgspec
import pytest

from openclust.shell.config.schema import ConfigError
from topology.simulate.results.goal import cheapest, parse_goal, survivable
from topology.simulate.results.summary import BrokerSummary, FaultSummary, Latency, RunSummary, Totals


def run(number: int = 0, primaries: int = 3, secondaries: int = 0, **given: float) -> RunSummary:
    latency = Latency(
        p50_ms=1, p90_ms=2, p99_ms=given.get("p99", 10), p999_ms=20, max_ms=30, mean_ms=1.5, edges_us=[1], counts=[]
    )
    numbers = {name: 0 for name in BrokerSummary.__struct_fields__ if name not in ("name", "role")}
    broker = msgspec.convert(
        {**numbers, "name": "p1", "role": "root", "cpu_mean": given.get("cpu", 0.5)}, BrokerSummary
    )
    totals = Totals(
        publications=1,
        unsent=0,
        expected=1000,
        delivered=1000 - int(given.get("missed", 0)),
        missed=int(given.get("missed", 0)),
        copies=0,
        copies_bytes=0,
        delivered_bytes=0,
        cpu_s=1,
    )
    return RunSummary(
        run=number,
        design="openclust",
        subscribers=int(given.get("subscribers", 100)),
        rate=1.0,
        primaries=primaries,
        secondaries=secondaries,
        totals=totals,
        brokers=[broker],
        links=[],
        latency=latency,
        faults=[],
        queues=[],
        bottleneck=None,
        span_s=1,
        timeline=[],
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p99<50ms", ""),
        ("p99<10ms", "p99 is 10 ms, wanted <10ms"),
        ("p99<=10ms", ""),
        ("p99 < 0.01s", "p99 is 10 ms, wanted < 0.01s"),
        ("p50<2000us, cpu<0.7", ""),
        ("cpu<40%", "cpu is 50 %, wanted <40%"),
        ("missed<1%", "missed is 2 %, wanted <1%"),
        ("missed<0.03", ""),
        ("survive=1", ""),
        ("survive=2", "survives the loss of 1, wanted 2"),
        ("brokers<=3", ""),
        ("p99<1ms, survive=2", "p99 is 10 ms, wanted <1ms; survives the loss of 1, wanted 2"),
    ],
)
def test_a_goal_is_met_or_says_why_not(text: str, why: str) -> None:
    assert parse_goal(text).met_by(run(missed=20)) == (not why, why)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "wants nothing"),
        ("p98<5ms", "nothing is called 'p98'; did you mean 'p99'?"),
        ("p99<5", "p99 is that of 99 %: write 5us or 5ms or 5s or 5min"),
        ("p99<5kg", "write 5us or 5ms"),
        ("p99>5ms", "a goal is a bound from above"),
        ("survive=half", "that is no condition"),
        ("survive<2", "write survive=1"),
        ("survive=1.5", "write survive=1"),
        ("good", "that is no condition"),
        (",".join(["p99<5ms"] * 21), "at most 20 conditions"),
    ],
)
def test_what_is_wrong_with_a_goal_is_told(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_goal(text)
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("primaries", "lost"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (7, 3)])
def test_more_than_half_of_the_primaries_must_be_left(primaries: int, lost: int) -> None:
    assert survivable(run(primaries=primaries, secondaries=9)) == lost
    single = msgspec.structs.replace(run(primaries=1), design="single")
    assert survivable(single) == 0
    assert survivable(msgspec.structs.replace(run(primaries=4), design="virtual-synchrony")) == 3


def test_the_cheapest_has_the_fewest_brokers_then_the_lowest_p99() -> None:
    runs = [
        run(0, primaries=1, p99=5),
        run(1, primaries=3, secondaries=2, p99=9),
        run(2, primaries=5, p99=8),
        run(3, primaries=3, secondaries=5, p99=1),
        run(4, primaries=3, p99=60),
    ]
    (found,) = cheapest(runs, parse_goal("p99<50ms, survive=1"))
    assert found.run == 2
    assert found.why == "5 brokers (openclust, 5 + 0): p99 8 ms, survives the loss of 2"


def test_each_number_of_subscribers_has_its_own_and_some_have_none() -> None:
    runs = [run(0, p99=5, subscribers=10), run(1, p99=90, subscribers=20), run(2, p99=70, subscribers=20)]
    few, many = cheapest(runs, parse_goal("p99<50ms"))
    assert (few.subscribers, few.run) == (10, 0)
    assert (many.subscribers, many.run) == (20, None)
    assert many.why == (
        "none of 2 layouts meets it; nearest is 3 brokers (openclust, 3 + 0): p99 is 70 ms, wanted <50ms"
    )


def test_clients_that_do_not_come_back_are_not_back_in_time() -> None:
    fault = FaultSummary(fault="kill p1 at 1s", at_s=1, lost_clients=5, back_all_ms=None)
    found = msgspec.structs.replace(run(), faults=[fault])
    assert parse_goal("back<10min").met_by(found) == (False, "back is inf ms, wanted <10min")
    assert parse_goal("back<10min").met_by(run())[0]
