"""Consumers follow the root: it moves, it is lost, it is this broker itself; and what they held before is void."""

from __future__ import annotations

import pytest

from openclust.broker.queues.queue import Queue
from openclust.cluster.election.events import StepDown
from openclust.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicQos,
    BasicQosOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.support.cluster.joined import Application, Joined


@pytest.fixture
def cluster() -> Joined:
    return Joined("p1", "p2", "p3", secondaries=("s1",))


def at(cluster: Joined, name: str) -> Queue:
    return cluster.broker(name).vhosts["/"].queues["q"]


def consumer_at(cluster: Joined, name: str, *, prefetch: int = 0, no_ack: bool = False) -> Application:
    client = cluster.client(name)
    client.queue("q")
    client.call(BasicQos(prefetch_count=prefetch), BasicQosOk)
    client.consume("q", "tag", no_ack=no_ack)
    return client


def bodies_and_marks(client: Application) -> list[tuple[bytes, bool]]:
    return [(each.body, each.redelivered) for each in client.deliveries()]


@pytest.mark.parametrize("name", ["p2", "p3", "s1"])
def test_consumers_go_on_at_the_next_root(cluster: Joined, name: str) -> None:
    client = consumer_at(cluster, name)
    client.publish("q", b"before")
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    client.publish("q", b"after")
    assert client.bodies() == [b"before", b"after"]
    assert client.consumers("q") == 1
    client.ack(1)
    assert at(cluster, "p2").unacked == 1, "what the old root had delivered is nothing to the new one"
    client.ack(2)
    assert at(cluster, "p2").unacked == 0 and client.closed is None


def test_old_deliveries_use_credit_until_they_are_acknowledged(cluster: Joined) -> None:
    client = consumer_at(cluster, "p3", prefetch=2)
    for body in (b"1", b"2"):
        client.publish("q", body)
    cluster.kill("p1")
    cluster.await_root()
    for body in (b"3", b"4", b"5"):
        client.publish("q", body)
    assert client.bodies() == [b"1", b"2"]
    client.ack(2, multiple=True)
    assert client.bodies() == [b"3", b"4"]
    client.ack(3)
    assert client.bodies() == [b"5"]
    client.ack(5, multiple=True)
    assert at(cluster, "p2").unacked == 0
    assert all(cluster.broker(name).memory_accounts.held_bytes == 0 for name in ("p2", "p3"))


def test_what_the_root_had_delivered_when_it_resigned_comes_again_from_the_next(cluster: Joined) -> None:
    client = consumer_at(cluster, "p1")
    client.publish("q", b"1")
    cluster["p1"].tell(StepDown(cluster.now_ms, "told to"))
    assert cluster.root == "" and (len(at(cluster, "p1")), at(cluster, "p1").unacked) == (1, 0)
    # That ack comes too late.
    client.ack(1)
    assert cluster.await_root() == "p2"
    client.publish("q", b"2")
    assert bodies_and_marks(client) == [(b"1", False), (b"1", True), (b"2", False)]
    assert client.consumers("q") == 1
    client.ack(2, 3)
    assert [(len(at(cluster, name)), at(cluster, name).unacked) for name in ("p1", "p2")] == [(0, 0), (0, 0)]


def test_a_consumer_of_the_broker_that_becomes_root_is_a_plain_one_from_then_on(cluster: Joined) -> None:
    client = consumer_at(cluster, "p2", prefetch=1)
    client.publish("q", b"1")
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    assert len(cluster["p2"].remote_consumers) == 0 and client.consumers("q") == 1
    for body in (b"2", b"3"):
        client.publish("q", body)
    assert client.bodies() == [b"1"]
    client.ack(1)
    assert client.bodies() == [b"2"]
    client.ack(2)
    assert client.bodies() == [b"3"]
    client.call(BasicCancel(consumer_tag="tag"), BasicCancelOk)
    assert client.consumers("q") == 0


def test_what_was_not_read_yet_without_acks_is_not_lost_with_the_root() -> None:
    cluster = Joined("p1", "p2", "p3", outbox_bytes_max=2_000)
    clients = {name: consumer_at(cluster, name, no_ack=True) for name in ("p2", "p3")}
    for client in clients.values():
        client.stop_reading()
    publisher = cluster.client("p3")
    for number in range(400):
        publisher.publish("q", b"%d" % number)
    cluster.kill("p1")
    assert cluster.await_root() == "p2"
    publisher.publish("q", b"last")
    publisher.publish("q", b"last")
    got: list[bytes] = []
    for client in clients.values():
        client.is_reading = True
        client.read_on()
        got += client.bodies()
    assert got.count(b"last") == 2
    assert sorted(int(body) for body in got if body != b"last") == list(range(400))


