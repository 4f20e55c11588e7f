"""A real cluster that traces every message: what `openclust analyze` finds is what its clients saw."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from pika.adapters.blocking_connection import BlockingChannel
from pyspark.sql import SparkSession

from openclust.cli.main import openclust
from tests.support.cluster.whole_cluster import WholeCluster, pump, settle, whole_cluster
from topology.simulate.report.results_folder import read_summary
from topology.simulate.results.summary import ResultsSummary

pytestmark = pytest.mark.sockets

TOPICS = 5
MESSAGES = 60
WARM_UP = "warm-up"


class Seen(NamedTuple):
    """What the clients of a cluster have done and got, by the broker that they are connected to."""

    folder: Path
    published: Counter[str]
    fanned_out: Counter[str]
    worked: Counter[str]
    root: str


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Two primaries and a secondary with clients at each, stopped when all is done."""
    folder = tmp_path_factory.mktemp("traced")
    settings = (f"trace.file={folder}/traces/{{name}}.jsonl", "trace.sample=1", "cluster.heartbeat_ms=500")
    with whole_cluster(folder, *settings, primaries=2, secondaries=1) as cluster:
        found = _traffic(cluster, folder / "traces")
    yield found


def _traffic(cluster: WholeCluster, folder: Path) -> Seen:
    seen = Seen(folder, Counter(), Counter(), Counter(), cluster.root().name)
    writers: dict[str, BlockingChannel] = {}
    for name, broker in sorted(cluster.brokers.items()):
        writers[name] = cluster.channel(broker)
        for no_ack in (True, False):
            _subscribe(cluster.channel(broker), name, seen.fanned_out, no_ack=no_ack)
    first = next(iter(writers.values()))
    first.queue_declare("work", durable=False)
    for name, broker in sorted(cluster.brokers.items()):
        _work(cluster.channel(broker), name, seen.worked)
    channels = list(writers.values())
    _warm_up(writers, seen)
    before = seen.published.total()
    fanned_out = seen.fanned_out.total()
    for number in range(MESSAGES):
        name = sorted(writers)[number % 3]
        writers[name].basic_publish("amq.topic", f"t.{number % TOPICS}", b"topic %d" % number)
        writers[name].basic_publish("", "work", b"work %d" % number)
        seen.published[name] += 2
    assert seen.published.total() == before + 2 * MESSAGES
    pump(channels, lambda: seen.fanned_out.total() == fanned_out + 6 * MESSAGES and seen.worked.total() == MESSAGES)
    settle(channels)
    return seen


def _subscribe(channel: BlockingChannel, name: str, inbox: Counter[str], *, no_ack: bool) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.topic", "t.#")

    def got(channel: BlockingChannel, method: object, properties: object, body: bytes) -> None:
        inbox[name] += 1
        if not no_ack:
            channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

    channel.basic_consume(queue, got, auto_ack=no_ack)


def _work(channel: BlockingChannel, name: str, inbox: Counter[str]) -> None:
    channel.basic_qos(prefetch_count=3)

    def got(channel: BlockingChannel, method: object, properties: object, body: bytes) -> None:
        inbox[name] += 1
        channel.basic_ack(method.delivery_tag)  # type: ignore[attr-defined]

    channel.basic_consume("work", got)


def _warm_up(writers: dict[str, BlockingChannel], seen: Seen) -> None:
    """Publish until each broker's messages reach all six subscribers: interest is told asynchronously."""
    channels = list(writers.values())
    for name, writer in writers.items():
        for number in range(200):
            before = seen.fanned_out.total()
            writer.basic_publish("amq.topic", "t.0", b"%b %d" % (WARM_UP.encode(), number))
            seen.published[name] += 1
            settle(channels, 0.1)
            if seen.fanned_out.total() == before + 6:
                break
        else:
            raise AssertionError(f"what {name} publishes does not reach everybody")


@pytest.fixture(scope="module")
def summary(seen: Seen, spark: SparkSession) -> ResultsSummary:
    out = seen.folder.parent / "out"
    result = CliRunner().invoke(openclust, ["analyze", str(seen.folder), "--out", str(out)], prog_name="openclust")
    assert result.exit_code == 0, result.output
    assert "deliveries" in result.output
    assert (out / "report.html").stat().st_size > 1_000
    return read_summary(out)


def test_every_delivery_that_clients_saw_is_found_where_they_saw_it(seen: Seen, summary: ResultsSummary) -> None:
    (run,) = summary.runs
    assert summary.kind == "trace"
    assert {each.name: each.deliveries for each in run.brokers} == seen.fanned_out + seen.worked
    assert {each.name: each.publications for each in run.brokers} == seen.published
    assert run.totals.missed == 0
    assert sum(run.latency.counts) == seen.fanned_out.total()
    (queue,) = run.queues
    assert (queue.name, queue.published, queue.consumed) == ("work", MESSAGES, MESSAGES)


def test_copies_are_as_many_left_as_came(seen: Seen, summary: ResultsSummary) -> None:
    (run,) = summary.runs
    into, out = Counter[str](), Counter[str]()
    for link in run.links:
        out[link.from_] += link.copies
        into[link.to] += link.copies
    assert {each.name: each.copies_out for each in run.brokers} == dict(out)
    assert {each.name: each.copies_in for each in run.brokers} == dict(into)
    assert run.totals.copies == out.total()


def test_roles_clients_and_latencies_are_those_of_the_cluster(seen: Seen, summary: ResultsSummary) -> None:
    (run,) = summary.runs
    assert (run.primaries, run.secondaries) == (2, 1)
    assert [each.name for each in run.brokers if each.role == "root"] == [seen.root]
    assert all(each.clients_max >= 1 for each in run.brokers)
    assert 0 < run.latency.p50_ms < 5_000
    assert run.totals.cpu_s > 0


def test_the_traces_begin_and_end_as_they_should(seen: Seen, summary: ResultsSummary) -> None:
    for name in ("p1", "p2", "s1"):
        lines = [json.loads(line) for line in (seen.folder / f"{name}.jsonl").read_text().splitlines()]
        assert (lines[0]["event"], lines[0]["broker"], lines[0]["sample"]) == ("begin", name, 1)
        assert (lines[-1]["event"], lines[-1]["why"]) == ("end", "stopped")
        handed = [each for each in lines if each["event"] == "deliver"]
        assert handed and all(each["written_us"] >= each["at_us"] for each in handed)
