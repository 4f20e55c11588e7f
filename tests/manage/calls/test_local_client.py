"""The connection by which a call acts for its user: let in without a handshake, and counted among no clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.cluster.placing.rebalance import leaving, movable
from openclust.cluster.protocol.redirect import Redirect
from openclust.manage.rows.connection_rows import open_connections
from openclust.wire.handshake import State
from tests.support.client import new_broker
from tests.support.cluster.joined import Joined


def entered(broker: Broker) -> Connection:
    connection = Connection(broker, Peer("127.0.0.1", 0, True, is_internal=True))
    connection.enter(broker.users["guest"], broker.vhosts["/"])
    return connection


@pytest.fixture
def broker() -> Iterator[Broker]:
    yield new_broker()


def test_it_is_open_at_once_and_is_no_client(broker: Broker) -> None:
    connection = entered(broker)
    assert connection.state is State.OPEN
    assert open_connections(broker) == []
    assert (broker.open_count(), broker.internal_count) == (1, 1)
    broker.connection_lost(connection)
    assert (broker.open_count(), broker.internal_count, len(broker.connections)) == (0, 0, 0)


def test_it_is_let_in_however_many_clients_there_are() -> None:
    broker = new_broker(connections_max=1)
    for _ in range(3):
        assert entered(broker).state is State.OPEN


def test_it_counts_for_no_placement_and_is_never_moved() -> None:
    cluster = Joined("p1", "p2")
    cluster.client("p1")
    connection = entered(cluster.broker("p1"))
    assert cluster["p1"].client_count() == 1
    assert list(leaving([connection])) == []
    assert list(movable([connection], Redirect(fallback="close"))) == []


def test_only_an_internal_peer_is_let_in_without_a_login(broker: Broker) -> None:
    connection = Connection(broker, Peer("127.0.0.1", 1, True))
    with pytest.raises(AssertionError):
        connection.enter(broker.users["guest"], broker.vhosts["/"])
