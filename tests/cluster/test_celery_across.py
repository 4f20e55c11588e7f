"""Celery over a cluster: a worker at one broker, tasks sent and results read at another."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from celery import Celery, chain, group
from celery.exceptions import TaskRevokedError

from openclust.cli.cluster.local_cluster import HOST
from tests.clients.test_celery import Worker
from tests.support.clients.broker_process import Broker
from tests.support.clients.celery_app import make_app
from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import Primary
from tests.support.cluster.whole_cluster import WholeCluster, one_of

pytestmark = pytest.mark.sockets

WAIT_S = 15


def at(broker: Primary) -> Broker:
    return Broker(HOST, broker.place.client_port)


class Far:
    """A worker at a secondary, and an application at a backup that sends it tasks."""

    def __init__(self, whole: WholeCluster, folder: Path, queue_type: str) -> None:
        self.worker = Worker(at(one_of(whole, "secondary")), folder, "rpc://", queue_type, concurrency=2)
        self.app: Celery = make_app(at(one_of(whole, "backup")).url, "rpc://", queue_type, self.worker.prefix)

    def end(self) -> None:
        self.worker.process.send_signal(signal.SIGTERM)
        self.worker.wait_for_the_end()
        self.app.close()


@pytest.fixture(scope="module", params=["classic", "quorum"])
def far(
    request: pytest.FixtureRequest, lasting_cluster: WholeCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Far]:
    far = Far(lasting_cluster, tmp_path_factory.mktemp("worker"), request.param)
    try:
        far.worker.wait_until_ready()
        yield far
    finally:
        far.end()


def test_a_task_sent_at_a_backup_runs_at_a_secondary_and_returns_its_result(far: Far) -> None:
    assert far.app.send_task("add", (2, 3)).get(timeout=WAIT_S) == 5


def test_a_failure_is_raised_where_the_task_was_sent(far: Far) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        far.app.send_task("fail").get(timeout=WAIT_S)


def test_a_hundred_tasks_return_their_own_results(far: Far) -> None:
    results = [far.app.send_task("add", (number, number)) for number in range(100)]
    assert [result.get(timeout=WAIT_S) for result in results] == [2 * number for number in range(100)]


def test_a_task_is_retried(far: Far) -> None:
    assert far.app.send_task("flaky", (3,)).get(timeout=WAIT_S) == 3


def test_an_eta_and_a_countdown_delay_a_task(far: Far) -> None:
    # On quorum queues Celery lets the broker wait: topic exchanges, TTLs and dead letters in a cascade.
    eta = datetime.now(UTC) + timedelta(seconds=1.2)
    by_eta = far.app.send_task("when", eta=eta)
    began = time.time()
    by_countdown = far.app.send_task("when", countdown=1.2)
    assert by_eta.get(timeout=WAIT_S) >= eta.timestamp() - 0.2
    assert by_countdown.get(timeout=WAIT_S) >= began + 1


def test_a_rejected_task_comes_again_as_redelivered(far: Far) -> None:
    assert far.app.send_task("reject_once").get(timeout=WAIT_S) is True


def test_groups_and_chains(far: Far) -> None:
    def signature(*arguments: int) -> object:
        return far.app.signature("add", arguments)

    results = group((signature(number, 1) for number in range(10)), app=far.app).apply_async()
    assert sorted(results.get(timeout=WAIT_S)) == list(range(1, 11))
    assert chain(signature(1, 2), signature(3), signature(4)).apply_async().get(timeout=WAIT_S) == 10


def test_the_worker_answers_a_ping_and_tells_what_waits(far: Far) -> None:
    name = f"{far.worker.prefix}@test"
    assert far.app.control.ping(timeout=5, limit=1) == [{name: {"ok": "pong"}}]
    queues = far.app.control.inspect(timeout=5, limit=1).active_queues()
    assert far.worker.prefix in [queue["name"] for queue in queues[name]]


def test_a_task_is_revoked_from_another_broker(far: Far) -> None:
    result = far.app.send_task("add", (1, 1), countdown=1.0)
    eventually(lambda: far.app.control.ping(timeout=2, limit=1))
    result.revoke()
    with pytest.raises(TaskRevokedError):
        result.get(timeout=WAIT_S)
