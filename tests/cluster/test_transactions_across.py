"""Transactions of real clients at every kind of broker, over queues of the whole cluster."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.clients.pika_client import bodies, channel_closed, consume, depth, publish, unique
from tests.support.cluster.whole_cluster import (
    ROLES,
    STEADY,
    WAIT_S,
    Running,
    WholeCluster,
    one_of,
    pump,
    settle,
    whole_cluster,
)

pytestmark = pytest.mark.sockets

COMMITS = 60

every_role = pytest.mark.parametrize("role", ROLES)


def durable_queue(channel: BlockingChannel, **arguments: Any) -> str:
    spelled = {key.replace("_", "-"): value for key, value in arguments.items()}
    return str(channel.queue_declare(unique("tx"), durable=True, arguments=spelled).method.queue)


@every_role
def test_messages_are_moved_from_queue_to_queue_in_one_step(whole: WholeCluster, role: str) -> None:
    worker, watcher = whole.channel(one_of(whole, role)), whole.channel(one_of(whole, "secondary"))
    jobs, done, dead = durable_queue(worker), durable_queue(worker), durable_queue(worker)
    failing = durable_queue(worker, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    for number in range(10):
        publish(worker, jobs, f"job {number}", delivery_mode=2)
        publish(worker, failing, f"job {number}", delivery_mode=2)
    worker.tx_select()
    inbox, failed = consume(worker, jobs), consume(worker, failing)
    pump([worker], lambda: len(inbox) == len(failed) == 10)
    for each in inbox:
        publish(worker, done, each.body.decode(), delivery_mode=2)
        worker.basic_ack(each.method.delivery_tag)
    for each in failed:
        worker.basic_reject(each.method.delivery_tag, requeue=False)
    assert (depth(watcher, done), depth(watcher, dead)) == (0, 0)
    worker.tx_commit()
    assert (depth(watcher, done), depth(watcher, dead)) == (10, 10)
    worker.close()
    assert (depth(watcher, jobs), depth(watcher, failing)) == (0, 0)
    inbox = consume(watcher, done, auto_ack=True)
    pump([watcher], lambda: len(inbox) == 10)
    assert bodies(inbox) == [f"job {number}".encode() for number in range(10)]
    for queue in (jobs, done, dead, failing):
        watcher.queue_delete(queue)


@every_role
def test_a_commit_that_cannot_be_all_of_it_is_nothing(whole: WholeCluster, role: str) -> None:
    worker, watcher = whole.channel(one_of(whole, role)), whole.channel(one_of(whole, "root"))
    jobs, done = durable_queue(worker), durable_queue(worker)
    small = durable_queue(worker, x_max_length=1, x_overflow="reject-publish")
    publish(worker, jobs, "job", delivery_mode=2)
    worker.tx_select()
    method, _, _ = worker.basic_get(jobs)
    assert method is not None
    publish(worker, done, "done", delivery_mode=2)
    for _ in range(2):
        publish(worker, small, "too many", delivery_mode=2)
    worker.basic_ack(method.delivery_tag)
    with channel_closed(406, small):
        worker.tx_commit()
    pump([watcher], lambda: depth(watcher, jobs) == 1)
    assert (depth(watcher, done), depth(watcher, small)) == (0, 0)
    for queue in (jobs, done, small):
        watcher.queue_delete(queue)


@every_role
def test_a_large_transaction_is_committed_whole(whole: WholeCluster, role: str) -> None:
    worker = whole.channel(one_of(whole, role))
    one, other = durable_queue(worker), durable_queue(worker)
    worker.tx_select()
    body = "x" * 100_000
    for _ in range(20):
        publish(worker, one, body, delivery_mode=2)
        publish(worker, other, body)
    worker.tx_commit()
    assert (depth(worker, one), depth(worker, other)) == (20, 20)
    for queue in (one, other):
        worker.queue_delete(queue)


def test_a_transaction_under_way_when_the_root_is_killed_is_done_once(tmp_path: Path) -> None:
    with whole_cluster(tmp_path, *STEADY, secondaries=1) as cluster:
        workers = {name: cluster.channel(each) for name, each in cluster.brokers.items() if each is not cluster.root()}
        queues = [durable_queue(next(iter(workers.values()))) for _ in range(2)]
        begun = threading.Barrier(len(workers) + 1)

        def commit(name: str, channel: BlockingChannel) -> int:
            channel.tx_select()
            for number in range(COMMITS):
                if number == 20:
                    begun.wait(WAIT_S)
                for queue in queues:
                    publish(channel, queue, f"{name} {number}", delivery_mode=2)
                channel.tx_commit()
            return COMMITS

        running = [Running(commit, name, channel) for name, channel in workers.items()]
        begun.wait(WAIT_S)
        cluster.root().kill()
        assert [each.end(3 * WAIT_S) for each in running] == [COMMITS] * len(running)
        reader = next(iter(workers.values()))
        expected = sorted(f"{name} {number}".encode() for name in workers for number in range(COMMITS))
        for queue in queues:
            inbox = consume(reader, queue, auto_ack=True)
            pump([reader], lambda inbox=inbox: len(inbox) >= len(expected))
            settle([reader])
            assert sorted(bodies(inbox)) == expected
