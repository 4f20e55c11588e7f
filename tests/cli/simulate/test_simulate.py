"""`openclust simulate`: what it takes, what it refuses before Spark is started, and what it leaves behind.

Spark and the pipeline are not here: what they answer is made up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from openclust.shell.config.schema import ConfigError
from tests.support.paths import ROOT
from tests.topology.simulate.results.test_goal import run as summary_of
from topology.simulate.input.layout import GridCell
from topology.simulate.results.summary import ResultsSummary, StageTime
from topology.simulate.spark import session

EIGHT = ROOT / "conf" / "topologies" / "eight.toml"
MARKET = ROOT / "conf" / "workloads" / "market-data.toml"


class FakeSpark:
    """Answers each run with a p99 of 80 ms, divided by its brokers."""

    def __init__(self) -> None:
        self.runs: list[GridCell] = []
        self.seen: dict[str, Any] = {}
        self.error: BaseException | None = None

    @contextmanager
    def session(self, master: str | None, **given: Any) -> Iterator[Any]:
        self.seen |= {"master": master, **given}
        yield SimpleNamespace(version="4", sparkContext=SimpleNamespace(master="local[2]", appName="fake"))

    def simulate(
        self, spark: Any, runs: list[GridCell], workload: Any, calibration: Any, *, out: Any, progress: Any
    ) -> Any:
        self.runs = runs
        self.seen |= {"workload": workload, "out": out}
        if self.error is not None:
            raise self.error
        progress("population", 0, 2)
        progress("latency", 1, 2)
        found = [
            msgspec.structs.replace(
                summary_of(
                    each.number,
                    primaries=len(each.layout.primaries),
                    secondaries=len(each.layout.sites) - len(each.layout.primaries),
                    p99=80 / len(each.layout.sites),
                    subscribers=each.subscribers,
                ),
                design=each.layout.design,
                rate=each.rate,
            )
            for each in runs
        ]
        return SimpleNamespace(runs=found, stages=[StageTime(name="population", took_s=0.1)])


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeSpark:
    fake = FakeSpark()
    pipeline = ModuleType("topology.simulate.pipeline")
    pipeline.simulate = fake.simulate  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "topology.simulate.pipeline", pipeline)
    monkeypatch.setattr(session, "spark_session", fake.session)
    monkeypatch.chdir(tmp_path)
    return fake


def run(*arguments: object) -> Result:
    return CliRunner().invoke(openclust, ["simulate", *map(str, arguments)], prog_name="openclust")


def test_results_are_in_the_folder_and_a_table_is_shown(fake: FakeSpark) -> None:
    result = run(EIGHT, MARKET)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == "market-data"
    assert "simulation/report.html: the report" in result.stdout
    summary = msgspec.json.decode(Path("simulation/summary.json").read_bytes(), type=ResultsSummary)
    assert summary.topology == str(EIGHT) and summary.runs[0].primaries == 3 and summary.sweep is None
    assert [each.name for each in summary.stages] == ["population"]
    assert "<html" in Path("simulation/report.html").read_text()
    assert fake.seen["out"] == Path("simulation")
    assert len(fake.runs) == 1 and fake.runs[0].subscribers == 100_000


def test_json_is_the_summary_and_nothing_else(fake: FakeSpark) -> None:
    result = run(EIGHT, MARKET, "--json", "--seed", 7, "--no-parquet")
    assert json.loads(result.stdout)["workload"]["seed"] == 7
    assert fake.seen["out"] is None
    assert run(EIGHT, MARKET, "--quiet").output == ""


def test_options_of_spark_go_to_spark(fake: FakeSpark, tmp_path: Path) -> None:
    run(EIGHT, MARKET, "--master", "local[3]", "--memory", "3g", "--local-dir", tmp_path)
    assert (fake.seen["master"], fake.seen["memory"], fake.seen["local_dir"]) == ("local[3]", "3g", tmp_path)


def test_what_makes_spark_start_sooner_is_in_the_cache_unless_told_otherwise(
    fake: FakeSpark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run(EIGHT, MARKET)
    assert fake.seen["cache"] == tmp_path / "openclust"
    run(EIGHT, MARKET, "--no-cache")
    assert fake.seen["cache"] is None
    monkeypatch.setenv("OPENCLUST_NO_CACHE", "1")
    fake.seen.clear()
    run(EIGHT, MARKET)
    assert fake.seen["cache"] is None


def test_a_sweep_may_be_written_in_several_words(fake: FakeSpark) -> None:
    goal = "p99<50ms, survive=1"
    result = run(MARKET, "--sweep", "subscribers=10k,1M", "brokers=1..4", "rate=x2", "--goal", goal, "--json")
    assert result.exit_code == 0, result.output
    assert len(fake.runs) == 8
    sweep = json.loads(result.stdout)["sweep"]
    assert sweep["grid"] == {"subscribers": ["10000", "1000000"], "brokers": ["1", "2", "3", "4"], "rate": ["2"]}
    assert [(each["subscribers"], each["run"]) for each in sweep["cheapest"]] == [(10_000, 2), (1_000_000, 6)]


def test_a_goal_that_no_layout_meets_is_exit_1(fake: FakeSpark) -> None:
    assert run(EIGHT, MARKET, "--goal", "p99<5ms").exit_code == 1
    assert run(EIGHT, MARKET, "--goal", "p99<50ms").exit_code == 0


def test_designs_are_compared(fake: FakeSpark) -> None:
    run(EIGHT, MARKET, "--design", "single", "--design", "openclust")
    assert [each.layout.design for each in fake.runs] == ["openclust", "single"]
    run(EIGHT, MARKET, "--design", "all")
    assert len(fake.runs) == 4


def test_a_shorter_run_leaves_out_later_faults_and_says_so(fake: FakeSpark) -> None:
    result = run(EIGHT, MARKET, "--duration", 60, "--subscribers", "10k", "--json")
    summary = json.loads(result.stdout)
    assert summary["notes"] == ["left out, since the run ends at 60 s: kill p2 at 300s"]
    assert summary["workload"]["faults"] == [] and fake.runs[0].subscribers == 10_000


def test_runs_without_the_broker_of_a_fault_are_noted(fake: FakeSpark) -> None:
    result = run(EIGHT, MARKET, "--sweep", "brokers=1..4", "--json")
    assert json.loads(result.stdout)["notes"] == [
        "kill p2 at 300s: 2 of 4 runs have no such broker, and nothing happens to it there"
    ]


def test_earlier_results_are_replaced_unless_they_are_kept(fake: FakeSpark) -> None:
    run(EIGHT, MARKET)
    old = Path("simulation/parquet/population")
    old.mkdir(parents=True)
    assert run(EIGHT, MARKET, "--keep").exit_code == 2
    assert old.exists()
    assert run(EIGHT, MARKET).exit_code == 0
    assert not old.exists()


def test_a_folder_of_something_else_is_left_alone(fake: FakeSpark) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("x")
    result = run(EIGHT, MARKET, "--out", "mine")
    assert result.exit_code == 2
    assert result.stderr == (
        "openclust: error: mine: holds 'thesis.txt', which is no result of a simulation; "
        "let --out name another folder\n"
    )
    assert Path("mine/thesis.txt").read_text() == "x"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "name a workload, such as conf/topologies/eight.toml"),
        ([MARKET], "name a topology before the workload, or say how many brokers: --sweep brokers=1..8"),
        ([EIGHT, MARKET, MARKET], "3 files are too many"),
        ([MARKET, "--sweep", "rate=x2"], "name a cluster file, or say how many brokers there are"),
        ([MARKET, "--sweep", "brokers=1..4", "broker=5"], "nothing is called 'broker'; did you mean 'brokers'?"),
        (["nowhere.toml", MARKET], "nowhere.toml: no such configuration file"),
        ([EIGHT, "nowhere.toml"], "nowhere.toml: no such workload file"),
        ([MARKET, EIGHT], "unknown"),
        ([EIGHT, MARKET, "--calibration", "nowhere.json"], "openclust bench --calibrate nowhere.json` writes one"),
        ([EIGHT, MARKET, "--goal", "p98<5ms"], "did you mean 'p99'?"),
        ([EIGHT, MARKET, "--subscribers", "1k", "--sweep", "subscribers=1k"], "say the same thing"),
        ([EIGHT, MARKET, "--design", "single", "--sweep", "design=all"], "say the same thing"),
        ([EIGHT, MARKET, "--subscribers", "many"], "'many' is no whole number"),
        ([EIGHT, MARKET, "--design", "raft"], "'raft' is not one of"),
        ([EIGHT, MARKET, "--duration", "59.95"], "the duration of 59.95 s is no multiple of 100 ms"),
        ([EIGHT, MARKET, "--out", "/proc/simulation"], "/proc/simulation: the results cannot be put there"),
    ],
)
def test_bad_input_is_told_before_spark_starts(fake: FakeSpark, arguments: list[object], told: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert all(line.startswith("openclust: error: ") for line in result.stderr.splitlines())
    assert not fake.seen, "Spark was started"


def test_an_unknown_broker_is_told_with_its_line(fake: FakeSpark) -> None:
    Path("w.toml").write_text(MARKET.read_text().replace("kill p2", "kill pp2"))
    result = run(EIGHT, "w.toml")
    assert result.exit_code == 2
    assert "faults.0: names an unknown broker, 'pp2'; did you mean 'p2'? (there are p1, p2, p3, s1" in result.stderr
    assert result.stderr.startswith("openclust: error: w.toml line 12: ")


def test_debug_shows_what_was_behind_an_error(fake: FakeSpark) -> None:
    fake.error = ConfigError("Spark failed")
    fake.error.__cause__ = RuntimeError("deep inside")
    assert run(EIGHT, MARKET).stderr == "openclust: error: Spark failed\n"
    result = run(EIGHT, MARKET, "--debug")
    assert "RuntimeError: deep inside" in result.stderr
    assert result.stderr.endswith("openclust: error: Spark failed\n")
