"""Celery with real worker processes: what a Django shop does all day, on this broker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError

from tests.support.clients.broker_process import Broker
from tests.support.clients.celery_app import make_app
from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import Client, unique
from tests.support.paths import ROOT

pytestmark = pytest.mark.sockets

WAIT_S = 15


class Worker:
    """A worker process and the application that talks to it."""

    def __init__(self, broker: Broker, folder: Path, backend: str, queue_type: str, concurrency: int) -> None:
        self.prefix = unique("celery")
        self.app: Celery = make_app(broker.url, backend, queue_type, self.prefix)
        self.log = folder / "worker.log"
        environment = {
            "CELERY_TEST_BROKER": broker.url,
            "CELERY_TEST_BACKEND": backend,
            "CELERY_TEST_QUEUE_TYPE": queue_type,
            "CELERY_TEST_PREFIX": self.prefix,
        }
        command = [
            *(sys.executable, "-m", "celery", "-A", "tests.support.clients.celery_app", "worker"),
            *("--pool", "prefork", "--concurrency", str(concurrency), "--loglevel", "INFO"),
            *("--hostname", f"{self.prefix}@test"),
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | environment
            )

    def wait_until_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, self.log_text()
            return " ready." in self.log_text()

        eventually(ready, within_s=20, every_s=0.1)

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, task: str, *arguments: Any, **options: Any) -> Any:
        return self.app.send_task(task, arguments, **options)

    def signature(self, task: str, *arguments: Any) -> Any:
        return self.app.signature(task, arguments)

    def wait_for_the_end(self) -> None:
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.app.close()


@pytest.fixture(scope="module")
def workers(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Worker]]:
    """One for every way to keep results, started at the same time."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("rpc", "file", "quorum")}
    results = folders["file"] / "results"
    results.mkdir()
    workers = {
        "rpc": Worker(broker, folders["rpc"], "rpc://", "classic", concurrency=1),
        "file": Worker(broker, folders["file"], f"file://{results}", "classic", concurrency=2),
        "quorum": Worker(broker, folders["quorum"], "rpc://", "quorum", concurrency=1),
    }
    try:
        for worker in workers.values():
            worker.wait_until_ready()
        yield workers
    finally:
        for worker in workers.values():
            worker.process.send_signal(signal.SIGTERM)
        for worker in workers.values():
            worker.wait_for_the_end()
        remove_what_stays(broker, workers)


def remove_what_stays(broker: Broker, workers: dict[str, Worker]) -> None:
    client = Client(broker)
    channel = client.channel()
    for worker in workers.values():
        with contextlib.suppress(Exception):
            channel.queue_delete(worker.prefix)
            channel.exchange_delete(worker.prefix)
    client.close()


@pytest.fixture(params=["rpc", "file", "quorum"])
def any_worker(request: pytest.FixtureRequest, workers: dict[str, Worker]) -> Worker:
    return workers[request.param]


@pytest.fixture
def rpc(workers: dict[str, Worker]) -> Worker:
    return workers["rpc"]


@pytest.fixture
def file(workers: dict[str, Worker]) -> Worker:
    return workers["file"]


def test_a_task_returns_its_result(any_worker: Worker) -> None:
    assert any_worker.send("add", 2, 3).get(timeout=WAIT_S) == 5


def test_a_failing_task_raises_at_the_caller(any_worker: Worker) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        any_worker.send("fail").get(timeout=WAIT_S)


def test_a_hundred_tasks_return_their_own_results(rpc: Worker) -> None:
    results = [rpc.send("add", number, number) for number in range(100)]
    assert [result.get(timeout=WAIT_S) for result in results] == [2 * number for number in range(100)]


def test_a_task_is_retried(any_worker: Worker) -> None:
    assert any_worker.send("flaky", 3).get(timeout=WAIT_S) == 3


def test_a_countdown_delays_a_task(any_worker: Worker) -> None:
    # On quorum queues Celery lets the broker wait: topic exchanges, TTLs and dead letters in a cascade.
    started = time.time()
    assert any_worker.send("when", countdown=1.2).get(timeout=WAIT_S) >= started + 1


def test_an_eta_delays_a_task(rpc: Worker) -> None:
    eta = datetime.now(UTC) + timedelta(seconds=0.8)
    assert rpc.send("when", eta=eta).get(timeout=WAIT_S) >= eta.timestamp()


def test_a_task_past_its_expiry_does_not_run(rpc: Worker) -> None:
    late = rpc.send("add", 1, 1, countdown=0.6, expires=0.2)
    with pytest.raises(TaskRevokedError):
        late.get(timeout=WAIT_S)


def test_a_rejected_task_comes_again_as_redelivered(rpc: Worker) -> None:
    assert rpc.send("reject_once").get(timeout=WAIT_S) is True


