"""The trace that a broker writes: its first and last lines, its bound, and what happens where it cannot be written."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openclust.broker.server.broker import Broker
from openclust.shell.config.schema import Config, TraceSection
from openclust.shell.tracing.trace import MB, STATUS_EVERY_US, TraceWriter, new_tracing
from tests.support.client import Client, new_broker


class House:
    """What tracing sees of a server: its broker, its membership, its loop, its clock."""

    def __init__(self, file: Path | str, **settings: int) -> None:
        self.config = Config(cluster_key="k", name="p1", trace=TraceSection(file=str(file), sample=1, **settings))
        self.broker: Broker = new_broker()
        self.membership: Any = SimpleNamespace(root="p1", client_count=lambda: 3)
        self.loop: Any = SimpleNamespace(call_soon_threadsafe=lambda call, *arguments: call(*arguments))
        self.now_us = 1_000_000

    def tracing(self) -> TraceWriter | None:
        return new_tracing(self.config, self.broker, self.loop, lambda: self.now_us)

    def begun(self) -> TraceWriter:
        tracing = self.tracing()
        assert tracing is not None
        return tracing


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def events(path: Path) -> list[str]:
    return [line["event"] for line in lines(path)]


def test_without_a_file_nothing_is_traced() -> None:
    house = House("")
    assert house.tracing() is None
    assert house.broker.tracer is None


def test_a_trace_tells_who_writes_it_and_how_much_it_follows(tmp_path: Path) -> None:
    house = House(tmp_path / "{name}.jsonl")
    house.begun().stop()
    first, last = lines(tmp_path / "p1.jsonl")
    assert (first["event"], first["broker"], first["cluster"], first["sample"]) == ("begin", "p1", "k", 1)
    assert first["role"] == "primary"
    assert (last["event"], last["why"]) == ("end", "stopped")
    assert house.broker.tracer is None


def test_messages_are_told_with_the_time_and_the_broker(tmp_path: Path) -> None:
    house = House(tmp_path / "t")
    tracing = house.begun()
    client = Client(house.broker)
    queue = client.queue(exclusive=True)
    client.consume(queue, no_ack=True)
    client.publish(queue, b"12345")
    tracing.written()
    tracing.stop()
    _, publish, deliver, _ = lines(tmp_path / "t")
    assert publish["broker"] == deliver["broker"] == "p1"
    assert publish["id"] == deliver["id"]
    assert publish["at_us"] <= deliver["at_us"] <= deliver["written_us"]
    assert (publish["key"], publish["size"], deliver["count"]) == (queue, 5, 1)


def test_another_root_and_other_clients_are_told(tmp_path: Path) -> None:
    house = House(tmp_path / "t")
    tracing = house.begun()
    tracing.look(house.membership)
    tracing.look(house.membership)
    house.membership.root = ""
    tracing.look(house.membership)
    house.membership.client_count = lambda: 4
    tracing.look(house.membership)
    house.now_us += 100_000
    tracing.look(house.membership)
    tracing.tick(house.membership)
    house.now_us += 1_000_000
    tracing.tick(house.membership)
    tracing.stop()
    told = [(line["root"], line["clients"]) for line in lines(tmp_path / "t") if line["event"] == "status"]
    assert told == [("p1", 3), ("", 3), ("", 4), ("", 4)], "not at once again, but every second"


def test_at_its_bound_a_trace_ends_with_a_line_that_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    house = House(tmp_path / "t", max_mb=1)
    tracing = house.begun()
    client = Client(house.broker)
    key = client.queue("k" * 200)
    while house.broker.tracer is not None:
        client.publish(key, b"1")
    tracing.look(house.membership)
    tracing.tick(house.membership)
    tracing.stop()
    path = tmp_path / "t"
    for thread in threading.enumerate():
        if thread.name == "trace":
            thread.join(5)
    assert MB - 2_000 < path.stat().st_size <= MB
    assert lines(path)[-1]["event"] == "end"
    assert lines(path)[-1]["why"].startswith("full: 1 MB")
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"no more is traced: {path} has 1 MB (trace.max_mb)"
    ]


def test_a_file_that_is_full_already_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"\n" * MB)
    house = House(path, max_mb=1)
    house.tracing()
    assert house.broker.tracer is None
    assert path.stat().st_size == MB


def test_a_file_that_cannot_be_had_is_logged_and_the_broker_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path)
    assert house.tracing() is None
    assert house.broker.tracer is None
    assert f"no trace is written: {tmp_path}: Is a directory" in caplog.text


def test_a_full_disk_ends_the_trace_with_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    house = House("/dev/full")
    told = asyncio.run(_on_a_full_disk(house))
    assert told is None
    errors = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert errors == ["no more is traced: /dev/full: No space left on device"]


async def _on_a_full_disk(house: House) -> object:
    house.loop = asyncio.get_running_loop()
    tracing = house.begun()
    client = Client(house.broker)
    client.queue("work")
    client.publish("work", b"1")
    tracing.look(house.membership)
    house.now_us += STATUS_EVERY_US
    tracing.tick(house.membership)
    async with asyncio.timeout(10):
        while house.broker.tracer is not None:
            await asyncio.sleep(0.001)
    client.publish("work", b"1")
    tracing.stop()
    return house.broker.tracer
