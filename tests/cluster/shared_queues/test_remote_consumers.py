"""Consumers on brokers that are not root: what a client sees there is what it would see at the root."""

from __future__ import annotations

import pytest

from openclust.broker.model.changes import DeletePolicy, PutPolicy
from openclust.broker.model.policy import Policy
from openclust.broker.queues.queue import Queue
from openclust.cluster.shared_queues.consumer_proxy import ConsumerProxy
from openclust.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.support.cluster.joined import Application, Joined

PLACES = ("p1", "p2", "s1")


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3", secondaries=("s1",))


def at_root(cluster: Joined, name: str = "q") -> Queue:
    return cluster.broker(cluster.root).vhosts["/"].queues[name]


def open_counts(cluster: Joined, name: str = "q") -> tuple[int, int]:
    """How many messages are ready and how many unacknowledged, at the root."""
    queue = at_root(cluster, name)
    return len(queue), queue.unacked


def proxies(cluster: Joined) -> list[ConsumerProxy]:
    return list(cluster[cluster.root].consumer_proxies)


def fill(client: Application, *bodies: bytes, queue: str = "q") -> None:
    for body in bodies:
        client.publish(queue, body)


def qos(client: Application, count: int, *, all_together: bool = False) -> None:
    client.call(BasicQos(prefetch_count=count, global_=all_together), BasicQosOk)


# -- deliveries and their answers


@pytest.mark.parametrize("publisher", PLACES)
@pytest.mark.parametrize("consumer", PLACES)
def test_a_message_reaches_a_consumer_at_any_broker_from_any_other(
    cluster: Joined, publisher: str, consumer: str
) -> None:
    client = cluster.client(consumer)
    client.queue("q")
    client.consume("q", "tag")
    cluster.client(publisher).publish("q", b"body", content_type="text/plain", headers={"a": 1})
    (got,) = client.deliveries()
    assert got.body == b"body" and got.headers == {"a": 1} and got.properties.content_type == "text/plain"
    assert (got.method.routing_key, got.method.exchange, got.redelivered, got.tag) == ("q", "", False, 1)
    assert open_counts(cluster) == (0, 1)
    client.ack(got.tag)
    assert open_counts(cluster) == (0, 0)


