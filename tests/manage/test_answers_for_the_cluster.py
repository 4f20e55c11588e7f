"""Whichever broker is asked answers for the whole cluster: real processes, three primaries and two secondaries."""

from __future__ import annotations

import json
import signal
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import Primary, RunningCluster, running_cluster

pytestmark = pytest.mark.sockets

LOGIN = "Basic " + b64encode(b"guest:guest").decode()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A private queue with a consumer at each broker, a shared queue with two messages, all brokers in touch."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, primaries=3, secondaries=2) as running, ExitStack() as stack:
        for name, broker in running.brokers.items():
            channel = eventually(lambda broker=broker: _connect(broker)).channel()
            stack.callback(channel.connection.close)
            channel.queue_declare(f"private-{name}", exclusive=True, auto_delete=True)
            channel.basic_consume(f"private-{name}", lambda *_: None, consumer_tag=name)
            if name == "s1":
                channel.queue_declare("work", durable=True)
                channel.confirm_delivery()
                for _ in range(2):
                    channel.basic_publish("", "work", b"x")
        yield running


def _connect(broker: Primary) -> pika.BlockingConnection | None:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.place.client_port, heartbeat=0, client_properties={"connection_name": broker.name}
    )
    try:
        return pika.BlockingConnection(parameters)
    except pika.exceptions.AMQPConnectionError:
        return None


def ask(broker: Primary, path: str) -> tuple[Any, str]:
    """The answer and who is missing in it."""
    connection = HTTPConnection("127.0.0.1", broker.place.http_port, timeout=10)
    connection.request("GET", path, headers={"Authorization": LOGIN})
    response = connection.getresponse()
    found = json.loads(response.read())
    connection.close()
    assert response.status == 200, found
    return found, response.headers.get("X-Openclust-Missing", "")


def test_every_broker_shows_the_queues_of_all(cluster: RunningCluster) -> None:
    root = cluster.root().name
    wanted = {(f"private-{name}", name, 0) for name in cluster.brokers} | {("work", root, 2)}
    for broker in cluster.brokers.values():
        rows, missing = ask(broker, "/api/queues")
        assert missing == ""
        assert {(row["name"], row["node"], row["messages"]) for row in rows} == wanted


@pytest.mark.parametrize("kind", ["connections", "channels", "consumers"])
def test_every_broker_shows_the_clients_of_all(cluster: RunningCluster, kind: str) -> None:
    shown = [ask(broker, f"/api/{kind}") for broker in cluster.brokers.values()]
    assert all(rows == shown[0][0] and not missing for rows, missing in shown)
    assert len(shown[0][0]) == 5


def test_one_object_is_found_wherever_it_is(cluster: RunningCluster) -> None:
    for broker in cluster.brokers.values():
        for name in cluster.brokers:
            found, _ = ask(broker, f"/api/queues/%2F/private-{name}")
            assert (found["name"], found["node"]) == (f"private-{name}", name)


def test_pages_are_cut_from_the_order_of_all_brokers(cluster: RunningCluster) -> None:
    page, _ = ask(cluster.brokers["s2"], "/api/queues?page=1&page_size=2&sort=messages&sort_reverse=true&columns=name")
    assert page["items"][0] == {"name": "work"}
    assert (page["total_count"], page["page_count"], len(page["items"])) == (6, 3, 2)


def test_a_broker_that_stands_still_is_named_and_the_others_are_shown(cluster: RunningCluster) -> None:
    root = cluster.root()
    stopped = next(each for each in cluster.primaries.values() if each is not root)
    stopped.send(signal.SIGSTOP)
    try:
        for broker in cluster.brokers.values():
            if broker is stopped:
                continue
            began = time.monotonic()
            rows, missing = ask(broker, "/api/queues")
            assert time.monotonic() - began < 2
            assert missing == stopped.name
            assert {row["name"] for row in rows} == {f"private-{n}" for n in cluster.brokers if n != stopped.name} | {
                "work"
            }
    finally:
        stopped.send(signal.SIGCONT)
    cluster.wait_until_settled()
