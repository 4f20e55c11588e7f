"""Traces from the file to the summary: what is counted, what is noted, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from openclust.shell.config.schema import ConfigError
from tests.support.simulate.traces import (
    Line,
    begin,
    deliver,
    enqueue,
    line,
    publish,
    relay,
    relayed_in,
    status,
    write,
)
from topology.simulate.trace.analysis import STAGES, Analyzed, analyze
from topology.simulate.trace.files import find_files

pytestmark = pytest.mark.sockets  # Spark's driver and workers talk over sockets


def analyzed(spark: SparkSession, *files: Path, out: Path | None = None) -> Analyzed:
    return analyze(spark, find_files(str(each) for each in files), out=out, progress=lambda *_: None)


def two_brokers(folder: Path, *, sample: int = 1) -> list[Path]:
    """A fan-out from p1 to three clients here and two at s1, and one message through a queue at p1 to s1."""
    p1: list[Line | str] = [
        begin(sample=sample),
        status("p1", 1, clients=0),
        status("p1", 1_000, clients=4, cpu_ms=300, published=2 * sample),
        publish("a", 1_000),
        relay("a", 1_001, "p1", "s1"),
        deliver("a", 1_001, "p1", 3, after_ms=1),
        publish("b", 1_500),
        enqueue("b", 1_500, "work"),
        relay("b", 1_510, "p1", "s1", lane="consumer"),
        status("p1", 2_000, clients=4, cpu_ms=500, published=2 * sample),
        line("end", 2_100, why="stopped"),
    ]
    s1: list[Line | str] = [
        begin("s1", 0, role="secondary", sample=sample),
        relayed_in("a", 1_003, "s1", "p1"),
        deliver("a", 1_004, "s1", 2),
        relayed_in("b", 1_512, "s1", "p1", lane="consumer"),
        deliver("b", 1_515, "s1", queue="work"),
        status("s1", 2_000, clients=3, cpu_ms=100),
    ]
    return [write(folder / "p1.jsonl", p1), write(folder / "s1.jsonl", s1)]


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Analyzed, Path]:
    """What two brokers' traces tell, and their lines as Parquet."""
    folder = tmp_path_factory.mktemp("traces")
    return analyzed(spark, *two_brokers(folder), out=folder / "out"), folder / "out" / "trace"


def test_a_summary_says_what_happened(both: tuple[Analyzed, Path]) -> None:
    found, _ = both
    run, totals = found.run, found.run.totals
    assert (totals.publications, totals.expected, totals.delivered, totals.missed, totals.copies) == (2, 6, 6, 0, 2)
    assert [(each.name, each.role, each.deliveries, each.clients_max) for each in run.brokers] == [
        ("p1", "root", 3, 4),
        ("s1", "secondary", 3, 3),
    ]
    assert [(each.from_, each.to, each.copies) for each in run.links] == [("p1", "s1", 2)]
    assert sum(run.latency.counts) == 5
    assert 1.8 < run.latency.p50_ms < 2.2 and 3.9 < run.latency.max_ms < 4.5
    (queue,) = run.queues
    assert (queue.name, queue.published, queue.consumed, queue.wait_p50_ms) == ("work", 1, 1, 15)
    assert (run.primaries, run.secondaries, found.begun.cluster) == (1, 1, "k")
    assert totals.cpu_s == pytest.approx(0.5)
    assert run.brokers[0].cpu_max == pytest.approx(0.3)
    assert run.bottleneck is not None and run.bottleneck.broker == "p1"
    assert found.duration_s == pytest.approx(2.1)
    assert [each.name for each in found.stages] == list(STAGES)
    assert found.notes[0] == "Every message was followed (2 publishes): counts are exact."
    assert sum(each.deliveries for each in run.timeline) == 6
    assert len(run.timeline) == 3 * 2


