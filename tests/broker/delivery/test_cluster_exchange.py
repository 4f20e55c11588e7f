"""What brokers say to each other, and by which link it came."""

from __future__ import annotations

from openclust.broker.amqp.connection import Connection
from openclust.broker.delivery.cluster_exchange import CLUSTER_EXCHANGE
from openclust.broker.model.access import Permission, User
from openclust.broker.model.peer import Peer
from openclust.broker.server.broker import Broker
from openclust.broker.server.standalone import Standalone
from openclust.wire.methods import ChannelOpen, ChannelOpenOk, ConnectionOpen, ConnectionOpenOk, ConnectionTuneOk
from openclust.wire.sasl import PEER
from tests.support.client import Client


class Hearing(Standalone):
    """Admits whoever comes as one and the same broker, and remembers what came by which link."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.heard: list[tuple[Connection, bytes]] = []

    def admit(self, connection: Connection, response: bytes) -> User:
        everything = {"": Permission(configure="^$", write="^amq\\.cluster$", read="^$")}
        return User(name="peer:p1", type="cluster", permissions=everything)

    def control(self, connection: Connection, body: bytes) -> None:
        self.heard.append((connection, body))


def link(broker: Broker) -> Client:
    peer = Client(broker, log_in=False)
    peer.connection.peer = Peer("127.0.0.1", 1, True, is_peer=True)
    peer.start(mechanism=PEER)
    peer.send(ConnectionTuneOk(), channel=0)
    peer.call(ConnectionOpen(), ConnectionOpenOk, channel=0)
    peer.call(ChannelOpen(), ChannelOpenOk)
    return peer


def test_a_later_link_of_a_broker_is_not_taken_for_its_first(broker: Broker) -> None:
    broker.cluster = hearing = Hearing(broker)
    first = link(broker)
    first.publish("", b"one", exchange=CLUSTER_EXCHANGE)
    second = link(broker)
    second.publish("", b"two", exchange=CLUSTER_EXCHANGE)
    first.publish("", b"three", exchange=CLUSTER_EXCHANGE)
    assert hearing.heard == [
        (first.connection, b"one"),
        (second.connection, b"two"),
        (first.connection, b"three"),
    ]
