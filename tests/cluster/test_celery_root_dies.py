"""What docs/celery.md promises with its settings: workers and senders go on while the root of the cluster is killed.

One cluster, and one kill of its root, for all tests of this file: what came of it is looked at by each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.clients.deadline import eventually
from tests.support.cluster.celery_cluster_app import SETTINGS, make_app, settings_of_the_page
from tests.support.cluster.celery_scene import LATER_TASKS, PROCESSES, Scene, Worker, played, urls
from tests.support.cluster.running_cluster import Primary
from tests.support.cluster.whole_cluster import STEADY, WholeCluster, whole_cluster

pytestmark = pytest.mark.sockets

PREFETCH_MAX = 3
GREEDY_TASKS = 10
BOUNDED = GREEDY_TASKS - PREFETCH_MAX, PREFETCH_MAX
"""How many tasks wait, and how many the worker has."""


class Outcome(NamedTuple):
    """After the kill, while the killed broker is still dead. `greedy` asks for forty tasks, `late` came since."""

    cluster: WholeCluster
    killed: Primary
    scenes: dict[str, Scene]
    greedy: Worker
    late: Worker


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    folder = tmp_path_factory.mktemp("celery")
    with whole_cluster(folder / "cluster", *STEADY, secondaries=0) as cluster:
        root = cluster.root()
        others = cluster.others(root)
        policy = {"pattern": "^greedy$", "apply-to": "queues", "definition": {"consumer-prefetch-max": PREFETCH_MAX}}
        cluster.api(root, "PUT", "policies/%2F/greedy", policy)
        workers = [Worker("greedy", folder, urls(*others), "classic", "-Q", "greedy", "--prefetch-multiplier", "10")]

        def keep_greedy_busy() -> None:
            workers[0].wait_until_ready()
            # kombu has one pool for all that begin with the same URL, so this has the others too.
            with make_app(urls(root, *others), "classic") as app:
                for number in range(GREEDY_TASKS):
                    app.send_task("note_twice", (f"greedy-{number}", 600), queue="greedy", ignore_result=True)
            eventually(lambda: waiting(cluster, "greedy") == BOUNDED, within_s=40)

        try:
            with played(cluster, folder, ["classic", "quorum"], keep_greedy_busy) as scenes:
                workers.append(Worker("late", folder, urls(root, *others), "classic"))
                yield Outcome(cluster, root, scenes, *workers)
        finally:
            for worker in workers:
                worker.end()
            # The connections of this process are read by nobody any more: a clean stop would wait for them.
            for broker in cluster.running():
                broker.kill()


def waiting(cluster: WholeCluster, name: str) -> tuple[int, int]:
    """How many messages of a queue wait, and how many are delivered and not acknowledged, by the root."""
    rows: list[dict[str, Any]] = cluster.api(cluster.root(), "GET", "queues")
    row = next((row for row in rows if row["name"] == name), {})
    return row.get("messages_ready", 0), row.get("messages_unacknowledged", 0)


@pytest.fixture(params=["classic", "quorum"])
def scene(outcome: Outcome, request: pytest.FixtureRequest) -> Scene:
    return outcome.scenes[request.param]


def test_no_send_raises_while_there_is_no_root(scene: Scene) -> None:
    """By the list of brokers and the retry policy."""
    assert not scene.errors


def test_every_task_that_was_sent_runs(scene: Scene) -> None:
    """By confirms, and acknowledgements after the work."""
    assert len(scene.sent) > 20 and not scene.lost()


def test_every_result_comes(scene: Scene) -> None:
    assert scene.sent.keys() == scene.came


def test_a_long_task_begins_anew_and_is_cancelled_where_its_broker_died(scene: Scene) -> None:
    assert set(scene.times("long", "ends")) == {"long-0-ends", "long-1-ends"}
    near = [run for run in scene.runs("long") if run.worker == scene.near.name]
    begun_before = [run for run in near if run.at < scene.killed_at]
    begun_after = [run for run in near if run.name.endswith("begins") and run.at > scene.killed_at]
    assert begun_before and sum(run.name.endswith("ends") for run in near) <= len(begun_after)


def test_delayed_tasks_run_when_they_are_due_and_not_before(scene: Scene) -> None:
    runs = scene.runs("later")
    assert {run.name for run in runs} == {f"later-{number}" for number in range(LATER_TASKS)}
    assert min(run.at for run in runs) >= scene.due_at - 0.5
    assert scene.due_at > scene.killed_at, "the root died before they were due"


def test_delayed_tasks_of_quorum_queues_wait_in_the_broker(outcome: Outcome) -> None:
    names = {queue["name"] for queue in outcome.cluster.api(outcome.cluster.root(), "GET", "queues")}
    assert {f"celery_delayed_{level}" for level in range(28)} <= names
    app = outcome.scenes["quorum"].app
    app.send_task("note", ("much-later",), countdown=600)
    # 512 of the 600 s are waited for here.
    eventually(lambda: waiting(outcome.cluster, "celery_delayed_9")[0])


@pytest.mark.parametrize("which", ["near", "far"])
def test_workers_have_the_prefetch_and_the_heartbeat_that_they_are_to_have(outcome: Outcome, which: str) -> None:
    scene = outcome.scenes["classic"]
    worker = getattr(scene, which)
    stats = eventually(lambda: scene.app.control.inspect([worker.name], timeout=2).stats(), within_s=30)
    assert (
        stats[worker.name]["prefetch_count"] == PROCESSES * settings_of_the_page(SETTINGS)["worker_prefetch_multiplier"]
    )
    assert stats[worker.name]["broker"]["heartbeat"] == 10


def test_a_policy_bounds_the_prefetch_of_a_worker_that_asks_for_more_at_the_next_root_too(outcome: Outcome) -> None:
    assert outcome.cluster.root() is not outcome.killed
    ready, held = waiting(outcome.cluster, "greedy")
    assert ready + held == GREEDY_TASKS and held <= PREFETCH_MAX
    # It has acknowledged none, so it gets no more, of whatever root.
    assert outcome.greedy.log_text().count(" received") == PREFETCH_MAX


def test_a_worker_starts_whose_first_broker_is_dead(outcome: Outcome) -> None:
    outcome.late.wait_until_ready()
    assert "Connection refused" in outcome.late.log_text()
