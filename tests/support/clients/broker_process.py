"""A real broker process for the tests of this folder, or the address of one that is already running."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pika

START_DEADLINE_S = 20.0
STOP_DEADLINE_S = 10.0


class Broker:
    """Where a broker listens and how to log in. `process` is None for a broker that somebody else started."""

    def __init__(
        self,
        host: str,
        port: int,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        process: subprocess.Popen[bytes] | None = None,
        log: Path | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.user = user
        self.password = password
        self.vhost = vhost
        self.process = process
        self.log = log
        self.is_openclust = True

    @property
    def url(self) -> str:
        return f"amqp://{quote(self.user)}:{quote(self.password)}@{self.host}:{self.port}/{quote(self.vhost, safe='')}"

    def log_text(self) -> str:
        return (
            self.log.read_text(errors="replace") if self.log is not None else "(started by somebody else: no log here)"
        )


def broker_at(url: str) -> Broker:
    """The running broker behind `url`. Asks for its product: tests of openclust's own features skip."""
    parts = urlsplit(url)
    broker = Broker(
        parts.hostname or "127.0.0.1",
        parts.port or 5672,
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        unquote(parts.path[1:]) or "/",
    )
    with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
        product = connection._impl.server_properties.get("product", "")
    broker.is_openclust = "openclust" in str(product).lower()
    return broker


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_broker(
    folder: Path,
    config: str = "",
    *arguments: str,
    host: str = "127.0.0.1",
    prefix: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
) -> Iterator[Broker]:
    """Start `openclust start` with the text `config` as its configuration file; end it with SIGTERM.

    `prefix` goes before the command line (`ip netns exec NAME`, for one). Fails with the broker's own log when it does
    not listen in time or does not end in time.
    """
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config_file, log = folder / "openclust.toml", folder / "broker.log"
    config_file.write_text(config if "[http]" in config else config + "\n[http]\nenabled = false\n")
    # What the tests themselves are told by OPENCLUST_* is not meant for the broker.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OPENCLUST_")}
    command = [
        *prefix,
        *(sys.executable, "-m", "openclust", "start", "--cluster-key", "test"),
        *("--host", host, "--port", str(port), "--config", str(config_file)),
        *arguments,
    ]
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            env=clean | (environment or {}),
        )
    broker = Broker(host, port, process=process, log=log)
    try:
        if not prefix:  # another network namespace cannot be asked from here
            wait_until_listening(broker)
        yield broker
    finally:
        stop(process, log)


def wait_until_listening(broker: Broker) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline:
        if broker.process is not None and broker.process.poll() is not None:
            raise RuntimeError(f"the broker ended with {broker.process.returncode} at start:\n{broker.log_text()}")
        with contextlib.suppress(OSError), socket.create_connection((broker.host, broker.port), timeout=1.0):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the broker does not listen on {broker.host}:{broker.port}:\n{broker.log_text()}")


def stop(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise RuntimeError(
            f"the broker ignored SIGTERM for {STOP_DEADLINE_S} s:\n{log.read_text(errors='replace')}"
        ) from None
