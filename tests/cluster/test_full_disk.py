"""Real brokers on small disks that fill up: publishers wait or go elsewhere, and nothing that was confirmed is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection

from tests.support.clients.broker_process import Broker, running_broker, stop
from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import Primary, RunningCluster, running_cluster

pytestmark = pytest.mark.sockets

DISK_BYTES = 16 << 20
BODY_BYTES = 10_000
QUEUE = "lasting"
FULL = "No space left on device"
WITHIN_S = 10.0
LIMITS = "[limits]\nunwritten_bytes_max = 200_000\n"


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of its own, where one may be mounted."""
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> Path:
    """A file that takes all the room there is. The broker may take some of it in between: until none is left."""
    ballast = place / "ballast"
    with ballast.open("ab") as file:
        while (room := os.statvfs(place)).f_bavail:
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), file.tell(), room.f_bavail * room.f_frsize)
                file.seek(0, os.SEEK_END)
    return ballast


class Publisher:
    """Publishes persistent messages and remembers which were confirmed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self.sent = 0
        self.confirmed: set[int] = set()
        self.tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Publisher:
        self._connection = await aio_pika.connect(self._url)
        self._channel = await self._connection.channel()
        await self._channel.declare_queue(QUEUE, durable=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.tasks:
            task.cancel()
        assert self._connection is not None
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._connection.close(), 2.0)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            self.tasks.append(asyncio.get_running_loop().create_task(self._publish(self.sent)))

    async def _publish(self, number: int) -> None:
        assert self._channel is not None
        body = b"%d " % number + bytes(BODY_BYTES)
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        with contextlib.suppress(aio_pika.exceptions.AMQPError):
            await self._channel.default_exchange.publish(message, QUEUE)
            self.confirmed.add(number)

    async def until_confirmed(self, count: int) -> None:
        end = time.monotonic() + WITHIN_S
        while len(self.confirmed) < count:
            assert time.monotonic() < end, f"{len(self.confirmed)} of {count} were confirmed within {WITHIN_S} s"
            await asyncio.sleep(0.02)


async def received(url: str) -> set[int]:
    """All that is in the queue."""
    numbers: set[int] = set()
    async with await aio_pika.connect(url) as connection:
        queue = await (await connection.channel()).get_queue(QUEUE)
        while (message := await queue.get(no_ack=True, fail=False)) is not None:
            numbers.add(int(message.body.split(b" ", 1)[0]))
    return numbers


async def publish_around_a_full_disk(broker: Broker, place: Path) -> set[int]:
    """Fill the disk, make room, and fill it again; what was confirmed by the time the broker is killed."""
    async with Publisher(broker.url) as publisher:
        publisher.publish(50)
        await publisher.until_confirmed(50)
        ballast = fill(place)
        publisher.publish(300)
        # Too much may wait for it before it is known to be full.
        await asyncio.to_thread(eventually, lambda: "publishers wait: disk: " in broker.log_text())
        await asyncio.to_thread(eventually, lambda: f"the disk is ill: {FULL}" in broker.log_text())
        await asyncio.sleep(0.2)
        held_back = len(publisher.confirmed)
        await asyncio.sleep(0.5)
        assert len(publisher.confirmed) == held_back < 350, "nothing is confirmed that is not on disk"
        ballast.unlink()
        await publisher.until_confirmed(350)
        assert "the disk is well again" in broker.log_text()
        fill(place)
        publisher.publish(100)
        await asyncio.to_thread(eventually, lambda: broker.log_text().count("the disk is ill") == 2)
        assert broker.process is not None
        broker.process.send_signal(signal.SIGKILL)
        broker.process.wait()
        return set(publisher.confirmed)


def test_a_broker_of_one_waits_for_room_and_loses_nothing_that_it_confirmed(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as place:
        data = str(place / "data")
        with running_broker(tmp_path, LIMITS, "--data-dir", data) as broker:
            confirmed = asyncio.run(publish_around_a_full_disk(broker, place))
            assert broker.process is not None and broker.log is not None
            stop(broker.process, broker.log)
        (place / "ballast").unlink()
        with running_broker(tmp_path, LIMITS, "--data-dir", data) as broker:
            found = asyncio.run(received(broker.url))
    assert len(confirmed) >= 350 and confirmed <= found, f"lost: {sorted(confirmed - found)}"


def shown_disk(asked: Primary, name: str) -> str | None:
    """How the disk of a primary is, as another one shows it."""
    seen = asked.ask()
    return next(each["disk"] for each in seen["brokers"] if each["name"] == name) if seen is not None else None


async def publish_while_the_roots_disk_fills(cluster: RunningCluster, root: Primary, at: Primary) -> set[int]:
    """Publish at a backup; the root's disk is full in the middle of it."""
    others = cluster.others(root)
    async with Publisher(at.place.amqp_url) as publisher:
        publisher.publish(50)
        await publisher.until_confirmed(50)
        began = time.monotonic()
        ballast = await asyncio.to_thread(fill, root.log.parent / root.name)
        publisher.publish(100)
        new, _ = await asyncio.to_thread(cluster.wait_for_root_among, others, began, WITHIN_S)
        await publisher.until_confirmed(150)
        publisher.publish(50)
        await publisher.until_confirmed(200)
        assert f"its disk is ill: {FULL}" in root.log.read_text(), "it made room by itself"
        await asyncio.to_thread(eventually, lambda: shown_disk(new, root.name) == FULL, WITHIN_S)
        ballast.unlink()
        await asyncio.to_thread(eventually, lambda: "the disk is well again" in root.log.read_text(), WITHIN_S)
        assert await asyncio.to_thread(cluster.wait_until_settled) is new, "it takes nothing back"
        return set(publisher.confirmed)


def test_another_is_root_within_seconds_of_a_roots_disk_being_full_and_confirms_go_on(tmp_path: Path) -> None:
    with contextlib.ExitStack() as disks:
        for name in ("p1", "p2", "p3"):
            disks.enter_context(small_disk(tmp_path / name))
        with running_cluster(tmp_path) as cluster:
            root = cluster.root()
            backup = cluster.others(root)[0]
            confirmed = asyncio.run(publish_while_the_roots_disk_fills(cluster, root, backup))
            found = asyncio.run(received(backup.place.amqp_url))
    assert len(confirmed) == 200 and confirmed <= found, f"lost: {sorted(confirmed - found)}"
