"""The ladder: how a client comes to the broker where it should be, by the best way that it understands."""

from __future__ import annotations

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.amqp.placement import Fallback, Placement, Reason
from openclust.broker.server.broker import Broker
from openclust.broker.server.standalone import Standalone
from openclust.wire.errors import INVALID_PATH, ConnectionError
from openclust.wire.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionRedirect,
    ConnectionTuneOk,
)
from tests.support.client import PASSWORD, Client
from tests.support.driver import turn


class Elsewhere(Standalone):
    """A cluster in which nobody who opens should be here."""

    def __init__(self, broker: Broker, fallback: Fallback, reason: Reason = "placing") -> None:
        super().__init__(broker)
        self.placement = Placement("b", "b:5672", "b:5672,a:5672", fallback, reason)

    def place(self, connection: Connection) -> Placement | None:
        return None if connection.stays else self.placement

    def known_hosts(self, connection: Connection) -> str:
        return "b:5672,a:5672"

    def virtual_host(self, connection: Connection, name: str) -> str:
        if name == "wrong":
            raise ConnectionError(INVALID_PATH, "another cluster")
        return "/" if name == "key" else name


def opening(broker: Broker, *capabilities: str, is_tls: bool = False) -> Client:
    """A client that has said all but which virtual host it opens."""
    client = Client(broker, log_in=False, capabilities=capabilities, is_tls=is_tls)
    client.start()
    client.send(ConnectionTuneOk(), channel=0)
    return client


def test_who_knows_redirects_is_sent_and_that_is_the_end(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "accept")
    client = opening(broker, "connection.redirect")
    redirect: ConnectionRedirect = client.call(ConnectionOpen(), ConnectionRedirect, channel=0)
    assert (redirect.host, redirect.known_hosts) == ("b:5672", "b:5672,a:5672")
    assert client.is_finished
    assert broker.open_count() == 0


def test_whoever_else_is_accepted_and_told_the_known_hosts(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "accept")
    client = opening(broker)
    ok: ConnectionOpenOk = client.call(ConnectionOpen(), ConnectionOpenOk, channel=0)
    assert ok.known_hosts == "b:5672,a:5672"


@pytest.mark.parametrize("reason", ["placing", "draining"])
def test_or_closed_with_the_name_of_the_other_broker(broker: Broker, reason: Reason) -> None:
    broker.cluster = Elsewhere(broker, "close", reason)
    client = opening(broker)
    closed = client.hard_error(ConnectionOpen(), channel=0)
    assert (closed.code, closed.by) == (320, (10, 40))
    assert closed.text == f"CONNECTION_FORCED - moved to b:5672 ({reason})"
    client.send(ConnectionCloseOk(), channel=0)
    assert client.is_finished


def test_a_redirect_is_better_than_a_close_or_a_proxy(broker: Broker) -> None:
    for fallback in ("close", "proxy"):
        broker.cluster = Elsewhere(broker, fallback)  # type: ignore[arg-type]
        client = opening(broker, "connection.redirect")
        client.call(ConnectionOpen(), ConnectionRedirect, channel=0)


def test_who_insists_is_let_in(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "close")
    client = opening(broker, "connection.redirect")
    client.call(ConnectionOpen(insist=True), ConnectionOpenOk, channel=0)


def test_who_knows_no_redirects_cannot_insist(broker: Broker) -> None:
    """In 0-9-1 the bit is reserved; pika always sets it."""
    broker.cluster = Elsewhere(broker, "close")
    assert opening(broker).hard_error(ConnectionOpen(insist=True), channel=0).code == 320


def test_a_proxied_client_waits_and_all_that_is_needed_is_handed_over(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "proxy")
    client = opening(broker)
    client.send(ConnectionOpen(virtual_host="/"), channel=0)
    assert not client.replies.get(0)
    assert client.proxy is not None
    assert client.proxy.placement.address == "b:5672"
    assert client.proxy.response == b"\0guest\0" + PASSWORD
    assert client.proxy.open.virtual_host == "/"
    client.connection.hold = ""


def test_the_response_is_kept_no_longer_than_needed(broker: Broker) -> None:
    assert Client(broker).connection.response == b""
    broker.cluster = Elsewhere(broker, "proxy")
    client = opening(broker)
    assert client.connection.response
    client.send(ConnectionOpen(), channel=0)
    assert client.connection.response == b""
    client.connection.hold = ""


def test_where_no_other_broker_takes_it_a_client_is_let_in_with_all_it_said_meanwhile(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "proxy")
    client = opening(broker)
    client.send(ConnectionOpen(), channel=0)
    client.send(ChannelOpen())
    assert client.proxy is not None and not client.replies.get(1)
    client.connection.stay(client.proxy.open)
    turn(broker)
    client.reply(0, ConnectionOpenOk)
    client.reply(1, ChannelOpenOk)
    client.connection.stay(client.proxy.open)
    turn(broker)
    assert not client.replies[0], "it is let in once"


def test_who_was_refused_meanwhile_is_not_let_in(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "proxy")
    client = opening(broker)
    client.send(ConnectionOpen(), channel=0)
    assert client.proxy is not None
    broker.users["guest"].permissions.clear()
    client.connection.stay(client.proxy.open)
    turn(broker)
    assert client.closed is not None and client.closed.code == 530


def test_who_went_meanwhile_is_forgotten(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "proxy")
    client = opening(broker)
    client.send(ConnectionOpen(), channel=0)
    assert client.proxy is not None
    client.lose()
    client.connection.stay(client.proxy.open)
    assert not broker.connections and not broker.effects


def test_who_came_by_tls_is_not_handed_on_in_the_clear(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "proxy")
    client = opening(broker, is_tls=True)
    client.call(ConnectionOpen(), ConnectionOpenOk, channel=0)


def test_who_may_not_enter_is_refused_and_not_sent_on(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "accept")
    broker.put_vhost("theirs")
    client = opening(broker, "connection.redirect")
    assert client.hard_error(ConnectionOpen(virtual_host="theirs"), channel=0).code == 530


def test_another_cluster_is_refused_at_open(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "accept")
    closed = opening(broker).hard_error(ConnectionOpen(virtual_host="wrong"), channel=0)
    assert (closed.code, closed.by) == (402, (10, 40))
    assert closed.text == "INVALID_PATH - another cluster"


def test_a_virtual_host_may_have_another_name(broker: Broker) -> None:
    broker.cluster = Elsewhere(broker, "accept")
    client = opening(broker)
    client.call(ConnectionOpen(virtual_host="key"), ConnectionOpenOk, channel=0)
    assert client.connection.vhost.name == "/"
