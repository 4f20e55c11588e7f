"""Connections, channels and consumers over HTTP: what is shown of them, to whom, and how they are closed."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import AMQPError, ConnectionClosedByBroker

from openclust.shell.config.schema import TlsSection
from tests.support.clients.broker_process import free_port
from tests.support.clients.certificates import Authority
from tests.support.clients.deadline import eventually
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets


@contextmanager
def client(api: RunningApi, user: str = "guest", name: str = "test", **options: Any) -> Iterator[BlockingConnection]:
    host, port = api.on_loop(lambda server: server.listeners[0].address)
    parameters = {"port": port, "client_properties": {"connection_name": name}, **options}
    connection = BlockingConnection(
        pika.ConnectionParameters(host, credentials=pika.PlainCredentials(user, user), **parameters)
    )
    try:
        yield connection
    finally:
        # The broker may have closed it.
        with suppress(AMQPError):
            connection.close()


def the_only(api: RunningApi, kind: str, login: str = "guest:guest") -> dict[str, Any]:
    (row,) = api.get(f"/api/{kind}", login)
    return dict(row)


def add_user(api: RunningApi, name: str, tags: str) -> str:
    api.call("PUT", f"/api/users/{name}", {"password": name, "tags": tags})
    api.call("PUT", f"/api/permissions/%2F/{name}", {"configure": ".*", "write": ".*", "read": ".*"})
    return f"{name}:{name}"


def path_of(connection: BlockingConnection, api: RunningApi) -> str:
    """The path of a connection whose client has named it."""
    (row,) = (row for row in api.get("/api/connections") if row["user_provided_name"] == name_of(connection))
    return f"/api/connections/{quote(row['name'], safe='')}"


def name_of(connection: BlockingConnection) -> str:
    return str(connection._impl.params.client_properties["connection_name"])


def test_a_connection_is_named_by_both_ends(api: RunningApi) -> None:
    with client(api) as connection:
        _, own = connection._impl._transport._sock.getsockname()
        _, port = api.on_loop(lambda server: server.listeners[0].address)
        row = the_only(api, "connections")
        assert row["name"] == f"127.0.0.1:{own} -> 127.0.0.1:{port}"
        assert (row["peer_host"], row["peer_port"], row["host"], row["port"]) == ("127.0.0.1", own, "127.0.0.1", port)
        assert api.get(path_of(connection, api))["name"] == row["name"]


def test_a_connection_says_since_when_it_is_there_and_what_went_through_it(api: RunningApi) -> None:
    began_ms = time.time() * 1_000
    with client(api) as connection:
        channel = connection.channel()
        before = the_only(api, "connections")
        assert began_ms - 1_000 <= before["connected_at"] <= time.time() * 1_000 + 1_000
        assert min(before["recv_oct"], before["send_oct"], before["recv_cnt"], before["send_cnt"]) > 0
        channel.basic_publish("", "nobody", b"x" * 1_000)
        channel.queue_declare("q", exclusive=True)
        api.on_loop(lambda server: server.broker.set_clock(server.now_ms(), 0))
        after = the_only(api, "connections")
        assert after["connected_at"] == before["connected_at"], "the wall clock was set"
        assert 1_000 < after["recv_oct"] - before["recv_oct"] < 1_300
        assert after["send_oct"] > before["send_oct"]


def test_a_connection_by_tls_says_what_was_agreed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (cert, key), port = authority.issue("localhost", server=True), free_port()
    tls = TlsSection(port=port, cert=str(cert), key=str(key), ca=str(authority.ca), verify="optional")
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.load_cert_chain(*authority.issue("alice"))
    with (
        running_api(tls=tls) as api,
        client(api, port=port, ssl_options=pika.SSLOptions(context, "localhost")),
    ):
        row = the_only(api, "connections")
    assert (row["ssl"], row["ssl_protocol"], row["ssl_key_exchange"]) == (True, "tlsv1.3", "any")
    assert row["ssl_cipher"] in ("aes_256_gcm", "aes_128_gcm", "chacha20_poly1305")
    assert row["ssl_hash"].startswith("sha")
    assert (row["peer_cert_subject"], row["peer_cert_issuer"]) == ("CN=alice", "CN=Test Authority")
    assert " - " in row["peer_cert_validity"]
    assert row["port"] == port and row["recv_oct"] > 1_000
    assert abs(row["connected_at"] - time.time() * 1_000) < 5_000


def test_a_connection_without_tls_says_so(api: RunningApi) -> None:
    with client(api):
        row = the_only(api, "connections")
    assert row["ssl"] is False
    assert {row[name] for name in row if name.startswith(("ssl_", "peer_cert_"))} == {None}


def test_a_client_whose_connection_is_closed_reads_the_reason(api: RunningApi) -> None:
    with client(api, name="one") as closed, client(api, name="two") as other:
        assert api.call("DELETE", path_of(closed, api), X_Reason="out of office").status == 204
        with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - out of office"):
            closed.channel()
        other.channel()
        assert eventually(lambda: the_only(api, "connections"))["user_provided_name"] == "two"


def test_all_connections_of_a_user_are_closed_at_once(api: RunningApi) -> None:
    add_user(api, "anna", "management")
    with client(api, "anna") as one, client(api, "anna") as two, client(api) as other:
        assert [row["user"] for row in api.get("/api/connections/username/anna")] == ["anna", "anna"]
        assert api.call("DELETE", "/api/connections/username/anna").status == 204
        for each in (one, two):
            with pytest.raises(ConnectionClosedByBroker, match="Closed via management plugin"):
                each.channel()
        other.channel()
        assert api.call("DELETE", "/api/connections/username/nobody").status == 204


@pytest.mark.parametrize("tags", ["management", "monitoring"])
def test_only_administrators_close_what_is_not_theirs(api: RunningApi, tags: str) -> None:
    login = add_user(api, "anna", tags)
    with client(api, name="of guest") as other, client(api, "anna", "of anna") as own:
        assert api.call("DELETE", path_of(other, api), login=login).status == 404
        api.call("DELETE", "/api/connections/username/guest", login=login)
        other.channel()
        assert api.call("DELETE", path_of(own, api), login=login).status == 204


def test_who_does_not_monitor_sees_the_own_connections_only(api: RunningApi) -> None:
    login = add_user(api, "anna", "management")
    with client(api) as other, client(api, "anna", "of anna") as own:
        other.channel().basic_consume(other.channel().queue_declare("", exclusive=True).method.queue, print)
        own.channel()
        assert the_only(api, "connections", login)["user"] == "anna"
        assert the_only(api, "channels", login)["user"] == "anna"
        assert api.get("/api/consumers", login) == []


def test_channels_of_a_connection_that_is_not_there_are_404(api: RunningApi) -> None:
    assert api.call("GET", "/api/connections/nobody/channels").status == 404
    with client(api) as connection:
        assert api.get(f"{path_of(connection, api)}/channels") == []


def test_a_channel_says_what_waits_on_it(api: RunningApi) -> None:
    with client(api) as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_qos(prefetch_count=7)
        for _ in range(3):
            channel.basic_publish("", queue, b"x")
        channel.basic_get(queue)
        channel.tx_select()
        channel.basic_publish("", queue, b"x")
        channel.basic_ack(1)
        channel.basic_get(queue)
        channel.basic_consume(queue, lambda *_: None, consumer_tag="worker")
        connection.process_data_events(0)
        row = the_only(api, "channels")
        shown = {name: row[name] for name in ("prefetch_count", "messages_uncommitted", "acks_uncommitted", "confirm")}
        assert shown == {"prefetch_count": 7, "messages_uncommitted": 1, "acks_uncommitted": 1, "confirm": False}
        assert (row["messages_unacknowledged"], row["messages_unconfirmed"], row["transactional"]) == (2, 0, True)
        found = api.get(f"/api/channels/{quote(row['name'], safe='')}")
        assert [each["consumer_tag"] for each in found["consumer_details"]] == ["worker"]


def test_of_a_single_active_consumer_queue_one_consumer_is_active(api: RunningApi) -> None:
    with client(api) as connection:
        channel = connection.channel()
        channel.queue_declare("q", arguments={"x-single-active-consumer": True})
        for tag in ("first", "second"):
            channel.basic_consume("q", lambda *_: None, consumer_tag=tag)
        rows = {row["consumer_tag"]: (row["active"], row["activity_status"]) for row in api.get("/api/consumers")}
    assert rows == {"first": (True, "single_active"), "second": (False, "waiting")}
