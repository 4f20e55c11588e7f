"""Limits of users and virtual hosts, topic permissions, and the default queue type: what clients meet of them."""

from __future__ import annotations

import pytest

from openclust.broker.model.access import TopicPermission, User
from openclust.broker.server.broker import Broker
from openclust.wire.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionTuneOk,
    ExchangeBind,
    QueueBind,
    QueueDeclare,
    QueueUnbind,
)
from tests.support.client import Client, Closed


def refused(broker: Broker, user: str = "guest") -> Closed:
    """How another connection is refused."""
    client = Client(broker, user, log_in=False)
    client.start()
    client.send(ConnectionTuneOk(), channel=0)
    client.send(ConnectionOpen(), channel=0)
    assert client.closed is not None
    return client.closed


# -- connections and channels


def test_a_virtual_host_takes_so_many_connections_and_no_more(broker: Broker, alice: Client, bob: Client) -> None:
    broker.put_vhost_limit("/", "max-connections", 2)
    closed = refused(broker)
    assert closed.code == 530
    assert closed.text == "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (2) is reached"
    bob.close()
    Client(broker)


def test_a_user_has_so_many_connections_and_no_more(broker: Broker, alice: Client) -> None:
    broker.put_user_limit("guest", "max-connections", 1)
    closed = refused(broker)
    assert closed.code == 530
    assert closed.text == "NOT_ALLOWED - connection refused for user 'guest': user connection limit (1) is reached"
    Client(broker, "other")
    broker.put_user_limit("guest", "max-connections", None)
    Client(broker)


def test_a_user_has_so_many_channels_and_no_more(broker: Broker, alice: Client) -> None:
    broker.put_user_limit("guest", "max-channels", 2)
    alice.open_channel(2)
    other = Client(broker, log_in=False)
    other.log_in()
    closed = other.hard_error(ChannelOpen())
    assert closed.code == 530
    assert closed.text == (
        "NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed user limit of (2)"
    )
    alice.call(ChannelClose(), ChannelCloseOk, channel=2)
    again = Client(broker, log_in=False)
    again.log_in()
    again.call(ChannelOpen(), ChannelOpenOk)
    again.close()
    assert broker.usage.user_channels == {"guest": 1}


def test_who_is_gone_is_not_counted(broker: Broker) -> None:
    clients = [Client(broker, name) for name in ("guest", "other", "guest")]
    assert broker.usage.user_connections == {"guest": 2, "other": 1}
    assert broker.usage.vhost_connections == {"/": 3}
    clients[0].lose()
    clients[1].close()
    clients[2].hard_error(QueueDeclare(queue="q"), channel=9)
    clients[2].lose()
    usage = broker.usage
    assert (usage.user_connections, usage.vhost_connections, usage.user_channels) == ({}, {}, {})


# -- queues


def test_a_virtual_host_has_so_many_queues_and_no_more(broker: Broker, alice: Client) -> None:
    broker.put_vhost_limit("/", "max-queues", 2)
    alice.queue("one")
    alice.queue("two", exclusive=True)
    for method in (QueueDeclare(queue="three"), QueueDeclare(queue="three", exclusive=True)):
        closed = alice.error(method)
        assert closed.code == 406
        assert closed.text == (
            "PRECONDITION_FAILED - cannot declare queue 'three': queue limit in vhost '/' (2) is reached"
        )
    alice.queue("one")


def test_shared_queues_have_the_type_that_is_the_virtual_hosts_default(broker: Broker, alice: Client) -> None:
    alice.queue("before", durable=True)
    broker.put_vhost("/", {"default_queue_type": "quorum"})
    for _ in range(2):
        alice.queue("before", durable=True)
        alice.queue("q", durable=True)
        alice.queue("asked", durable=True, x_queue_type="classic")
    alice.queue("mine", durable=True, exclusive=True)
    queues = broker.vhosts["/"].queues
    assert {name: queue.args.queue_type for name, queue in queues.items()} == {
        "before": "classic",
        "q": "quorum",
        "asked": "classic",
        "mine": "classic",
    }


# -- topic permissions


@pytest.fixture
def bound(broker: Broker, alice: Client) -> Client:
    """Somebody with a queue that gets all of amq.topic, before there are topic permissions."""
    alice.queue("q")
    alice.bind("q", "amq.topic", "#")
    alice.publish("before", exchange="amq.topic")
    permission = TopicPermission(write=r"^{username}\.", read="^({vhost}|allowed)$")
    broker.put_topic_permission("guest", "/", "amq.topic", permission)
    return alice


def test_only_permitted_topics_are_published(bound: Client) -> None:
    bound.publish("guest.a", exchange="amq.topic")
    bound.publish("before", exchange="amq.topic")
    closed = bound.channel_error()
    assert closed.code == 403
    assert closed.text == (
        "ACCESS_REFUSED - access to topic 'before' in exchange 'amq.topic' in vhost '/' refused for user 'guest'"
    )
    assert bound.count("q") == 2


def test_a_carbon_copy_is_no_way_around_topic_permissions(bound: Client) -> None:
    bound.publish("guest.a", exchange="amq.topic", headers={"CC": ["before"]})
    assert bound.channel_error().code == 403
    assert bound.count("q") == 1


def test_only_permitted_topics_are_bound(broker: Broker, bound: Client) -> None:
    bound.bind("q", "amq.topic", "allowed")
    bound.bind("q", "amq.topic", "/")
    for method in (
        QueueBind(queue="q", exchange="amq.topic", routing_key="a"),
        QueueUnbind(queue="q", exchange="amq.topic", routing_key="#"),
        ExchangeBind(source="amq.topic", destination="amq.fanout", routing_key="a"),
    ):
        closed = bound.error(method)
        assert (closed.code, closed.by) == (403, method.ID)
        assert f"access to topic '{method.routing_key}' in exchange 'amq.topic'" in closed.text


def test_topic_permissions_are_about_one_topic_exchange_of_one_user(broker: Broker, bound: Client, bob: Client) -> None:
    bob.publish("any", exchange="amq.topic")
    assert bob.count("q") == 2
    broker.put_topic_permission("guest", "/", "amq.direct", TopicPermission())
    bound.bind("q", "amq.direct", "k")
    bound.publish("k", exchange="amq.direct")
    broker.delete_topic_permissions("guest", "/")
    bound.publish("any", exchange="amq.topic")
    assert bound.count("q") == 4


def test_a_users_name_in_a_topic_permission_is_no_pattern() -> None:
    permission = TopicPermission(write="^{username}$", read="")
    user = User(name=".*", topic_permissions={"/": {"t": permission}})
    assert user.may_use_topic("write", "/", "t", ".*")
    assert not user.may_use_topic("write", "/", "t", "any")
    assert user.may_use_topic("read", "/", "t", "") and not user.may_use_topic("read", "/", "t", "any")