def test_what_was_kept_for_a_client_is_not_delivered_beside_what_the_root_sends_again() -> None:
    cluster = Joined("p1", "p2", "p3", outbox_bytes_max=2_000)
    client = consumer_at(cluster, "p3")
    client.stop_reading()
    publisher = cluster.client("p1")
    for number in range(300):
        publisher.publish("q", b"%d" % number)
    cluster.cut("p1", "p3")
    read = client.connection.channels[1].delivery_tag
    assert 0 < read < 200
    cluster.mend("p1", "p3")
    cluster.tick(500)
    client.is_reading = True
    client.read_on()
    assert len(client.deliveries()) == read + 300
    client.ack(read + 300, multiple=True)
    assert at(cluster, "p1").unacked == len(at(cluster, "p1")) == 0
    assert cluster.broker("p1").memory_accounts.held_bytes == cluster.broker("p3").memory_accounts.held_bytes == 0


def test_who_is_cut_off_from_the_root_registers_again_when_it_is_back(cluster: Joined) -> None:
    client = consumer_at(cluster, "s1")
    client.publish("q", b"1")
    cluster.cut("p1", "s1")
    assert (len(at(cluster, "p1")), at(cluster, "p1").unacked) == (1, 0)
    cluster.mend("p1", "s1")
    cluster.tick(500)
    assert bodies_and_marks(client) == [(b"1", False), (b"1", True)]
    client.ack(1)
    assert at(cluster, "p1").unacked == 1
    client.ack(2)
    assert at(cluster, "p1").unacked == 0


@pytest.mark.parametrize(("dialling", "dialled"), [("p1", "p3"), ("p3", "p1")])
def test_a_new_link_in_either_direction_makes_one_consumer_of_two(cluster: Joined, dialling: str, dialled: str) -> None:
    client = consumer_at(cluster, "p3")
    client.publish("q", b"1")
    cluster.redial(dialling, dialled)
    cluster.tick(500)
    assert client.consumers("q") == 1
    assert bodies_and_marks(client) == [(b"1", False), (b"1", True)]
    client.ack(2, multiple=True)
    assert (len(at(cluster, "p1")), at(cluster, "p1").unacked) == (0, 0)


def test_a_second_word_of_the_same_root_changes_nothing_for_the_client(cluster: Joined) -> None:
    client = consumer_at(cluster, "p3")
    cluster["p3"].remote_consumers.register_again()
    cluster["p3"].remote_consumers.register_again()
    cluster.settle()
    client.publish("q", b"1")
    assert client.bodies() == [b"1"] and client.consumers("q") == 1
    client.ack(1)
    assert at(cluster, "p1").unacked == 0


def test_who_asks_while_there_is_no_root_consumes_from_the_next(cluster: Joined) -> None:
    client = cluster.client("p3")
    client.queue("q")
    cluster.kill("p1")
    client.send(BasicConsume(queue="q", consumer_tag="tag"))
    assert not client.replies.get(1)
    cluster.await_root()
    client.reply()
    client.publish("q", b"1")
    assert client.bodies() == [b"1"]


def test_who_asks_while_there_is_no_root_may_be_with_the_next(cluster: Joined) -> None:
    clients = {name: cluster.client(name) for name in ("p2", "s1")}
    clients["p2"].queue("q")
    clients["p2"].publish("q", b"void")
    cluster.kill("p1")
    for client in clients.values():
        client.send(BasicConsume(queue="q", consumer_tag="tag"))
    cluster.await_root()
    for client in clients.values():
        client.reply()
        client.publish("q", b"1")
    assert [client.bodies() for client in clients.values()] == [[b"1"], [b"1"]]
    assert clients["p2"].consumers("q") == 2


def test_who_fetches_while_there_is_no_root_fetches_from_the_next(cluster: Joined) -> None:
    clients = {name: cluster.client(name) for name in ("p2", "p3")}
    clients["p2"].queue("q")
    cluster.kill("p1")
    clients["p2"].send(BasicGet(queue="q"))
    cluster.await_root()
    assert "GetEmpty" in type(clients["p2"].reply()).__name__
    clients["p3"].publish("q", b"1")
    got = clients["p3"].get("q", no_ack=False)
    assert got is not None
    clients["p3"].ack(got.tag)
    assert at(cluster, "p2").unacked == 0


