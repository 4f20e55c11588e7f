"""A data directory that a broker cannot begin with: one clear line, and exit code 2. Real processes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pika
import pytest

from openclust.shell.store import open_store
from tests.support.clients.broker_process import Broker, free_port, running_broker, stop
from tests.support.clients.deadline import eventually

pytestmark = pytest.mark.sockets

WAIT_S = 20.0
ADMIN = """
[auth]
users_file = "users.json"
"""


def start(data: Path, *arguments: str, key: str = "test") -> subprocess.CompletedProcess[str]:
    """`openclust start` to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENCLUST_")}
    command = [sys.executable, "-m", "openclust", "start", "--cluster-key", key, "--data-dir", str(data), "--no-http"]
    command += ["--port", str(free_port()), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, env=environment)


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that says why it did not start."""
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("openclust: error: ")]
    assert len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
    return lines[0].removeprefix("openclust: error: ")


def test_the_store_of_another_cluster_is_refused(tmp_path: Path) -> None:
    open_store(str(tmp_path), cluster_key="other").close()
    text = error_of(start(tmp_path))
    assert text.startswith(f"{tmp_path}: is the store of cluster 'other', not of 'test'; take another directory")


def test_a_damaged_store_is_named_with_the_way_out(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), cluster_key="test")
    store.close()
    path = Path(store.path)
    data = bytearray(path.read_bytes())
    data[100:4_000] = os.urandom(3_900)
    path.write_bytes(data)
    text = error_of(start(tmp_path))
    assert text.startswith(f"{path}: damaged: ") and "the others bring it up to date" in text


def test_a_directory_that_another_broker_has_is_refused(tmp_path: Path) -> None:
    store = open_store(str(tmp_path), cluster_key="test")
    try:
        assert str(tmp_path) in error_of(start(tmp_path))
    finally:
        store.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert error_of(start(tmp_path / "file" / "data")).startswith(str(tmp_path / "file"))


# -- without one, and from one run to the next


def killed(broker: Broker) -> None:
    assert broker.process is not None and broker.log is not None
    broker.process.send_signal(signal.SIGKILL)
    stop(broker.process, broker.log)


def kept(broker: Broker, queues: Sequence[str]) -> dict[str, int | None]:
    """How many messages each of these durable queues has; None where it is gone."""
    found: dict[str, int | None] = {}
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        for queue in queues:
            channel = connection.channel()
            try:
                found[queue] = channel.queue_declare(queue, passive=True).method.message_count
            except pika.exceptions.ChannelClosedByBroker:
                found[queue] = None
    return found


def test_what_was_confirmed_is_there_after_a_kill(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running_broker(tmp_path, "", "--data-dir", data) as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("lasting", durable=True)
            channel.queue_declare("passing")
            for number in range(20):
                channel.basic_publish("", "lasting", b"%d" % number, pika.BasicProperties(delivery_mode=2))
            channel.basic_publish("", "passing", b"x", pika.BasicProperties(delivery_mode=2))
        killed(broker)
        assert "no data directory" not in broker.log_text()
    with running_broker(tmp_path, "", "--data-dir", data) as broker:
        assert kept(broker, ("lasting", "passing")) == {"lasting": 20, "passing": None}


def test_a_broker_without_a_data_directory_says_what_that_means(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert kept(broker, ()) == {}
        assert broker.log_text().count("no data directory: durable queues and messages are lost at the end") == 1


def test_the_users_file_says_who_the_users_are_whoever_they_were_before(tmp_path: Path) -> None:
    data, http = str(tmp_path / "data"), free_port()
    with running_broker(tmp_path, f"[http]\nport = {http}", "--data-dir", data):
        put(http, "/api/users/ghost", {"password": "ghost", "tags": ""})
        put(http, "/api/permissions/%2F/ghost", {"configure": ".*", "write": ".*", "read": ".*"})
    (tmp_path / "users.json").write_text('{"users": []}')
    with running_broker(tmp_path, ADMIN, "--data-dir", data) as broker:
        for broker.user in ("ghost", "guest"):
            broker.password = broker.user
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                kept(broker, ())
    with running_broker(tmp_path, "", "--data-dir", data) as broker:
        broker.user = broker.password = "ghost"
        assert kept(broker, ()) == {}


def is_listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def put(port: int, path: str, body: object) -> None:
    """The broker takes clients before its HTTP API is there."""
    eventually(lambda: is_listening(port))
    credentials = base64.b64encode(b"guest:guest").decode()
    headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.status in (201, 204)
