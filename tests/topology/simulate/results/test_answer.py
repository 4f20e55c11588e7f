from __future__ import annotations

import msgspec
import pytest

from tests.support.simulate import summaries
from topology.simulate.results.answer import answer_of, bottleneck_line, fault_line
from topology.simulate.results.summary import Bottleneck, FaultSummary


def test_one_run_is_told_by_deliveries_latency_limit_and_faults() -> None:
    deliveries, latency, limit, fault = answer_of(summaries.one_run())

    assert deliveries.endswith("11,991,600 of 12,000,000 deliveries (99.93 %); 8,400 were missed.")
    assert latency == "Half of them arrived within 1.2 ms, 99 % within 7.85 ms, the slowest after 45.1 ms."
    assert limit.startswith("p1 is nearest to its limit: 62 % of its CPU in the busiest second")
    assert fault.startswith("kill p2 at 30s: no root for 240 ms")


def test_many_faults_are_counted_not_listed() -> None:
    run = summaries.run()
    lines = answer_of(summaries.summary([msgspec.structs.replace(run, faults=run.faults * 9)]))

    assert lines[-1] == "There were 4 more faults."


def test_a_broker_past_its_limit_is_told_as_such() -> None:
    line = bottleneck_line(Bottleneck(broker="s1", what="out", used=1.25, room=0.8))

    assert line == (
        "s1 is nearest to its limit: 125 % of its outgoing bandwidth. "
        "That is more than it has: the load must shrink to 80 % of this."
    )


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (FaultSummary(fault="add s9 at 5s", at_s=5), "add s9 at 5s: 0 deliveries missed."),
        (
            FaultSummary(fault="kill s1 at 5s", at_s=5, lost_clients=1, back_p50_ms=30, missed=1),
            "kill s1 at 5s: 1 client lost their broker, half were back after 30 ms, not all came back; "
            "1 delivery missed.",
        ),
    ],
)
def test_a_fault_is_told_by_what_it_did(fault: FaultSummary, line: str) -> None:
    assert fault_line(fault) == line


def test_designs_are_told_at_the_load_they_are_compared_at() -> None:
    runs = [
        summaries.run(number, design=design, subscribers=load)
        for number, (design, load) in enumerate([("openclust", 10), ("openclust", 5_000), ("single", 5_000)])
    ]
    lines = answer_of(summaries.summary(runs))

    assert [line.split(":")[0] for line in lines] == ["5,000 subscribers, openclust", "5,000 subscribers, single"]


def test_without_a_goal_the_runs_are_told_by_their_range() -> None:
    runs = [summaries.run(1, p50_ms=1.0), summaries.run(2, secondaries=0, p50_ms=100.0)]
    (line,) = answer_of(summaries.summary(runs))

    assert line.startswith(
        "2 layouts (openclust): 99 % of the deliveries arrive within 6.54 ms (3 + 5 brokers) to 654 ms"
    )