def test_a_group(rpc: Worker) -> None:
    results = group((rpc.signature("add", number, 1) for number in range(10)), app=rpc.app).apply_async()
    assert sorted(results.get(timeout=WAIT_S)) == list(range(1, 11))


def test_a_chain(rpc: Worker) -> None:
    result = chain(rpc.signature("add", 1, 2), rpc.signature("add", 3), rpc.signature("add", 4)).apply_async()
    assert result.get(timeout=WAIT_S) == 10


def test_a_chord(file: Worker) -> None:
    # Not with rpc:// results: Celery has no chords there.
    header = [file.signature("add", number, number) for number in range(10)]
    assert chord(header)(file.signature("total")).get(timeout=WAIT_S) == 90


def test_priorities_decide_who_is_next(rpc: Worker, tmp_path: Path) -> None:
    order = tmp_path / "order"
    rpc.send("sleep", 0.7)
    rpc.send("sleep", 0.01)  # the one that is prefetched
    time.sleep(0.2)
    results = [rpc.send("note", str(order), str(priority), priority=priority) for priority in (1, 9, 5, 9, 0)]
    for result in results:
        result.get(timeout=WAIT_S)
    assert order.read_text().split() == ["9", "9", "5", "1", "0"]


def test_a_large_argument(rpc: Worker) -> None:
    assert rpc.send("size", "x" * 3_000_000).get(timeout=WAIT_S) == 3_000_000


def test_ping_is_answered(any_worker: Worker) -> None:
    answers = any_worker.app.control.ping(timeout=5, limit=1)
    assert answers == [{f"{any_worker.prefix}@test": {"ok": "pong"}}]


def test_inspect_sees_what_runs_and_what_waits(rpc: Worker) -> None:
    inspect = rpc.app.control.inspect(timeout=5, limit=1)
    name = f"{rpc.prefix}@test"
    running = rpc.send("sleep", 1.0)
    waiting = rpc.send("add", 1, 1, countdown=30)
    eventually(lambda: running.id in [task["id"] for task in (inspect.active() or {}).get(name, [])])
    eventually(lambda: waiting.id in [task["request"]["id"] for task in (inspect.scheduled() or {}).get(name, [])])
    assert rpc.prefix in [queue["name"] for queue in inspect.active_queues()[name]]
    assert "add" in inspect.registered()[name]
    assert inspect.stats()[name]["broker"]["transport"] == "amqp"
    waiting.revoke()
    assert running.get(timeout=WAIT_S) == "slept"


def test_a_revoked_task_does_not_run(rpc: Worker) -> None:
    result = rpc.send("add", 1, 1, countdown=0.8)
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WAIT_S)


def test_a_running_task_can_be_ended(rpc: Worker) -> None:
    inspect = rpc.app.control.inspect(timeout=5, limit=1)
    name = f"{rpc.prefix}@test"
    result = rpc.send("sleep", 60)
    eventually(lambda: result.id in [task["id"] for task in (inspect.active() or {}).get(name, [])])
    result.revoke(terminate=True)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WAIT_S)
    assert rpc.send("add", 1, 1).get(timeout=WAIT_S) == 2


def test_consumers_can_be_added_and_cancelled_from_afar(file: Worker, broker: Broker) -> None:
    queue, control, answer = unique("celery"), file.app.control, {"reply": True, "timeout": 5, "limit": 1}
    control.add_consumer(queue, options={"auto_delete": True}, **answer)
    inspect = control.inspect(timeout=5, limit=1)
    # The worker answers before it has done it.
    eventually(lambda: queue in [found["name"] for found in inspect.active_queues()[f"{file.prefix}@test"]])
    assert file.send("add", 4, 4, exchange=queue, routing_key=queue).get(timeout=WAIT_S) == 8
    assert "ok" in next(iter(control.cancel_consumer(queue, **answer)[0].values()))


def test_events_tell_what_a_task_went_through(rpc: Worker) -> None:
    seen: list[tuple[str, str]] = []

    def listen() -> None:
        with rpc.app.connection() as connection:
            receiver = rpc.app.events.Receiver(connection, handlers={"*": remember})
            for _ in receiver.consume(limit=None, timeout=5):
                if seen[-1][0] == "task-succeeded":
                    return

    def remember(event: dict[str, Any]) -> None:
        seen.append((event["type"], event.get("uuid", "")))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    eventually(lambda: seen)  # workers greet every new listener
    result = rpc.send("add", 1, 1)
    assert result.get(timeout=WAIT_S) == 2
    thread.join(10)
    kinds = [kind for kind, uuid in seen if uuid == result.id]
    assert {"task-received", "task-started", "task-succeeded"} <= set(kinds)
