"""Lines about a connection say whose it is, as far as that is known."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.access import User
from openclust.broker.model.effects import Note
from openclust.broker.model.peer import Peer
from openclust.cluster.protocol.peer_user import login
from openclust.shell.host.line_limit import LINES_MAX, LineLimit
from openclust.shell.host.notes import about, log_note
from openclust.wire.frames import PROTOCOL_HEADER
from openclust.wire.methods import BasicAck, ConnectionStartOk
from openclust.wire.table import Table
from tests.support.client import Client, new_broker

log = logging.getLogger("openclust.server")


def logged(caplog: pytest.LogCaptureFixture, note: Note) -> dict[str, Any]:
    with caplog.at_level("INFO", logger="openclust.server"):
        log_note(log, note, LineLimit(log), 0)
    fields: dict[str, Any] = caplog.records[-1].fields  # type: ignore[attr-defined]
    return fields


def test_a_line_about_a_client_names_peer_user_virtual_host_and_connection(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(new_broker(), properties={"connection_name": "billing"})
    client.send(BasicAck(delivery_tag=7))
    assert logged(caplog, client.notes[-1]) == {
        "peer": "127.0.0.1:1",
        "user": "guest",
        "vhost": "/",
        "connection_name": "billing",
        "channel": 1,
        "text": client.notes[-1].fields["text"],
    }


def test_a_connection_that_is_over_is_still_named(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(new_broker(), properties={"connection_name": "billing"})
    client.lose()
    fields = logged(caplog, Note("warning", "gone", client.connection, {}))
    assert (fields["user"], fields["vhost"], fields["connection_name"]) == ("guest", "/", "billing")


def test_a_stranger_has_an_address_only() -> None:
    assert about(Client(new_broker(), log_in=False).connection) == {"peer": "127.0.0.1:1"}


def test_a_refused_user_is_the_one_who_was_claimed(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(new_broker(), log_in=False)
    client.feed(PROTOCOL_HEADER)
    properties: Table = {"connection_name": "billing"}
    start_ok = ConnectionStartOk(client_properties=properties, mechanism="PLAIN", response=b"\0guest\0wrong")
    client.send(start_ok, channel=0)
    assert logged(caplog, client.notes[-1]) == {"peer": "127.0.0.1:1", "connection_name": "billing", "user": "guest"}


@pytest.mark.parametrize("name", [7, None, True, {"a": 1}])
def test_a_connection_name_that_is_no_text_is_none(name: Any) -> None:
    client = Client(new_broker(), properties={"connection_name": name})
    assert "connection_name" not in about(client.connection)


def test_a_connection_name_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(new_broker(), properties={"connection_name": "x" * 3_000})
    assert len(about(client.connection)["connection_name"]) == 255


def test_another_brokers_link_is_named_by_its_broker() -> None:
    client = Client(new_broker(), log_in=False)
    client.connection.peer = Peer("127.0.0.1", 1, True, is_peer=True)
    client.connection.user = login("p2")
    assert about(client.connection) == {"peer": "127.0.0.1:1", "broker": "p2"}


def test_a_user_of_that_name_is_no_broker() -> None:
    client = Client(new_broker(), log_in=False)
    client.connection.user = User(name="peer:p2")
    assert about(client.connection) == {"peer": "127.0.0.1:1", "user": "peer:p2"}


def logged_of(caplog: pytest.LogCaptureFixture, connection: Connection, *notes: str, level: str = "warning") -> int:
    """How many of these notes about a connection are logged, where all of them come at once."""
    limit = LineLimit(log)
    with caplog.at_level("DEBUG", logger="openclust.server"):
        for text in notes:
            log_note(log, Note(level, text, connection, {}), limit, 0)  # type: ignore[arg-type]
    return len(caplog.records)


def test_of_one_event_at_one_address_so_many_lines_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    connection = Client(new_broker(), log_in=False).connection
    assert logged_of(caplog, connection, *["gone"] * LINES_MAX * 3) == LINES_MAX


def test_the_words_after_the_colon_make_no_other_event(caplog: pytest.LogCaptureFixture) -> None:
    connection = Client(new_broker(), log_in=False).connection
    notes = [f"login refused: no user {number}" for number in range(LINES_MAX * 3)]
    assert logged_of(caplog, connection, *notes, "gone") == LINES_MAX + 1


def test_lines_about_an_admitted_broker_and_those_for_debugging_have_no_limit(caplog: pytest.LogCaptureFixture) -> None:
    client = Client(new_broker(), log_in=False)
    notes = ["gone"] * LINES_MAX * 3
    assert logged_of(caplog, client.connection, *notes, level="debug") == len(notes)
    caplog.clear()
    client.connection.peer = Peer("127.0.0.1", 1, True, is_peer=True)
    client.connection.user = login("p2")
    assert logged_of(caplog, client.connection, *notes) == len(notes)