def test_what_waited_before_the_consumer_came_is_delivered_in_order_behind_the_answer(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    fill(client, b"1", b"2", b"3")
    client.consume("q")
    assert client.bodies() == [b"1", b"2", b"3"]


def test_a_message_larger_than_a_frame_arrives_whole(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    body = bytes(300_000)
    client.publish("q", body, pieces=100_000)
    assert client.bodies() == [body]


def test_keys_that_take_turns_are_each_delivered_as_their_own(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    for key in ("a", "b"):
        client.bind("q", "amq.direct", key)
    client.consume("q")
    for key in ("a", "b", "a"):
        client.publish(key, b"", exchange="amq.direct")
    assert [(each.method.exchange, each.method.routing_key) for each in client.deliveries()] == [
        ("amq.direct", "a"),
        ("amq.direct", "b"),
        ("amq.direct", "a"),
    ]


def test_acks_in_any_order_and_many_at_once_settle_what_they_name(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    fill(client, *(b"%d" % number for number in range(1, 9)))
    client.ack(2)
    client.ack(7)
    client.ack(4, multiple=True)
    assert open_counts(cluster) == (0, 3)
    client.lose()
    again = cluster.client("p1")
    again.consume("q")
    assert again.bodies() == [b"5", b"6", b"8"]


def test_what_is_refused_comes_again_in_its_old_place_and_marked(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    qos(client, 2)
    client.consume("q")
    fill(client, b"1", b"2", b"3", b"4")
    assert client.bodies() == [b"1", b"2"]
    client.nack(2, multiple=True)
    assert [(each.body, each.redelivered) for each in client.deliveries()] == [(b"1", True), (b"2", True)]
    client.send(BasicReject(delivery_tag=4, requeue=True))
    assert [(each.body, each.redelivered) for each in client.deliveries()] == [(b"2", True)]


def test_a_quorum_queue_tells_how_often_a_message_came_back(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.call(QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"}))
    client.consume("q")
    fill(client, b"1")
    client.nack(1)
    client.nack(2)
    assert [each.headers for each in client.deliveries()] == [{}, {"x-delivery-count": 1}, {"x-delivery-count": 2}]


def test_what_is_rejected_is_dead_lettered_by_the_root(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("dead")
    client.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    client.consume("q")
    fill(client, b"1", b"2")
    client.send(BasicReject(delivery_tag=1, requeue=False), BasicNack(delivery_tag=2, requeue=False))
    assert open_counts(cluster) == (0, 0)
    (first, second) = (client.get("dead"), client.get("dead"))
    assert first is not None and second is not None
    assert (first.body, second.body) == (b"1", b"2")
    assert first.headers["x-first-death-reason"] == "rejected"


def test_recover_returns_all_that_is_unacknowledged(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.queue("q")
    client.consume("q")
    fill(client, b"1", b"2", b"3")
    client.ack(2)
    client.deliveries()
    client.call(BasicRecover(requeue=True), BasicRecoverOk)
    assert [(each.body, each.redelivered) for each in client.deliveries()] == [(b"1", True), (b"3", True)]


def test_acks_count_when_their_transaction_commits(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    fill(client, b"1", b"2")
    client.call(TxSelect(), TxSelectOk)
    client.ack(1)
    client.call(TxRollback(), TxRollbackOk)
    assert open_counts(cluster) == (0, 2)
    client.ack(1)
    client.call(TxCommit(), TxCommitOk)
    assert open_counts(cluster) == (0, 1)


@pytest.mark.parametrize("how", ["channel", "connection"])
def test_what_a_consumer_leaves_behind_goes_to_the_next(cluster: Joined, how: str) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q")
    fill(client, b"1", b"2")
    client.ack(1)
    if how == "channel":
        client.call(ChannelClose(), ChannelCloseOk)
    else:
        client.lose()
    assert open_counts(cluster) == (1, 0) and proxies(cluster) == []
    other = cluster.client("p3")
    other.consume("q")
    assert [(each.body, each.redelivered) for each in other.deliveries()] == [(b"2", True)]


def test_a_consumer_that_is_cancelled_may_still_acknowledge_what_it_has(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q", "tag")
    fill(client, b"1", b"2", b"3")
    client.call(BasicCancel(consumer_tag="tag"), BasicCancelOk)
    fill(client, b"4")
    assert client.bodies() == [b"1", b"2", b"3"]
    assert open_counts(cluster) == (1, 3) and client.consumers("q") == 0
    client.ack(2, multiple=True)
    assert open_counts(cluster) == (1, 1)
    client.nack(3)
    assert open_counts(cluster) == (2, 0)
    assert proxies(cluster) == []


def test_what_was_on_its_way_to_a_consumer_that_is_cancelled_goes_back(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q", "tag")
    cluster.hold("p1", "p2")
    fill(cluster.client("p3"), b"1", b"2")
    client.call(BasicCancel(consumer_tag="tag"), BasicCancelOk)
    assert open_counts(cluster) == (0, 2)
    cluster.let_go("p1", "p2")
    assert client.bodies() == []
    assert open_counts(cluster) == (2, 0) and proxies(cluster) == []


# -- credit


def test_a_prefetch_holds_across_brokers(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    qos(client, 2)
    client.consume("q")
    fill(client, b"1", b"2", b"3", b"4")
    assert client.bodies() == [b"1", b"2"]
    assert open_counts(cluster) == (2, 2), "the rest stays at the root, for others"
    client.ack(1)
    assert client.bodies() == [b"3"]


def test_a_prefetch_for_the_whole_channel_holds_across_brokers(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.queue("r")
    qos(client, 3, all_together=True)
    client.consume("q")
    client.consume("r")
    fill(client, b"1", b"2")
    fill(client, b"3", b"4", queue="r")
    assert sorted(client.bodies()) == [b"1", b"2", b"3"]
    client.ack(1)
    assert client.bodies() == [b"4"]


def test_a_used_up_prefetch_of_the_channel_holds_back_consumers_without_acks_across_brokers(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.queue("r")
    qos(client, 1, all_together=True)
    client.consume("q")
    client.consume("r", no_ack=True)
    fill(client, b"1", queue="r")
    fill(client, b"2")
    fill(client, b"3", b"4", queue="r")
    assert client.bodies() == [b"1", b"2"]
    client.ack(2)
    assert client.bodies() == [b"3", b"4"]


def test_a_prefetch_that_grows_or_shrinks_is_told_to_the_root(cluster: Joined) -> None:
    """kombu does this to a channel that has consumers, while tasks wait for their eta."""
    client = cluster.client("p2")
    client.queue("q")
    qos(client, 1, all_together=True)
    client.consume("q")
    fill(client, *(b"%d" % number for number in range(1, 9)))
    assert client.bodies() == [b"1"]
    qos(client, 4, all_together=True)
    assert client.bodies() == [b"2", b"3", b"4"]
    qos(client, 2, all_together=True)
    client.ack(1)
    client.ack(2)
    assert client.bodies() == [] and open_counts(cluster) == (4, 2)
    client.ack(3)
    assert client.bodies() == [b"5"]
    qos(client, 0, all_together=True)
    assert client.bodies() == [b"6", b"7", b"8"]


def bound_prefetch(cluster: Joined, most: int | None) -> None:
    """By a policy for all queues, set at a secondary; None takes it away."""
    policy = Policy(vhost="/", name="p", pattern=".*", definition={"consumer-prefetch-max": most})
    change = DeletePolicy(vhost="/", name="p") if most is None else PutPolicy(vhost="/", policy=policy)
    cluster.broker("s1").define(change)
    cluster.settle()


def received(cluster: Joined, client: Application) -> int:
    cluster.settle()
    return len(client.deliveries())


@pytest.mark.parametrize("place", PLACES)
def test_a_policy_bounds_the_prefetch_of_consumers_at_every_broker(cluster: Joined, place: str) -> None:
    client = cluster.client(place)
    client.queue("q")
    bound_prefetch(cluster, 2)
    client.consume("q")
    fill(client, *(b"%d" % number for number in range(1, 10)))
    assert received(cluster, client) == 2
    assert open_counts(cluster) == (7, 2), "the rest stays at the root, for others"
    bound_prefetch(cluster, 3)
    assert received(cluster, client) == 1
    bound_prefetch(cluster, 1)
    client.ack(2, multiple=True)
    assert received(cluster, client) == 0
    client.ack(3)
    assert received(cluster, client) == 1
    bound_prefetch(cluster, None)
    assert received(cluster, client) == 5, "it asked for no bound"


@pytest.mark.parametrize("place", ["p2", "s1"])
def test_a_qos_for_the_whole_channel_does_not_lift_a_policys_prefetch(cluster: Joined, place: str) -> None:
    """Celery raises its qos for each task that waits for its eta."""
    client = cluster.client(place)
    client.queue("q")
    bound_prefetch(cluster, 3)
    qos(client, 1, all_together=True)
    client.consume("q")
    fill(client, *(b"%d" % number for number in range(1, 9)))
    assert received(cluster, client) == 1
    qos(client, 6, all_together=True)
    assert received(cluster, client) == 2
    qos(client, 0, all_together=True)
    assert received(cluster, client) == 0


@pytest.mark.parametrize("place", ["p1", "p2", "p3", "s1"])
def test_a_policys_prefetch_and_its_end_follow_the_root(cluster: Joined, place: str) -> None:
    """p1 is root at first; the consumer asks for five, wherever it is."""
    client = cluster.client(place)
    client.queue("q")
    qos(client, 5)
    bound_prefetch(cluster, 2)
    client.consume("q")
    fill(client, *(b"%d" % number for number in range(1, 13)))
    assert received(cluster, client) == 2
    cluster.step_down(cluster.root)
    cluster.await_root()
    assert cluster.root != "p1"
    assert received(cluster, client) == 0, "it holds two, if not of this root"
    client.ack(2, multiple=True)
    assert received(cluster, client) == 2
    bound_prefetch(cluster, None)
    assert received(cluster, client) == 3
    client.ack(7, multiple=True)
    assert received(cluster, client) == 5, "without the policy as many as it asked for"
    client.ack(12, multiple=True)
    cluster.step_down(cluster.root)
    cluster.await_root()
    fill(client, *(b"%d" % number for number in range(1, 13)))
    assert received(cluster, client) == 5, "no root keeps a bound that is gone"


@pytest.mark.parametrize("place", PLACES)
def test_a_policys_timeout_reaches_consumers_at_every_broker(cluster: Joined, place: str) -> None:
    client = cluster.client(place)
    client.queue("q")
    client.consume("q")
    policy = Policy(vhost="/", name="p", pattern=".*", definition={"consumer-timeout": 500})
    cluster.broker("s1").define(PutPolicy(vhost="/", policy=policy))
    cluster.settle()
    fill(client, b"1")
    cluster.tick(700)
    assert client.channel_error().code == 406


def test_a_policys_prefetch_is_nothing_to_consumers_without_acks_elsewhere(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.queue("q")
    bound_prefetch(cluster, 1)
    client.consume("q", no_ack=True)
    fill(client, b"1", b"2", b"3")
    assert received(cluster, client) == 3


def test_what_one_consumer_may_not_take_goes_to_another(cluster: Joined) -> None:
    first, second = cluster.client("p2"), cluster.client("s1")
    first.queue("q")
    for client in (first, second):
        qos(client, 1)
        client.consume("q")
    fill(first, b"1", b"2", b"3")
    assert (first.bodies(), second.bodies()) == ([b"1"], [b"2"])
    second.ack(1)
    assert second.bodies() == [b"3"]


# -- get


def test_a_get_tells_what_is_left_and_may_be_acknowledged(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    assert client.get("q") is None
    fill(client, b"1", b"2", b"3")
    got = client.get("q", no_ack=False)
    assert got is not None and isinstance(got.method, BasicGetOk)
    assert (got.body, got.method.message_count, got.redelivered) == (b"1", 2, False)
    assert open_counts(cluster) == (2, 1)
    client.ack(got.tag)
    assert open_counts(cluster) == (2, 0) and cluster.broker("p2").memory_accounts.held_bytes == 0
    assert client.get("q", no_ack=True) is not None
    assert open_counts(cluster) == (1, 0)


def test_a_fetched_message_that_is_refused_goes_back_and_is_marked(cluster: Joined) -> None:
    client = cluster.client("s1")
    client.queue("q")
    fill(client, b"1", b"2")
    client.get("q", no_ack=False)
    client.nack(1)
    got = client.get("q", no_ack=False)
    assert got is not None and (got.body, got.redelivered) == (b"1", True)
    client.lose()
    assert open_counts(cluster) == (2, 0)


def test_a_fetched_message_whose_client_left_meanwhile_goes_back(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    fill(client, b"1")
    cluster.hold("p1", "p2")
    client.send(BasicGet(queue="q"))
    assert open_counts(cluster) == (0, 1)
    client.lose()
    cluster.let_go("p1", "p2")
    assert open_counts(cluster) == (1, 0)


# -- refusals, and ends


def test_a_consumer_whose_queue_is_deleted_is_told(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    client.consume("q", "tag")
    fill(client, b"1")
    cluster.client("s1").call(QueueDelete(queue="q"), QueueDeleteOk)
    assert client.cancelled == ["tag"]
    client.ack(1)
    assert client.closed is None and proxies(cluster) == []
    assert cluster.broker("p1").memory_accounts.held_bytes == cluster.broker("p2").memory_accounts.held_bytes == 0


def test_a_queue_in_exclusive_use_is_refused_at_every_other_broker(cluster: Joined) -> None:
    first, second = cluster.client("p2"), cluster.client("p3")
    first.queue("q")
    first.consume("q", "tag", exclusive=True)
    second.send(_consume("q"))
    refused = second.channel_error()
    assert refused.code == 403 and "exclusive use" in refused.text
    first.call(BasicCancel(consumer_tag="tag"), BasicCancelOk)
    second.consume("q")
    first.send(_consume("q", exclusive=True))
    assert first.channel_error().code == 403


def test_an_auto_delete_queue_goes_with_its_last_consumer_at_whatever_broker(cluster: Joined) -> None:
    client, other = cluster.client("p2"), cluster.client("s1")
    client.queue("q", auto_delete=True)
    client.consume("q", "tag")
    other.consume("q")
    client.call(BasicCancel(consumer_tag="tag"), BasicCancelOk)
    assert "q" in cluster.broker("p3").vhosts["/"].queues
    other.lose()
    assert [name for name in cluster.members if "q" in cluster.broker(name).vhosts["/"].queues] == []


def test_a_consumer_that_left_before_the_answer_is_none(cluster: Joined) -> None:
    client = cluster.client("p2")
    client.queue("q")
    fill(client, b"1")
    cluster.hold("p1", "p2")
    client.send(_consume("q"))
    assert len(proxies(cluster)) == 1
    client.lose()
    cluster.let_go("p1", "p2")
    assert proxies(cluster) == [] and open_counts(cluster) == (1, 0)
    assert len(cluster["p2"].remote_consumers) == 0


def _consume(queue: str, *, exclusive: bool = False) -> BasicConsume:
    return BasicConsume(queue=queue, exclusive=exclusive)
