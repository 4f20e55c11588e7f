"""A RabbitMQ of our own, with its own directories and ports."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.scene import Broker
from tests.support.clients.broker_process import free_port

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The wrapper in sbin limits open files to 1,024."""

START_WAIT_S = 90.0


@contextmanager
def running_rabbitmq(folder: Path) -> Iterator[Broker]:
    """One that runs until the end of the block, with the plugins for management and Prometheus."""
    amqp, http, metrics, distribution = (free_port() for _ in range(4))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{amqp}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {http}\n"
        f"prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = {metrics}\n",
        encoding="utf-8",
    )
    (folder / "plugins").write_text("[rabbitmq_management,rabbitmq_prometheus].\n", encoding="utf-8")
    environment = os.environ | {
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_NODENAME": "rabbit@localhost",
        "RABBITMQ_NODE_PORT": str(amqp),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "HOME": str(folder),
    }
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen([str(SERVER)], env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    broker = Broker(("127.0.0.1", amqp), ("127.0.0.1", http))
    try:
        _wait(broker, process, folder)
        yield broker
    finally:
        process.terminate()
        process.wait(60)


def _wait(broker: Broker, process: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + START_WAIT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            if broker.call("GET", "/api/overview")[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"RabbitMQ does not answer: {(folder / 'out').read_text(errors='replace')[-500:]}")
