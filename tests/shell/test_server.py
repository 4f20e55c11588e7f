"""The server as the node's host, without a socket: what it makes of effects and of time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.effects import Note
from openclust.broker.model.peer import Peer
from openclust.shell.config.schema import Config
from openclust.shell.host.line_limit import INTERVAL_MS, LINES_MAX
from openclust.shell.server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    server = Server(Config(cluster_key="test", name="b1"), loop)
    yield server
    server.logins.close()
    loop.close()


def test_a_client_that_tries_again_and_again_does_not_fill_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    connection = Connection(server.broker, Peer("10.0.0.1", 1, is_loopback=False))
    for _ in range(LINES_MAX + 5):
        server.effect(Note("warning", "login refused: wrong password", connection, {}))
    later_ms = server.now_ms() + INTERVAL_MS + 1
    server.now_ms = lambda: later_ms  # type: ignore[method-assign]
    server.tick()
    assert [record.message for record in caplog.records] == [
        *["login refused: wrong password"] * LINES_MAX,
        "login refused: 5 more in the last minute",
    ]