def test_an_answer_of_the_old_root_is_asked_for_again(cluster: Joined) -> None:
    """Between question and answer the link was made anew: what the root made of it then is void."""
    client = cluster.client("p3")
    client.queue("q")
    client.publish("q", b"1")
    cluster.hold("p1", "p3")
    client.send(BasicConsume(queue="q", consumer_tag="tag"))
    cluster["p3"].remote_consumers.register_again()
    cluster.let_go("p1", "p3")
    client.reply()
    assert [body for body, _ in bodies_and_marks(client)] == [b"1"]
    assert client.consumers("q") == 1 and at(cluster, "p1").unacked == 1
    client.ack(1)
    assert at(cluster, "p1").unacked == 0


def test_a_consumer_that_leaves_while_there_is_no_root_does_not_come_back(cluster: Joined) -> None:
    client = consumer_at(cluster, "p3")
    cluster.kill("p1")
    client.call(BasicCancel(consumer_tag="tag"), BasicCancelOk)
    cluster.await_root()
    assert client.consumers("q") == 0


def test_a_consumer_whose_queue_the_next_root_does_not_know_is_told(cluster: Joined) -> None:
    client = consumer_at(cluster, "p3")
    for name in ("p2", "p3"):
        cluster.broker(name).vhosts["/"].delete_queue("q")
    cluster.kill("p1")
    cluster.await_root()
    cluster.settle()
    assert client.cancelled == ["tag"]


def test_an_exclusive_consumer_keeps_its_place_when_the_root_moves(cluster: Joined) -> None:
    client = cluster.client("p3")
    client.queue("q")
    client.consume("q", "tag", exclusive=True)
    cluster.kill("p1")
    cluster.await_root()
    other = cluster.client("p2")
    other.send(BasicConsume(queue="q"))
    assert other.channel_error().code == 403
    assert client.cancelled == []


def test_a_message_that_is_fetched_twice_for_one_question_goes_back_once(cluster: Joined) -> None:
    client = cluster.client("p3")
    client.queue("q")
    for body in (b"1", b"2"):
        client.publish("q", body)
    cluster.hold("p1", "p3")
    client.send(BasicGet(queue="q"))
    cluster["p3"].root_requests.ask_again()
    cluster.settle()
    assert at(cluster, "p1").unacked == 2
    cluster.let_go("p1", "p3")
    assert client.bodies() == [b"1"]
    assert (len(at(cluster, "p1")), at(cluster, "p1").unacked) == (1, 1)
    client.ack(1)
    assert (len(at(cluster, "p1")), at(cluster, "p1").unacked) == (1, 0)


def test_what_was_fetched_in_a_time_that_is_over_is_fetched_again(cluster: Joined) -> None:
    client = cluster.client("p3")
    client.queue("q")
    client.publish("q", b"1")
    cluster.hold("p1", "p3")
    client.send(BasicGet(queue="q"))
    cluster["p3"].remote_consumers.register_again()
    cluster.let_go("p1", "p3")
    assert client.bodies() == [b"1"]
    client.ack(1)
    assert (len(at(cluster, "p1")), at(cluster, "p1").unacked) == (0, 0)


def test_a_root_that_resigns_has_its_messages_of_open_transactions_back(cluster: Joined) -> None:
    client = consumer_at(cluster, "p1")
    client.call(TxSelect(), TxSelectOk)
    for body in (b"1", b"2"):
        client.publish("q", body)
    client.call(TxCommit(), TxCommitOk)
    client.ack(1)
    cluster["p1"].tell(StepDown(cluster.now_ms, "told to"))
    cluster.settle()
    assert cluster.await_root() == "p2"
    client.ack(2)
    # They went to the new root, which has delivered them again: here they are nobody's to settle.
    assert [(len(at(cluster, name)), at(cluster, name).unacked) for name in ("p1", "p2")] == [(0, 0), (0, 2)]
    closed = client.error(TxCommit())
    assert closed.code == 406 and "went back to their queues" in closed.text


def test_questions_of_a_time_that_is_over_are_not_asked_again(cluster: Joined) -> None:
    client = consumer_at(cluster, "p3")
    cluster.hold("p3", "p1")
    for _ in range(5):
        cluster["p3"].remote_consumers.register_again()
    assert len(cluster["p3"].root_requests) == 1
    cluster.let_go("p3", "p1")
    client.publish("q", b"1")
    assert client.bodies() == [b"1"] and client.consumers("q") == 1
    assert len(cluster["p3"].root_requests) == 0