def test_counts_are_times_the_sample_and_say_how_sure_they_are(spark: SparkSession, tmp_path: Path) -> None:
    found = analyzed(spark, *two_brokers(tmp_path, sample=1_000))
    totals = found.run.totals
    assert (totals.publications, totals.delivered, totals.copies) == (2_000, 6_000, 2_000)
    assert found.run.brokers[0].clients_max == 4, "which is no sample"
    assert sum(found.run.latency.counts) == 5_000
    assert found.run.queues[0].published == 1_000
    assert "counts are 1,000 times what was seen, +-71 %" in found.notes[0]
    assert "themselves counted 2,000 publishes, the sample says 2,000" in found.notes[0]


def test_parquet_gives_what_its_lines_gave(spark: SparkSession, both: tuple[Analyzed, Path]) -> None:
    lines, parquet = both
    again = analyzed(spark, parquet)
    assert again.run == lines.run
    assert again.notes == lines.notes


def test_lines_that_are_none_are_passed_over_and_named(spark: SparkSession, tmp_path: Path) -> None:
    p1, s1 = two_brokers(tmp_path)
    text = p1.read_text().splitlines()
    text[4:4] = ["{", '{"event": "publish", "at_us": "soon", "broker": "p1", "id": "z"}', '{"event": "publish"}']
    p1.write_text("\n".join([*text, '{"event":"deliv']))
    found = analyzed(spark, p1, s1)
    named = ", ".join(f"{p1}:{number}" for number in (5, 6, 7, len(text) + 1))
    assert found.notes[0] == f"4 lines were passed over as no line of a trace: {named}"
    assert found.run.totals.delivered == 6


def test_brokers_that_sample_differently_cannot_be_put_together(spark: SparkSession, tmp_path: Path) -> None:
    one = write(tmp_path / "a", [begin("p1", sample=10)])
    other = write(tmp_path / "b", [begin("p2", sample=100)])
    with pytest.raises(ConfigError, match=r"different samples: 1 in 10 \(p1\), 1 in 100 \(p2\); let trace.sample"):
        analyzed(spark, one, other)


def test_brokers_of_two_clusters_cannot_be_put_together(spark: SparkSession, tmp_path: Path) -> None:
    one = write(tmp_path / "a", [begin("p1", cluster="a")])
    other = write(tmp_path / "b", [begin("p1", cluster="b")])
    with pytest.raises(ConfigError, match=r"different clusters: a \(p1\), b \(p1\); give those of one"):
        analyzed(spark, one, other)


def test_a_trace_in_which_nothing_happened_is_told_all_the_same(spark: SparkSession, tmp_path: Path) -> None:
    found = analyzed(spark, write(tmp_path / "a", [begin()]))
    assert found.run.totals.delivered == 0
    assert found.run.latency.counts == []
    assert found.run.bottleneck is None


def test_what_a_reader_must_know_is_noted(spark: SparkSession, tmp_path: Path) -> None:
    p1: list[Line | str] = [
        begin(),
        publish("a", 1),
        relay("a", 2, "p1", "p2"),
        relay("c", 2, "p1", "gone"),
        relayed_in("b", 38, "p1", "p2"),
        deliver("unknown", 50, "p1", 4),
        line("lost", 60, count=7),
        line("end", 70, why="full: 1 MB (trace.max_mb)"),
    ]
    p2: list[Line | str] = [
        begin("p2"),
        relayed_in("a", 42, "p2", "p1"),
        publish("b", 76, "p2"),
        relay("b", 77, "p2", "p1"),
    ]
    notes = "\n".join(analyzed(spark, write(tmp_path / "a", p1), write(tmp_path / "b", p2)).notes)
    assert "The clock of p2 seems to be 39.5 ms ahead of p1's." in notes
    assert "There is no trace of gone" in notes
    assert "4 followed deliveries have no publish" in notes
    assert "7 lines were not written" in notes
    assert "p1: its trace was full 70 ms after the first line" in notes
