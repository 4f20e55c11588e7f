"""What the logs of real brokers say of each other: who is gone, how, and who asked for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from openclust.cli.cluster.local_cluster import LocalBroker, plan_cluster
from tests.support.clients.broker_process import free_port
from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import Primary, RunningCluster, run_command

pytestmark = pytest.mark.sockets

STOPPED_S = 1.0


class Logged(RunningCluster):
    """Three primaries and a secondary, with what each has logged since the last question."""

    def __init__(self, folder: Path) -> None:
        self.plan = plan_cluster("test", folder, 3, 1)
        self.plan.write()
        super().__init__(self.plan)
        self.secondary = Primary(self.plan, self.plan.secondaries[0])
        self._read: dict[str, int] = {}

    @property
    def every(self) -> list[Primary]:
        return [*self.primaries.values(), self.secondary]

    def _is_settled(self) -> bool:
        seen = [each.ask() for each in self.every]
        roots = {one["root"] for one in seen if one is not None}
        everybody = all(one is not None and sum(each["online"] for each in one["brokers"]) == 4 for one in seen)
        return everybody and len(roots) == 1 and None not in roots

    def new_lines(self, broker: Primary) -> str:
        return broker.log.read_text()[self._read.get(broker.name, 0) :]

    def forget(self) -> None:
        for each in self.every:
            self._read[each.name] = len(each.log.read_text()) if each.log.exists() else 0

    def await_line(self, broker: Primary, line: str) -> None:
        """Wait until it has logged this."""
        try:
            eventually(lambda: line in self.new_lines(broker))
        except AssertionError:
            raise AssertionError(f"{broker.name} did not say {line!r}:\n{self.new_lines(broker)}") from None


class Stray(Primary):
    """Another secondary, that looks for its primaries where it is told to."""

    def __init__(self, cluster: Logged, join: str) -> None:
        ports = (free_port(), free_port(), free_port())
        super().__init__(cluster.plan, LocalBroker(f"s{ports[0]}", *ports))
        command = cluster.plan.command(self.place)
        command[command.index("--join") + 1] = join
        self.start(command)


def get(place: LocalBroker, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", place.http_port, timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    running = Logged(tmp_path_factory.mktemp("logs"))
    try:
        for each in running.every:
            each.start()
        yield running
    finally:
        for each in running.every:
            each.stop()


@pytest.fixture(autouse=True)
def settled(cluster: Logged) -> None:
    cluster.wait_until_settled()
    cluster.forget()


def test_a_secondary_that_is_killed_is_named_by_every_primary(cluster: Logged) -> None:
    cluster.secondary.kill()
    for each in cluster.primaries.values():
        cluster.await_line(each, "WARN  server: lost secondary s1: its link to this broker has ended")
    cluster.secondary.start()


def test_a_root_that_was_stopped_for_a_while_says_that_it_stood_still(cluster: Logged) -> None:
    root = cluster.root()
    root.send(signal.SIGSTOP)
    time.sleep(STOPPED_S)
    root.send(signal.SIGCONT)
    cluster.await_line(root, "this process stood still for 1.")
    assert "primaries hear it" not in cluster.new_lines(root)
    for each in cluster.others(root):
        cluster.await_line(each, f"the root {root.name} of epoch")
        assert "is not heard any more: nothing came for" in cluster.new_lines(each)


@pytest.mark.parametrize("port", ["client_port", "http_port"])
def test_a_secondary_that_joins_by_a_wrong_port_is_told_the_right_one(cluster: Logged, port: str) -> None:
    place = cluster.primaries["p1"].place
    stray = Stray(cluster, f"127.0.0.1:{getattr(place, port)}")
    try:
        cluster.await_line(stray, f"peers are at 127.0.0.1:{place.peer_port} address=127.0.0.1:{getattr(place, port)}")
        assert cluster.new_lines(stray).count("wrong port: ") <= 2, "the line, and why it is not ready"
    finally:
        stray.stop()


def test_a_secondary_that_reaches_no_primary_is_alive_and_not_ready_and_refuses_clients(cluster: Logged) -> None:
    nobody = free_port()
    stray = Stray(cluster, f"127.0.0.1:{nobody}")
    try:
        cluster.await_line(stray, "INFO  server: started, and not ready yet: this secondary has reached no primary")
        missing = f"this secondary has reached no primary of its cluster yet (127.0.0.1:{nobody}: connection refused)"
        assert get(stray.place, "/api/health") == (200, {"status": "ok"})
        status, said = get(stray.place, "/api/ready")
        assert (status, said["is_ready"], said["not_ready"]) == (
            503,
            False,
            [{"check": "primaries", "reason": missing}],
        )
        shown = run_command("status", "--url", stray.place.http_url)
        assert f"not ready for clients:\n  {missing}\n" in shown.stdout
        began = time.monotonic()
        with pytest.raises(pika.exceptions.AMQPConnectionError, match=r"320.* reached no primary of its cluster"):
            pika.BlockingConnection(pika.URLParameters(stray.place.amqp_url))
        assert time.monotonic() - began < 5
        assert "openclust is ready" not in cluster.new_lines(stray)
    finally:
        stray.stop()


def test_every_broker_of_the_cluster_is_ready_and_says_so_once(cluster: Logged) -> None:
    for each in cluster.every:
        status, said = eventually(lambda place=each.place: (one := get(place, "/api/ready"))[0] == 200 and one)  # type: ignore[misc]
        assert (status, said["name"], said["peers"]) == (200, each.name, f"127.0.0.1:{each.place.peer_port}")


def test_of_a_step_down_all_say_why_and_who_asked_for_it(cluster: Logged) -> None:
    for _ in range(3):
        root = cluster.root()
        done = run_command("step-down", "--url", root.place.http_url, "--reason", "new kernel")
        if done.returncode == 0:
            break
        # On a busy machine another may have become root in between: then it is asked.
        assert "is not the root" in done.stderr
    assert done.returncode == 0, done.stderr
    for each in [*cluster.others(root), cluster.secondary]:
        cluster.await_line(each, "has given up its place: new kernel (asked by user 'guest')")
        assert "WARN" not in cluster.new_lines(each)


def test_a_broker_that_is_stopped_is_told_apart_from_one_that_has_crashed(cluster: Logged) -> None:
    root = cluster.root()
    root.stop()
    for each in [*cluster.others(root), cluster.secondary]:
        cluster.await_line(each, f"{root.name} has stopped: asked by SIGTERM")
        cluster.await_line(each, "has given up its place: this broker stops (asked by SIGTERM)")
        assert "WARN" not in cluster.new_lines(each), cluster.new_lines(each)
    assert "stopping: asked by SIGTERM" in cluster.new_lines(root)
    assert "not heard any more" not in cluster.new_lines(root)
    root.start()
