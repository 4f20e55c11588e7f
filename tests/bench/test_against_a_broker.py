"""Short benches of a real openclust, in its own process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclust.bench.brokers.local_broker import StartedBroker
from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.comparison import Contender, run_rounds
from openclust.bench.load.generator import Generator
from openclust.bench.load.load_messages import Order, Progressed
from openclust.bench.load.load_session import Session
from openclust.bench.load.work import LoadWork, Pattern
from openclust.bench.report.progress_bar import Quiet

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def broker() -> Iterator[StartedBroker]:
    with StartedBroker() as started:
        yield started


def bench(*args: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "openclust", "bench", *args, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def url(broker: StartedBroker) -> str:
    return f"amqp://{broker.url.address}/"


SHORT = ("--seconds", "0.3", "--warm-up", "0.1", "--rounds", "2")


@pytest.mark.parametrize(
    ("args", "deliveries_per_message"),
    [
        (("fanout", "--subscribers", "20"), 20),
        (("fanout", "--subscribers", "5", "--size", "200000", "--window", "2"), 5),
        (("fanout", "--subscribers", "5", "--rate", "100"), 5),
        (("topic", "--subscribers", "10", "--bindings", "100", "--keys", "20"), 5),
        (("p2p",), 1),
        (("confirm",), 1),
        (("durable",), 1),
    ],
)
def test_every_pattern_delivers_everything_it_publishes(
    broker: StartedBroker, args: tuple[str, ...], deliveries_per_message: int
) -> None:
    (found,) = bench(*args, *SHORT, "--url", url(broker))["brokers"]
    for one in found["rounds"]:
        assert one["deliveries"] == one["messages"] * deliveries_per_message > 0
        assert one["broker_cpu_s"] >= 0
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["max"]
    assert bool(found["confirm_latency_ms"]) == (args[0] in ("confirm", "durable"))


def test_a_count_is_kept_exactly(broker: StartedBroker) -> None:
    (found,) = bench("p2p", "--count", "1234", *SHORT, "--url", url(broker))["brokers"]
    assert [one["messages"] for one in found["rounds"]] == [1234, 1234]


def test_connections_are_attached_weighed_and_detached(broker: StartedBroker) -> None:
    (found,) = bench("connections", "--subscribers", "50", "--url", url(broker))["brokers"]
    assert found["attached"] == 50
    assert found["attaches_per_s"] > 0
    assert found["idle_bytes_per_subscriber"] is not None
    assert found["rounds"][0]["deliveries"] == 50 * 20


def test_brokers_are_compared_and_the_table_has_their_ratios(broker: StartedBroker) -> None:
    rows = bench("--only", "p2p", *SHORT, "--url", url(broker), "--compare", f"again={url(broker)}")["rows"]
    assert [row["row"] for row in rows] == ["p2p"]
    assert rows[0]["ratios"]["again"]["wall"] > 0


def test_brokers_of_this_tree_and_of_a_checkout_are_started_anew_as_often_as_is_wanted() -> None:
    short = ("--seconds", "0.2", "--warm-up", "0", "--rounds", "1")
    found = bench("p2p", "--start", "--starts", "2", *short, "--compare-checkout", str(ROOT))
    assert [(one["starts"], len(one["rounds"])) for one in found["brokers"]] == [(2, 2), (2, 2)]
    (ranges,) = found["ratio_ranges"].values()
    assert ranges["deliveries_per_second"]["count"] == 2


def test_rounds_go_there_and_back_and_every_second_start_begins_with_the_other(broker: StartedBroker) -> None:
    class Recorder(Quiet):
        def __init__(self) -> None:
            self.rounds: list[str] = []

        def doing(self, what: str) -> None:
            if "round" in what:
                self.rounds.append(what)

    work = LoadWork(pattern="p2p", count=10, warm_up_seconds=0)
    contenders = [Contender(name=name, url=broker.url) for name in ("A", "B")]
    for start, expected in enumerate(("ABBA", "BAAB")):
        recorder = Recorder()
        found = run_rounds(work, contenders, 2, recorder, start)
        assert "".join(each[0] for each in recorder.rounds) == expected
        assert [(contender.name, len(figures)) for contender, figures in found] == [("A", 2), ("B", 2)]


@pytest.mark.parametrize("pattern", ["fanout", "durable"])
def test_nothing_stays_behind(broker: StartedBroker, pattern: Pattern) -> None:
    session = Session(Order(url=broker.url, work=LoadWork(pattern=pattern, count=10)), None, lambda *_: None)
    session.run(None)
    session.close()
    connection = BenchConnection(broker.url)
    with pytest.raises(BenchError, match="404"):
        if session.exchange:
            connection.call(frames.queue_declare(1, "", exclusive=True), frames.QUEUE_DECLARE_OK)
            connection.call(frames.queue_bind(1, "", session.exchange, ""), frames.QUEUE_BIND_OK)
        else:
            connection.call(frames.queue_declare(1, session.queues[0], passive=True), frames.QUEUE_DECLARE_OK)
    connection.close()


def test_a_refused_login_shows_the_brokers_reason(broker: StartedBroker) -> None:
    with pytest.raises(BenchError, match="refused user 'guest': 403"):
        BenchConnection(BrokerUrl("127.0.0.1", broker.url.port, password="wrong"))


def test_a_broker_that_dies_in_a_round_is_one_line() -> None:
    with StartedBroker() as broker:

        def kill_in_the_middle(progressed: Progressed) -> None:
            if progressed.doing == "deliveries":
                os.kill(broker.pid, signal.SIGKILL)

        work = LoadWork(pattern="fanout", subscribers=5, seconds=30.0)
        generator = Generator(Order(url=broker.url, work=work, broker_pids=(broker.pid,)), kill_in_the_middle)
        try:
            with pytest.raises(BenchError, match="connection"):
                generator.run()
        finally:
            generator.close()
