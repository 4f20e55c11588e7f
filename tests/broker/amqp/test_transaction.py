"""Transactions: what a channel asks for happens at the commit, or never."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openclust.broker.server.broker import Broker
from openclust.wire.codec import method_frame
from openclust.wire.methods import (
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.support.client import Client

NewBroker = Callable[..., Broker]


def _begin(client: Client) -> None:
    client.call(TxSelect(), TxSelectOk)


def _commit(client: Client) -> None:
    client.call(TxCommit(), TxCommitOk)


def test_messages_appear_at_the_commit(alice: Client, bob: Client) -> None:
    alice.queue("q")
    _begin(alice)
    alice.publish("q", b"one")
    alice.publish("q", b"two")
    assert bob.count("q") == 0
    _commit(alice)
    got = [bob.get("q"), bob.get("q")]
    assert [each.body for each in got if each] == [b"one", b"two"]


def test_messages_vanish_at_the_rollback(alice: Client) -> None:
    alice.queue("q")
    _begin(alice)
    alice.publish("q")
    alice.call(TxRollback(), TxRollbackOk)
    _commit(alice)
    assert alice.count("q") == 0
    assert alice.broker.memory_accounts.held_bytes == 0


def test_messages_vanish_with_their_channel(alice: Client) -> None:
    alice.queue("q")
    _begin(alice)
    alice.publish("q")
    alice.call(ChannelClose(), ChannelCloseOk)
    assert alice.broker.memory_accounts.held_bytes == 0


def test_acks_count_from_the_commit(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q", b"x")
    _begin(alice)
    alice.get("q", no_ack=False)
    alice.ack(1)
    alice.call(TxRollback(), TxRollbackOk)
    alice.nack(1, requeue=True)
    _commit(alice)
    got = alice.get("q", no_ack=False)
    assert got is not None and got.redelivered
    alice.ack(got.tag)
    _commit(alice)
    alice.lose()
    assert alice.broker.memory_accounts.held_bytes == 0


def test_uncommitted_acks_return_with_the_connection(alice: Client, bob: Client) -> None:
    alice.queue("q")
    _begin(alice)
    alice.consume("q")
    for _ in range(4):
        alice.publish("q")
    _commit(alice)
    alice.ack(1)
    alice.nack(2)
    alice.nack(3, requeue=False)
    alice.lose()
    assert bob.count("q") == 4


def test_a_rolled_back_ack_can_be_given_again(alice: Client) -> None:
    alice.queue("q")
    for _ in range(5):
        alice.publish("q")
    _begin(alice)
    alice.consume("q")
    for tag in (2, 5, 1):
        alice.ack(tag)
    alice.call(TxRollback(), TxRollbackOk)
    alice.ack(4, multiple=True)
    alice.ack(5)
    _commit(alice)
    alice.lose()
    assert alice.broker.memory_accounts.held_bytes == 0


def test_a_committed_requeue_gives_credit_back(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=1), BasicQosOk)
    alice.publish("q", b"x")
    alice.publish("q", b"y")
    _begin(alice)
    alice.consume("q")
    alice.nack(1)
    assert alice.bodies() == [b"x"]
    _commit(alice)
    assert alice.bodies() == [b"x"]
    alice.nack(2, requeue=False)
    _commit(alice)
    assert alice.bodies() == [b"y"]


def test_prefetch_counts_until_the_commit(alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=1, global_=True), BasicQosOk)
    alice.publish("q", b"x")
    alice.publish("q", b"y")
    _begin(alice)
    alice.consume("q")
    alice.ack(1)
    assert alice.bodies() == [b"x"]
    _commit(alice)
    assert alice.bodies() == [b"y"]


def test_an_unknown_tag_is_refused_at_once(alice: Client) -> None:
    _begin(alice)
    alice.ack(9)
    assert alice.channel_error().code == 406


def test_a_mandatory_message_returns_at_the_commit(alice: Client) -> None:
    _begin(alice)
    alice.publish("nowhere", mandatory=True)
    assert alice.returns == []
    _commit(alice)
    assert len(alice.returns) == 1


def test_a_missing_exchange_is_refused_at_once(alice: Client) -> None:
    _begin(alice)
    alice.publish("key", exchange="nowhere")
    assert alice.channel_error().code == 404


def test_messages_go_where_they_would_at_the_commit(alice: Client) -> None:
    for name in ("gone", "anew", "stays"):
        alice.queue(name)
    _begin(alice)
    for name in ("gone", "anew", "stays", "late"):
        alice.publish(name)
    for name in ("gone", "anew"):
        alice.call(QueueDelete(queue=name), QueueDeleteOk)
    for name in ("anew", "late"):
        alice.queue(name)
    _commit(alice)
    assert [alice.count(name) for name in ("anew", "stays", "late")] == [1, 1, 1]


def test_copies_and_headers_are_looked_at_again_at_the_commit(alice: Client) -> None:
    alice.call(ExchangeDeclare(exchange="by headers", type="headers"), ExchangeDeclareOk)
    _begin(alice)
    alice.publish("", b"x", exchange="by headers", headers={"a": 1})
    alice.publish("nobody", b"y", headers={"CC": ["seen"], "BCC": ["blind"]})
    for name in ("matched", "seen", "blind"):
        alice.queue(name)
    alice.call(QueueBind(queue="matched", exchange="by headers", arguments={"a": 1}), QueueBindOk)
    _commit(alice)
    got = [alice.get(name) for name in ("matched", "seen", "blind")]
    assert [each.body for each in got if each] == [b"x", b"y", b"y"]
    assert got[1] is not None and got[1].headers == {"CC": ["seen"]}


def test_a_commit_whose_exchange_is_gone_does_nothing_at_all(alice: Client, bob: Client) -> None:
    alice.call(ExchangeDeclare(exchange="news", type="fanout"), ExchangeDeclareOk)
    alice.queue("q")
    alice.queue("work")
    alice.publish("work", b"job")
    _begin(alice)
    alice.get("work", no_ack=False)
    alice.publish("q", b"before")
    alice.publish("", b"x", exchange="news")
    alice.publish("q", b"after")
    alice.ack(1)
    bob.call(ExchangeDelete(exchange="news"), ExchangeDeleteOk)
    closed = alice.error(TxCommit())
    assert (closed.code, closed.by) == (404, (90, 20))
    assert (bob.count("q"), bob.count("work")) == (0, 1)
    assert bob.get("work") is not None and bob.broker.memory_accounts.held_bytes == 0


@pytest.mark.parametrize("limit", [{"x_max_length": 2}, {"x_max_length_bytes": 2}])
def test_a_commit_for_which_a_queue_has_no_room_does_nothing_at_all(alice: Client, limit: dict[str, int]) -> None:
    alice.queue("small", x_overflow="reject-publish", **limit)
    alice.queue("large")
    alice.publish("small", b"1")
    _begin(alice)
    for body in (b"2", b"3"):
        alice.publish("large", body)
        alice.publish("small", body)
    closed = alice.error(TxCommit())
    assert closed.code == 406 and "'small'" in closed.text
    assert (alice.count("small"), alice.count("large")) == (1, 0)
    _begin(alice)
    alice.publish("small", b"2")
    _commit(alice)
    assert alice.count("small") == 2


def test_dead_letters_of_a_commit_are_part_of_it(alice: Client) -> None:
    alice.queue("dead")
    alice.queue("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    alice.publish("q", b"x")
    _begin(alice)
    alice.get("q", no_ack=False)
    alice.nack(1, requeue=False)
    assert alice.count("dead") == 0
    alice.connection.receive(method_frame(1, TxCommit()))
    dead = alice.broker.vhosts["/"].queues["dead"]
    assert len(dead) == 1 and not alice.broker.dead_letters, "in this turn, and before its end"


def test_commit_and_rollback_want_a_transaction(alice: Client) -> None:
    commit, rollback = alice.error(TxCommit()), alice.error(TxRollback())
    assert (commit.code, commit.by) == (406, (90, 20))
    assert (rollback.code, rollback.by) == (406, (90, 30))
    assert "channel is not transactional" in commit.text


def test_select_twice_keeps_the_transaction(alice: Client) -> None:
    alice.queue("q")
    _begin(alice)
    alice.publish("q")
    _begin(alice)
    _commit(alice)
    assert alice.count("q") == 1


def test_recover_returns_only_what_is_not_acknowledged(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q", b"acked")
    alice.publish("q", b"not")
    _begin(alice)
    alice.get("q", no_ack=False)
    alice.get("q", no_ack=False)
    alice.ack(1)
    alice.call(BasicRecover(requeue=True), BasicRecoverOk)
    assert alice.count("q") == 1
    _commit(alice)
    assert alice.count("q") == 1


def test_a_transaction_is_bounded_in_bytes(new_broker: NewBroker) -> None:
    client = Client(new_broker(transaction_bytes_max=2_000))
    client.queue("q")
    _begin(client)
    client.publish("q", b"x" * 1_000)
    client.publish("q", b"x" * 1_000)
    closed = client.channel_error()
    assert (closed.code, closed.by) == (506, (60, 40))
    assert client.broker.memory_accounts.held_bytes == 0


def test_a_transaction_of_empty_messages_is_bounded_too(new_broker: NewBroker) -> None:
    client = Client(new_broker(transaction_bytes_max=2_000))
    _begin(client)
    for _ in range(10):
        client.publish("nowhere")
        if client.replies[1]:
            break
    assert client.channel_error().code == 506


def test_uncommitted_messages_are_in_the_memory_accounts(alice: Client) -> None:
    alice.queue("q")
    _begin(alice)
    alice.publish("q", b"x" * 1_000)
    assert alice.broker.memory_accounts.held_bytes > 1_000
    alice.call(TxRollback(), TxRollbackOk)
    assert alice.broker.memory_accounts.held_bytes == 0


def test_uncommitted_acks_count_against_the_bound_of_deliveries(new_broker: NewBroker) -> None:
    client = Client(new_broker(unacked_per_channel_max=3))
    client.queue("q")
    for _ in range(9):
        client.publish("q")
    _begin(client)
    client.consume("q")
    client.ack(3, multiple=True)
    assert len(client.deliveries()) == 3
    _commit(client)
    assert len(client.deliveries()) == 3
