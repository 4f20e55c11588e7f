"""Sweeps: what may be written, and which runs come of it."""

from __future__ import annotations

import pytest

from openclust.shell.config.schema import ConfigError
from topology.simulate.input.grid import RUNS_MAX, parse_count, parse_sweep, runs_of, shown
from topology.simulate.input.layout import layout_of_brokers, layout_of_counts
from topology.simulate.input.workload import Publishers, Subscribers, Topics, Workload

WORKLOAD = Workload(
    topics={"t": Topics(count=10)},
    subscribers=(Subscribers(name="s", topics="t", count=10),),
    publishers=(Publishers(name="p", topics="t", rate=10),),
)


@pytest.mark.parametrize(("text", "number"), [("7", 7), ("10k", 10_000), ("1.5M", 1_500_000), ("1_000", 1000)])
def test_counts_have_suffixes(text: str, number: int) -> None:
    assert parse_count(text) == number


@pytest.mark.parametrize("text", ["", "k", "1.5", "-1", "1e3", "1K", "10 k", "0.0001k"])
def test_what_is_no_count_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="no whole number"):
        parse_count(text)


def test_a_sweep_has_lists_ranges_and_steps() -> None:
    axes = parse_sweep(["subscribers=10k,100k,1M,10M brokers=1..4", "rate=x0.5,2"])
    assert axes["subscribers"] == [10_000, 100_000, 1_000_000, 10_000_000]
    assert axes["brokers"] == [1, 2, 3, 4]
    assert axes["rate"] == [0.5, 2]
    assert parse_sweep(["primaries=1..7/2", "secondaries=0,8..9"]) == {
        "primaries": [1, 3, 5, 7],
        "secondaries": [0, 8, 9],
    }
    assert parse_sweep(["design=all"])["design"][0] == "openclust"
    assert shown(axes)["rate"] == ["0.5", "2"]


@pytest.mark.parametrize(
    ("term", "told"),
    [
        ("brokers", "write NAME=VALUE"),
        ("broker=1", "nothing is called 'broker'; did you mean 'brokers'?"),
        ("brokers=5..1", "5..1 has nothing in it"),
        ("brokers=1..9/0", "1..9/0 has nothing in it"),
        ("brokers=0", "brokers are 1 to 256, not 0"),
        ("brokers=1..", "'1..' is no whole number"),
        ("subscribers=1..1M", "1..1M are 1,000,000 values, more than 1,000"),
        ("subscribers=1000M", "subscribers are 1 to 100,000,000"),
        ("rate=0", "'0' is no factor"),
        ("rate=nan", "'nan' is no factor"),
        ("design=singel", "'singel' is no design; did you mean 'single'?"),
        ("brokers=1 brokers=2", "brokers is given twice"),
        ("brokers=1 primaries=2", "sweep either, not both"),
    ],
)
def test_what_is_wrong_with_a_sweep_is_told(term: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sweep([term])
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_the_runs_are_all_cells_numbered_from_0() -> None:
    runs = runs_of(parse_sweep(["subscribers=10,20 brokers=1..3"]), WORKLOAD)
    assert [each.number for each in runs] == list(range(6))
    assert [(each.subscribers, len(each.layout.sites)) for each in runs] == [
        (many, brokers) for many in (10, 20) for brokers in (1, 2, 3)
    ]
    assert [each.layout.primaries for each in runs[:3]] == [(0,), (0,), (0, 1, 2)]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_brokers_are_those_of_the_layout_by_count(count: int) -> None:
    (run,) = runs_of({"brokers": [count]}, WORKLOAD)
    assert run.layout.sites == layout_of_brokers(count).sites
    assert run.layout.latency_us == layout_of_brokers(count).latency_us


def test_a_broker_alone_is_alone_however_many_there_are_of_other_designs() -> None:
    runs = runs_of(parse_sweep(["brokers=2..5 design=openclust,single"]), WORKLOAD)
    assert [each.layout.design for each in runs] == ["openclust"] * 4 + ["single"]


def test_without_a_sweep_there_is_one_run_a_design() -> None:
    runs = runs_of({}, WORKLOAD, base=layout_of_counts(3, 5), designs=("openclust", "active-passive"))
    assert [(each.layout.design, len(each.layout.sites), each.rate) for each in runs] == [
        ("openclust", 8, 1.0),
        ("active-passive", 8, 1.0),
    ]


def test_it_takes_a_file_or_a_count_of_brokers() -> None:
    with pytest.raises(ConfigError, match="name a cluster file, or say how many brokers"):
        runs_of(parse_sweep(["rate=x2"]), WORKLOAD)


def test_a_rate_that_publishes_too_much_is_told() -> None:
    fast = Workload(topics=WORKLOAD.topics, publishers=(Publishers(name="p", topics="t", rate=100_000),))
    with pytest.raises(ConfigError, match="--sweep rate: x100: 600,000,000 publications are more than 500,000,000"):
        runs_of(parse_sweep(["brokers=1 rate=x1,x100"]), fast)
    with pytest.raises(ConfigError, match="the workload has no"):
        runs_of(parse_sweep(["brokers=1 subscribers=5"]), fast)


def test_a_grid_has_a_bound() -> None:
    with pytest.raises(ConfigError, match=f"2,048 runs are more than {RUNS_MAX:,}"):
        runs_of(parse_sweep(["brokers=1..16 subscribers=1..128"]), WORKLOAD)
