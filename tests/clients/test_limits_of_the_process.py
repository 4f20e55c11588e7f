"""A running broker at the limits of its process: open files, logins that never come, readers that never read."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from pathlib import Path

import pika
import psutil
import pytest
from pamqp import commands

from tests.support.clients.broker_process import running_broker, wait_until_listening
from tests.support.clients.deadline import eventually
from tests.support.clients.raw_client import RawClient

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("own_process")]


def test_at_the_limit_of_open_files_accepting_pauses_and_goes_on(tmp_path: Path) -> None:
    few_files = ("sh", "-c", 'ulimit -n 48; exec "$@"', "sh")
    with running_broker(tmp_path, prefix=few_files) as broker:
        wait_until_listening(broker)
        with contextlib.ExitStack() as clients:
            for _ in range(60):
                clients.enter_context(socket.create_connection((broker.host, broker.port), timeout=5))
            eventually(lambda: "not accepting" in broker.log_text())
        # The sockets are closed: who comes now, or waited, is served.
        with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
            assert connection.is_open
        assert "raise the limit of open files" in broker.log_text()


def test_connections_that_do_not_log_in_are_capped(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, "[limits]\nconnections_before_login_max = 3\n") as broker,
        contextlib.ExitStack() as idle,
    ):
        for _ in range(3):
            idle.enter_context(socket.create_connection((broker.host, broker.port), timeout=5))
        one_more = idle.enter_context(socket.create_connection((broker.host, broker.port), timeout=5))
        assert one_more.recv(1) == b""
        eventually(lambda: "connections_before_login_max" in broker.log_text())
        idle.close()
        with contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection:
            assert connection.is_open


def test_a_definitions_file_is_there_from_the_start(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    queue = {"name": "orders", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {"x-max-length": 7}}
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue]}))
    with (
        running_broker(tmp_path, f'[definitions]\nfile = "{file}"\n') as broker,
        contextlib.closing(pika.BlockingConnection(pika.URLParameters(broker.url))) as connection,
    ):
        channel = connection.channel()
        channel.queue_declare("orders", durable=True, arguments={"x-max-length": 7})
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-max-length"):
            channel.queue_declare("orders", durable=True, arguments={"x-max-length": 8})


def test_subscribers_that_do_not_read_cost_their_own_bounds_only(tmp_path: Path) -> None:
    bounds = "[limits]\noutbox_bytes_max = 65536\n"
    with running_broker(tmp_path, bounds) as broker, contextlib.ExitStack() as stack:
        assert broker.process is not None
        parameters = pika.URLParameters(broker.url)
        deaf = []
        for _ in range(10):
            channel = stack.enter_context(contextlib.closing(pika.BlockingConnection(parameters))).channel()
            name = channel.queue_declare("", exclusive=True, arguments={"x-max-length": 10}).method.queue
            channel.queue_bind(name, "amq.fanout")
            channel.basic_consume(name, lambda *_: None, auto_ack=True)
            deaf.append(channel)
        reader = stack.enter_context(contextlib.closing(pika.BlockingConnection(parameters))).channel()
        mine = reader.queue_declare("", exclusive=True).method.queue
        reader.queue_bind(mine, "amq.fanout")
        process = psutil.Process(broker.process.pid)
        before = process.memory_info().rss
        body = bytes(100_000)
        for _ in range(300):
            reader.basic_publish("amq.fanout", "", body)
            assert reader.basic_get(mine, auto_ack=True)[2] == body
        # 300 MB were published to ten who do not read: no more than their outboxes and queues may hold has stayed.
        assert process.memory_info().rss - before < 60_000_000
        assert all(channel.is_open for channel in deaf)


def test_a_client_that_never_opens_is_closed_whatever_its_heartbeat(tmp_path: Path) -> None:
    with running_broker(tmp_path, "[limits]\nhandshake_timeout_ms = 500\n") as broker, RawClient(broker) as raw:
        raw.log_in()
        raw.send(commands.Connection.TuneOk(0, 131072, 600))
        started = time.monotonic()
        raw.read_until_closed()
        assert time.monotonic() - started < 3
