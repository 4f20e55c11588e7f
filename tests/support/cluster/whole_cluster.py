"""A whole cluster of real processes, primaries and secondaries, and pika's connections to each of its brokers."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from openclust.cli.cluster.local_cluster import HOST, LocalBroker, LocalCluster, plan_cluster
from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import Received
from tests.support.cluster.running_cluster import START_WAIT_S, Primary, RunningCluster

WAIT_S = 10.0
IDLE_S = 0.02
ROLES = ("root", "backup", "secondary")
EVERY_PLACE = tuple(itertools.product(ROLES, repeat=3))
"""The roles of the brokers where a test declares, publishes and consumes."""

PROBE = b"probe"

FAULT = " ERROR "
TROUBLE = (FAULT, "link lost", "meta-bindings differ")
"""What no log of a cluster says that was left alone, whatever its clients did."""

STAY = ("redirect.mode=off", "redirect.rebalance=false")
"""Clients stay where they connect: a test chooses its brokers."""
STEADY = ("cluster.heartbeat_ms=500",)
"""A busy machine does not make another broker the root in the middle of a test."""


class SetCluster(LocalCluster, frozen=True):
    """The same, and every broker is started with these settings besides."""

    settings: tuple[str, ...] = STAY

    def command(self, broker: LocalBroker) -> list[str]:
        return [*super().command(broker), *(part for each in self.settings for part in ("--set", each))]


def plan_whole(folder: Path, primaries: int, secondaries: int, *settings: str) -> SetCluster:
    plan = plan_cluster("test", folder, primaries, secondaries)
    return SetCluster(
        plan.cluster_key, plan.folder, plan.primaries, plan.log_level, plan.secondaries, settings=(*STAY, *settings)
    )


class WholeCluster(RunningCluster):
    """Brokers by name, and one connection to each that tests share; an error that closes it costs only one test."""

    def __init__(self, plan: SetCluster) -> None:
        super().__init__(plan)
        self.plan = plan
        self.secondaries = {place.name: Primary(plan, place) for place in plan.secondaries}
        self._connections: dict[str, BlockingConnection] = {}
        # Which of a broker's processes that is a connection to: pika does not see at once that one was killed.
        self._processes: dict[str, subprocess.Popen[bytes] | None] = {}
        self._all: list[BlockingConnection] = []
        self._channels: list[BlockingChannel] = []

    @property
    def brokers(self) -> dict[str, Primary]:
        return {**self.primaries, **self.secondaries}

    def running(self) -> list[Primary]:
        return [each for each in self.brokers.values() if each.is_running]

    def followers(self) -> list[Primary]:
        """Who runs and is not the root."""
        root = self.root()
        return [each for each in self.running() if each is not root]

    def backups(self) -> list[Primary]:
        root = self.root()
        return [each for each in self.primaries.values() if each is not root and each.is_running]

    def restart(self) -> Primary:
        """Start who does not run, and wait until all serve; the root."""
        for each in self.brokers.values():
            if not each.is_running:
                each.start()
        return self.wait_until_whole()

    def wait_until_whole(self) -> Primary:
        """Every broker that runs follows the same root, and sees all the others; the root."""
        try:
            eventually(self.is_whole, START_WAIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None
        return self.root()

    def is_whole(self) -> bool:
        running = self.running()
        assert running, "all brokers have ended"
        seen = [each.ask() for each in running]
        return (
            all(
                one is not None
                and one["role"] in ("root", "backup", "secondary")
                and one["root"]
                and sum(each["online"] for each in one["brokers"]) == len(running)
                for one in seen
            )
            and len({one["root"] for one in seen if one}) == 1
        )

    def without_root(self) -> list[Primary]:
        """Kill the root and a backup: the three that are left have no root, and know it."""
        root, backup = self.root(), self.backups()[0]
        root.kill()
        backup.kill()
        left = self.running()
        eventually(lambda: all((seen := each.ask()) is not None and not seen["root"] for each in left))
        return left

    # -- clients

    def connect(self, broker: Primary, **parameters: Any) -> BlockingConnection:
        """A connection of the test's own; `parameters` replace pika's."""
        settings = pika.ConnectionParameters(HOST, broker.place.client_port, heartbeat=0)
        settings.socket_timeout = settings.stack_timeout = WAIT_S
        # A broker that blocks for ever makes a test fail, not hang.
        settings.blocked_connection_timeout = 2 * WAIT_S
        for name, value in parameters.items():
            setattr(settings, name, value)
        connection = BlockingConnection(settings)
        self._all.append(connection)
        return connection

    def connect_like(self, channel: BlockingChannel, **parameters: Any) -> BlockingConnection:
        """Another connection to the broker of a shared one's channel."""
        name = next(name for name, each in self._connections.items() if each is channel.connection)
        return self.connect(self.brokers[name], **parameters)

    def channel(self, broker: Primary) -> BlockingChannel:
        """A channel of the broker's shared connection, closed at the end of the test."""
        connection = self._connections.get(broker.name)
        if connection is None or connection.is_closed or broker.process is not self._processes[broker.name]:
            connection = self._connections[broker.name] = self.connect(broker)
            self._processes[broker.name] = broker.process
        channel = connection.channel()
        self._channels.append(channel)
        return channel

    def forget_channels(self) -> None:
        channels, self._channels = self._channels, []
        for channel in channels:
            if channel.is_open and channel.connection.is_open:
                with contextlib.suppress(Exception):
                    channel.close()

    def close(self) -> None:
        for connection in self._all:
            with contextlib.suppress(Exception):
                connection.close()

    def api(self, broker: Primary, method: str, path: str, body: object = None) -> Any:
        """A request to a broker's HTTP API, as guest; the decoded answer, None where it is empty."""
        request = urllib.request.Request(
            f"{broker.place.api_url}/api/{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=WAIT_S) as response:
            text = response.read()
        return json.loads(text) if text else None

    def definitions(self, broker: Primary) -> dict[str, list[Any]]:
        """What a broker lists of what all brokers share."""

        def key(row: dict[str, Any]) -> str:
            return json.dumps({name: row.get(name) for name in ("vhost", "name", "type", "durable", "arguments")})

        queues = [each for each in self.api(broker, "GET", "queues") if not each["exclusive"]]
        rows = {kind: self.api(broker, "GET", kind) for kind in ("exchanges", "policies", "vhosts", "users")}
        return {kind: sorted(map(key, found)) for kind, found in {**rows, "queues": queues}.items()}

    def check_definitions(self) -> None:
        """All brokers that run have the same."""

        def differing() -> list[str]:
            found = {each.name: self.definitions(each) for each in self.running()}
            root = found[self.root().name]
            return [f"{name} differs in {kind}" for name in found for kind in root if found[name][kind] != root[kind]]

        eventually(lambda: not differing())

    def check_logs(self, *signs: str) -> None:
        """No broker has told of such trouble."""
        logs = {name: each.log.read_text(errors="replace") for name, each in self.brokers.items()}
        lines = [f"{name}: {line}" for name, text in logs.items() for line in text.splitlines()]
        troubles = [line for line in lines if any(sign in line for sign in signs)]
        assert not troubles, "\n".join(troubles[:20])

    def logs(self) -> str:
        """The ends of all logs, for a failure."""
        parts = []
        for name, each in self.brokers.items():
            text = each.log.read_text(errors="replace") if each.log.exists() else ""
            parts.append(f"--- {name}\n{text[-4_000:]}")
        return "\n".join(parts)


def pump(channels: Sequence[BlockingChannel], condition: Callable[[], object], within_s: float = WAIT_S) -> None:
    """Process what comes in on the channels' connections until `condition` holds."""
    connections = list({id(each.connection): each.connection for each in channels}.values())
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not true within {within_s} s")
        for connection in connections:
            connection.process_data_events(IDLE_S / len(connections))


def settle(channels: Sequence[BlockingChannel], for_s: float = 0.05) -> None:
    """Take what still comes, so that what must not come would be seen."""
    end = time.monotonic() + for_s
    for connection in {id(each.connection): each.connection for each in channels}.values():
        connection.process_data_events(0)
    while time.monotonic() < end:
        for each in channels:
            each.connection.process_data_events(0.01)


def wait_until_wanted(
    publisher: BlockingChannel,
    exchange: str,
    routing_key: str,
    subscribers: Mapping[BlockingChannel, list[Received]],
    **properties: Any,
) -> None:
    """Meta-bindings are told asynchronously: publish probes until each inbox has one. `letters` leaves them out."""

    def all_have_one() -> bool:
        if all(subscribers.values()):
            return True
        publisher.basic_publish(exchange, routing_key, PROBE, pika.BasicProperties(**properties))
        return False

    pump([publisher, *subscribers], all_have_one)


def letters(inbox: list[Received]) -> list[bytes]:
    """The bodies of all that is no probe."""
    return [each.body for each in inbox if each.body != PROBE]


def wait_for_letters(channel: BlockingChannel, inbox: list[Received], *expected: bytes) -> None:
    """Wait until a consumer has had so many, and see that these are they."""
    pump([channel], lambda: len(letters(inbox)) >= len(expected))
    assert letters(inbox) == list(expected)


@contextlib.contextmanager
def whole_cluster(folder: Path, *settings: str, primaries: int = 3, secondaries: int = 2) -> Iterator[WholeCluster]:
    """A cluster of processes of which all serve. They are ended, whatever happened to them."""
    plan = plan_whole(folder, primaries, secondaries, *settings)
    plan.write()
    cluster = WholeCluster(plan)
    try:
        for each in cluster.brokers.values():
            each.start()
        cluster.wait_until_whole()
        yield cluster
    finally:
        cluster.close()
        for each in cluster.brokers.values():
            each.stop()


class Running(threading.Thread):
    """Something that waits, done in another thread; `join` gives what came of it."""

    def __init__(self, act: Any, *arguments: Any) -> None:
        super().__init__(daemon=True)
        self._act, self._arguments = act, arguments
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._act(*self._arguments)
        except BaseException as error:
            self.error = error

    def end(self, within_s: float = 10.0) -> Any:
        self.join(within_s)
        assert not self.is_alive(), "it still waits"
        if self.error is not None:
            raise self.error
        return self.result


class Place:
    """The channels of a test that declares, publishes and consumes at brokers of certain roles.

    Where two of them have the same role they are at two brokers, as far as there are two.
    """

    def __init__(self, declarer: BlockingChannel, publisher: BlockingChannel, consumer: BlockingChannel) -> None:
        self.declarer, self.publisher, self.consumer = declarer, publisher, consumer


def place(cluster: WholeCluster, roles: Sequence[str]) -> Place:
    root = cluster.root()
    brokers = {
        "root": (root, root, root),
        "backup": _in_turn(cluster.others(root)),
        "secondary": _in_turn(list(cluster.secondaries.values())),
    }
    return Place(*(cluster.channel(brokers[role][part]) for part, role in enumerate(roles)))


def one_of(cluster: WholeCluster, role: str) -> Primary:
    """A broker of that role; of backups and secondaries always the same."""
    root = cluster.root()
    if role == "root":
        return root
    return cluster.others(root)[0] if role == "backup" else next(iter(cluster.secondaries.values()))


def _in_turn(brokers: list[Primary]) -> tuple[Primary, Primary, Primary]:
    """The publisher is at the second."""
    return brokers[0], brokers[1], brokers[0]
