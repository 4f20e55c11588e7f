"""`openclust simulate --validate`: a workload played for real beside its simulation."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from rich.console import Console

from openclust.bench.calibration.parts import QUICK
from openclust.bench.live.live_plan import LivePlan
from openclust.cli.main import openclust
from openclust.cli.simulate.costs_here import CostsHere, middle
from openclust.cli.simulate.played import SAMPLED_OF, plans
from openclust.cli.simulate.validate import Validation, local_layout, near, stage_of, validate
from openclust.cli.simulate.validation_report import ComparedFigure, data, lines, show
from openclust.shell.config.schema import ConfigError
from tests.support.live import live_found
from tests.support.spark import spark
from topology.simulate.input.calibration import shipped
from topology.simulate.input.layout import SharedHost, layout_of_counts
from topology.simulate.input.workload import Publishers, Queues, Subscribers, Topics, Workload
from topology.simulate.input.workload_file import read_workload
from topology.simulate.results.summary import FaultSummary, Latency, Point, RunSummary, Totals

__all__ = ["spark"]

WORKLOAD = Workload(
    name="small",
    duration_s=10,
    topics={"quotes": Topics(count=5)},
    subscribers=(Subscribers(name="all", count=40, topics="quotes", join_over_s=1, latency_ms=5, jitter_ms=2),),
    publishers=(Publishers(name="feed", count=2, topics="quotes", rate=20, join_at_s=1, brokers=("p2",)),),
    queues=(Queues(name="tasks", count=2, rate=5, consumers=2, work_ms=3),),
    faults=("kill p1 at 8s",),
)
SMALL = """
duration_s = 7
faults = ["kill p1 at 5s"]
[topics.quotes]
count = 5
[[subscribers]]
name = "all"
count = 40
topics = "quotes"
[[publishers]]
name = "feed"
count = 2
topics = "quotes"
rate = 20
[[queues]]
name = "tasks"
rate = 5
consumers = 2
work_ms = 3
"""


def test_a_workload_is_looked_at_from_when_all_are_there_until_the_first_fault() -> None:
    stage = stage_of(WORKLOAD)
    assert (stage.from_ms, stage.to_ms, stage.kills) == (3_000, 7_000, (("p1", 8_000),))


def test_a_workload_whose_fault_comes_too_early_is_refused() -> None:
    with pytest.raises(ConfigError, match="make the workload longer"):
        stage_of(msgspec.structs.replace(WORKLOAD, faults=("kill p1 at 3s",)))


def test_faults_that_cannot_be_played_are_refused() -> None:
    with pytest.raises(ConfigError, match="can play `kill NAME at TIME` only, not 'add s2 at 5s'"):
        stage_of(msgspec.structs.replace(WORKLOAD, faults=("add s2 at 5s",)))


def test_all_clients_are_on_this_machine() -> None:
    moved = near(WORKLOAD)
    assert {(group.latency_us, group.jitter_us) for group in moved.groups} == {(0, 0)}


def test_a_topology_gives_the_names_and_nothing_else() -> None:
    base = layout_of_counts(3, 2, latency_us=40_000)
    found = local_layout(shipped(), 2, base)
    assert found.names == ("p1", "p2", "p3", "s1", "s2")
    assert found.latency_us[0][1] == round(shipped().hop_us)
    assert found.hosts == (SharedHost(brokers=(0, 1, 2, 3, 4), cores=2),)


def drawn_plans() -> list[LivePlan]:
    from topology.simulate.traffic.drawn import Drawn, DrawnClient, DrawnMessage

    groups = WORKLOAD.groups
    clients = [
        DrawnClient(group, client, client * 10, client % 3, [client % 5] if group.kind == "subscribers" else [])
        for group in groups
        for client in range(group.count)
    ]
    messages = [DrawnMessage(1_000, 1, 0, 3, 100), DrawnMessage(2_000, 2, 1, -2, 100)]
    addresses = dict.fromkeys(("p1", "p2", "p3"), ("127.0.0.1", 1))
    return list(plans(layout_of_counts(3, 0), WORKLOAD, Drawn(clients, messages), addresses))


def test_every_client_is_played_once_and_some_subscribers_are_timed() -> None:
    crowd, timed = drawn_plans()
    numbers = sorted(each.number for each in (*crowd.clients, *timed.clients))
    assert numbers == list(range(40 + 2 + 2 + 4))
    assert {each.kind for each in crowd.clients} == {"subscribers"}
    assert sum(each.kind == "subscribers" for each in timed.clients) == 40 // SAMPLED_OF
    assert (crowd.is_sampling, timed.is_sampling) == (False, True)


def test_messages_go_to_their_topic_or_to_the_queue_of_their_producer() -> None:
    _, timed = drawn_plans()
    to_topic, to_queue = timed.messages
    assert (to_topic.key, to_topic.is_queued, to_topic.is_persistent) == ("t3", False, False)
    assert (to_queue.key, to_queue.is_queued, to_queue.is_persistent) == ("live.tasks.1", True, True)
    producer = next(each for each in timed.clients if each.number == to_queue.client)
    assert (producer.kind, producer.queue) == ("producers", "live.tasks.1")


def found() -> Validation:
    def point(broker: str, at_s: float, cpu: float) -> Point:
        return Point(
            broker=broker,
            at_s=at_s,
            cpu=cpu,
            clients=20,
            attaches=0,
            deliveries=120,
            copies_in=20,
            copies_out=20,
            out_mbit=1,
            backlog_ms=0,
        )

    latency = Latency(p50_ms=0.2, p90_ms=1, p99_ms=2, p999_ms=3, max_ms=4, mean_ms=1, edges_us=[1.0, 2.0], counts=[1])
    totals = Totals(
        publications=1,
        unsent=0,
        expected=1,
        delivered=1,
        missed=0,
        copies=0,
        copies_bytes=0,
        delivered_bytes=0,
        cpu_s=0,
    )
    run = RunSummary(
        run=0,
        design="openclust",
        subscribers=40,
        rate=1,
        primaries=2,
        secondaries=0,
        totals=totals,
        brokers=[],
        links=[],
        latency=latency,
        faults=[FaultSummary(fault="kill p1 at 8s", at_s=8, no_root_ms=200, lost_clients=20, back_p50_ms=900)],
        queues=[],
        bottleneck=None,
        span_s=1,
        # What is outside of the window must not count.
        timeline=[point(name, at_s, 0.9 if at_s < 3 else 0.1) for at_s in range(7) for name in ("p1", "p2")],
    )
    live = live_found()
    return Validation(
        layout=layout_of_counts(2, 0),
        workload=WORKLOAD,
        calibration=shipped(),
        from_s=3,
        to_s=7,
        live=live,
        rounds=[live, live_found(cpu={"p1": 0.12, "p2": 0.08}, no_root_ms=None)],
        whole=run,
        calm=run,
        log_copies_per_s=20,
    )


def test_what_was_measured_stands_beside_what_was_predicted() -> None:
    shown = {each.what: each for each in lines(found())}
    # Of both brokers 120 a second, and without the 10 that came through queues.
    assert (shown["deliveries"].predicted, shown["deliveries"].met) == (230, True)
    # 40 a second, of which 20 are entries of the log, which are not counted as copies by a broker.
    assert (shown["copies between brokers"].measured, shown["copies between brokers"].predicted) == (20, 20)
    assert shown["CPU of p1, root"].error == pytest.approx(0.0)
    assert shown["CPU of p2, primary"].error == pytest.approx(0.25)
    assert shown["CPU of p2, primary"].met is False
    assert shown["latency p50"].error == pytest.approx(-0.2)
    assert shown["latency p99"].met is None
    assert (shown["without a root"].measured, shown["without a root"].predicted) == (250, 200)


def test_what_was_measured_in_each_round_is_told() -> None:
    shown = {each.what: each for each in lines(found())}
    assert shown["CPU of p1, root"].rounds == [10, 12]
    assert shown["without a root"].rounds == [250]
    console = Console(record=True, file=StringIO(), width=140)
    show(found(), console)
    assert "10.0 to 12.0" in console.export_text()


def test_of_costs_measured_several_times_the_median_of_each_counts() -> None:
    costs = [
        msgspec.structs.replace(shipped(), company_turn_us=turn, company_link_us=link)
        for turn, link in ((100.0, 30.0), (140.0, 10.0), (90.0, 20.0))
    ]
    assert middle(costs) == msgspec.structs.replace(shipped(), company_turn_us=100.0, company_link_us=20.0)


def test_there_is_no_error_where_nothing_was_measured() -> None:
    line = ComparedFigure(what="x", unit="", measured=None, predicted=1, within=0.1)
    assert (line.error, line.met) == (None, None)


def test_too_many_files_are_refused() -> None:
    result = CliRunner().invoke(openclust, ["simulate", "--validate", "a", "b", "c"])
    assert result.exit_code == 2
    assert "3 files are too many" in result.output


@pytest.mark.sockets
def test_a_small_workload_is_played_simulated_and_compared(tmp_path: Path, spark: SparkSession) -> None:
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    told: list[str] = []
    here = CostsHere(tmp_path, QUICK)
    validation = validate(spark, read_workload(file), shipped(), None, tmp_path, told.append, here=here, rounds=1)
    said = data(validation)
    shown = {each["what"]: each for each in said["lines"]}
    # Forty subscribers of five topics, 40 messages a second, and the same messages for both.
    assert 100 < shown["deliveries"]["measured"] < 1_000
    assert abs(shown["deliveries"]["error"]) < 0.5
    assert abs(shown["copies between brokers"]["error"]) < 0.5
    assert 0.1 < shown["CPU of all"]["measured"] / shown["CPU of all"]["predicted"] < 10
    assert shown["latency p50"]["measured"] > 0
    assert shown["without a root"]["measured"] > 0
    assert 0 < shown["clients lost"]["measured"] <= 46
    assert said["measured"]["unsent"] < said["measured"]["published"]
    assert told[2] == "round 1 of 1: playing small for 7 s"
    assert validation.calibration.company_turn_us != shipped().company_turn_us
    assert validation.calibration.turn_us == shipped().turn_us
    console = Console(record=True, file=StringIO(), width=120)
    show(validation, console)
    assert "latency p50" in console.export_text()
