"""What operators change while clients are there: users, permissions, virtual hosts, policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from openclust.broker.model.access import Permission, User
from openclust.broker.model.changes import DeleteQueue, PutPolicy
from openclust.broker.model.policy import Policy
from openclust.broker.server.broker import Broker
from openclust.broker.server.standalone import Standalone
from openclust.wire.errors import AmqpError, ChannelError
from openclust.wire.methods import (
    BasicConsume,
    BasicQos,
    BasicQosOk,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionTuneOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.client import EVERYTHING, Client
from tests.support.driver import later, turn

NewBroker = Callable[..., Broker]


def _policy(broker: Broker, name: str = "p", *, operator: bool = False, pattern: str = ".*", **definition: Any) -> None:
    settings = {key.replace("_", "-"): value for key, value in definition.items()}
    broker.put_policy(Policy(vhost="/", name=name, pattern=pattern, definition=settings), operator=operator)
    turn(broker)


# -- users


def test_who_is_deleted_has_to_go(broker: Broker, alice: Client, bob: Client) -> None:
    alice.queue("q", exclusive=True)
    broker.delete_user("guest")
    turn(broker)
    assert alice.closed is not None and alice.closed.code == 320
    assert "'guest'" in alice.closed.text
    alice.send(ConnectionCloseOk(), channel=0)
    assert alice.is_finished
    bob.queue("q")


def test_who_is_missing_in_the_new_list_of_users_has_to_go(broker: Broker, alice: Client, bob: Client) -> None:
    broker.replace_users([User(name="guest", permissions={"/": EVERYTHING})])
    turn(broker)
    assert bob.closed is not None and bob.closed.code == 320
    alice.queue("q")


def test_who_is_deleted_before_opening_does_not_get_in(broker: Broker) -> None:
    client = Client(broker, log_in=False)
    client.start()
    broker.delete_user("guest")
    client.send(ConnectionTuneOk(), ConnectionOpen(), channel=0)
    assert client.closed is not None and client.closed.code == 530


def test_changed_permissions_count_at_once(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    broker.put_permission("guest", "/", Permission(configure=".*"))
    assert alice.error(BasicConsume(queue="q")).code == 403
    alice.publish("q")
    assert alice.channel_error().code == 403


def test_whose_permissions_are_taken_away_may_do_nothing_at_once(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    broker.delete_permission("guest", "/")
    alice.publish("q")
    assert alice.channel_error().code == 403
    with pytest.raises(ChannelError, match="user 'guest' has no permissions in vhost '/'"):
        broker.delete_permission("guest", "/")


def test_a_missing_user_or_virtual_host_is_named(broker: Broker) -> None:
    with pytest.raises(ChannelError, match="no user 'nobody'"):
        broker.delete_user("nobody")
    with pytest.raises(ChannelError, match="no user 'nobody'"):
        broker.put_permission("nobody", "/", EVERYTHING)
    with pytest.raises(ChannelError, match="no user 'nobody'"):
        broker.delete_permission("nobody", "/")
    with pytest.raises(ChannelError, match="no vhost 'nowhere'"):
        broker.put_permission("guest", "nowhere", EVERYTHING)


# -- virtual hosts


def test_a_deleted_virtual_host_takes_all_along(broker: Broker, alice: Client) -> None:
    broker.put_vhost("other")
    broker.put_permission("guest", "other", EVERYTHING)
    there = Client(broker, vhost="other")
    there.queue("q")
    there.bind("q", "amq.fanout")
    there.bind("q", "amq.topic", "a.*")
    there.publish("q")
    there.consume("q")
    broker.delete_vhost("other")
    turn(broker)
    assert there.closed is not None and there.closed.code == 320
    assert broker.binding_count == broker.queue_count == broker.memory_accounts.held_bytes == 0
    alice.queue("q")
    with pytest.raises(ChannelError, match="no vhost 'other'"):
        broker.delete_vhost("other")


# -- policies


def test_a_policy_holds_for_queues_that_are_there(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    alice.queue("other")
    for _ in range(5):
        alice.publish("q")
        alice.publish("other")
    _policy(broker, pattern="^q$", max_length=2)
    assert (alice.count("q"), alice.count("other")) == (2, 5)
    alice.publish("q")
    assert alice.count("q") == 2
    broker.delete_policy("/", "p")
    alice.publish("q")
    assert alice.count("q") == 3


def test_a_policy_is_no_difference_to_a_declaration(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    _policy(broker, max_length=2)
    alice.queue("q")


def test_of_two_limits_the_smaller_holds(broker: Broker, alice: Client) -> None:
    alice.queue("small", x_max_length=1)
    alice.queue("large", x_max_length=5)
    _policy(broker, max_length=3)
    _policy(broker, "o", operator=True, max_length=2)
    for name in ("small", "large"):
        for _ in range(6):
            alice.publish(name)
    assert (alice.count("small"), alice.count("large")) == (1, 2)


def test_an_operator_policy_goes_before_a_policy(broker: Broker, alice: Client) -> None:
    _policy(broker, message_ttl=1_000)
    _policy(broker, "o", operator=True, message_ttl=10)
    alice.queue("q")
    alice.publish("q")
    later(broker, 10)
    assert alice.count("q") == 0


def test_a_policy_gives_dead_letters_a_place(broker: Broker, alice: Client) -> None:
    alice.queue("q", x_max_length=1)
    alice.queue("dead")
    _policy(broker, pattern="^q$", dead_letter_exchange="", dead_letter_routing_key="dead")
    alice.publish("q")
    alice.publish("q")
    assert alice.count("dead") == 1


def test_a_policy_gives_exchanges_an_alternate(broker: Broker, alice: Client) -> None:
    alice.call(ExchangeDeclare(exchange="e"), ExchangeDeclareOk)
    alice.bind(alice.queue("q"), "amq.fanout")
    alice.publish("key", exchange="e")
    _policy(broker, pattern="^e$", alternate_exchange="amq.fanout")
    alice.publish("key", exchange="e")
    assert alice.count("q") == 1


def test_a_policy_lets_queues_expire(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    _policy(broker, pattern="^q$", expires=100)
    later(broker, 100)
    assert alice.error(QueueDeclare(queue="q", passive=True)).code == 404


def test_a_policy_turns_publishes_away(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    _policy(broker, max_length=1, overflow="reject-publish")
    for body in (b"1", b"2"):
        alice.publish("q", body)
    got = alice.get("q")
    assert got is not None and got.body == b"1"


def test_a_policy_starts_and_ends_a_dedup_window(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", no_ack=True)
    alice.publish("q", message_id="a")
    _policy(broker, message_deduplication=True)
    alice.publish("q", message_id="a")
    alice.publish("q", message_id="a")
    broker.delete_policy("/", "p")
    alice.publish("q", message_id="a")
    assert len(alice.deliveries()) == 3


def test_a_policy_holds_for_new_deliveries_of_consumers_that_are_there(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    alice.consume("q")
    _policy(broker, consumer_timeout=500)
    alice.publish("q")
    later(broker, 500)
    assert alice.channel_error().code == 406


def test_a_consumers_own_timeout_stands_before_a_policys(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", x_consumer_timeout=5_000)
    _policy(broker, consumer_timeout=500)
    alice.publish("q")
    later(broker, 1_000)
    assert alice.count("q") == 0
    alice.ack(1)


@pytest.mark.parametrize(("asked", "gets"), [(0, 2), (1, 1), (2, 2), (5, 2)])
def test_a_policy_bounds_the_prefetch_of_a_consumer_that_asks_for_more_or_for_none(
    broker: Broker, alice: Client, asked: int, gets: int
) -> None:
    alice.queue("q")
    _policy(broker, consumer_prefetch_max=2)
    alice.call(BasicQos(prefetch_count=asked), BasicQosOk)
    alice.consume("q")
    for _ in range(6):
        alice.publish("q")
    assert len(alice.deliveries()) == gets
    alice.ack(1)
    assert len(alice.deliveries()) == 1, "what is acknowledged makes room"


def test_a_changed_policy_bounds_the_prefetch_of_consumers_that_are_there(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    alice.call(BasicQos(prefetch_count=4), BasicQosOk)
    alice.consume("q")
    for _ in range(12):
        alice.publish("q")
    assert len(alice.deliveries()) == 4
    _policy(broker, consumer_prefetch_max=2)
    alice.ack(2, multiple=True)
    assert not alice.deliveries(), "what it holds it keeps, and gets no more before it is below the bound"
    alice.ack(3)
    assert len(alice.deliveries()) == 1
    _policy(broker, consumer_prefetch_max=3)
    assert len(alice.deliveries()) == 1, "more room is used at once"
    broker.delete_policy("/", "p")
    turn(broker)
    assert len(alice.deliveries()) == 1, "four, as it asked"


def test_the_smaller_of_a_policys_and_an_operators_prefetch_counts(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    _policy(broker, consumer_prefetch_max=3)
    _policy(broker, operator=True, consumer_prefetch_max=1)
    alice.consume("q")
    alice.publish("q")
    alice.publish("q")
    assert len(alice.deliveries()) == 1


def test_a_policys_prefetch_holds_beside_that_of_the_whole_channel(broker: Broker, alice: Client) -> None:
    _policy(broker, pattern="^q$", consumer_prefetch_max=2)
    alice.call(BasicQos(prefetch_count=5, global_=True), BasicQosOk)
    for name in ("q", "r"):
        alice.queue(name)
        alice.consume(name, name)
        for _ in range(6):
            alice.publish(name)
    got = [each.method.consumer_tag for each in alice.deliveries()]  # type: ignore[union-attr]
    assert (got.count("q"), got.count("r")) == (2, 3), "two of the queue it matches, five of all together"
    alice.call(BasicQos(prefetch_count=0, global_=True), BasicQosOk)
    got = [each.method.consumer_tag for each in alice.deliveries()]  # type: ignore[union-attr]
    assert (got.count("q"), got.count("r")) == (0, 3), "without one for the channel, the policy's is left"


def test_a_policys_prefetch_is_nothing_to_consumers_without_acks_and_to_get(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    _policy(broker, consumer_prefetch_max=1)
    for _ in range(4):
        alice.publish("q")
    assert alice.get("q") and alice.get("q")
    alice.consume("q", no_ack=True)
    alice.publish("q")
    assert len(alice.deliveries()) == 3


def test_a_policys_prefetch_holds_for_exclusive_queues(broker: Broker, alice: Client) -> None:
    alice.queue("q", exclusive=True)
    _policy(broker, consumer_prefetch_max=1)
    alice.consume("q")
    alice.publish("q")
    alice.publish("q")
    assert len(alice.deliveries()) == 1


def test_a_bad_policy_changes_nothing(broker: Broker, alice: Client) -> None:
    alice.queue("q")
    with pytest.raises(ChannelError) as refused:
        _policy(broker, max_length=-1)
    assert refused.value.code == 406
    with pytest.raises(ChannelError, match="no policy 'p'"):
        broker.delete_policy("/", "p")


# -- the seam


def test_changes_come_back_to_who_asked(broker: Broker) -> None:
    answers: list[Any] = []
    policy = Policy(vhost="/", name="p", pattern=".*", definition={"max-length": "many"})
    broker.define(PutPolicy(vhost="/", policy=policy), answers.append)
    broker.define(DeleteQueue(vhost="/", name="nowhere"), answers.append)
    assert isinstance(answers[0], AmqpError) and answers[1] == 0


def test_a_refused_change_that_nobody_waits_for_is_logged(broker: Broker) -> None:
    broker.define(DeleteQueue(vhost="nowhere", name="q"))
    (note,) = broker.effects
    assert "refused" in str(note)
    broker.effects.clear()


def test_a_slow_cluster_answers_later(broker: Broker, alice: Client) -> None:
    """A change holds when the cluster says so; the channel may be gone by then."""
    waiting: list[Callable[[], None]] = []
    port = broker.cluster

    class Slow(Standalone):
        def define(self, change: Any, done: Any) -> None:
            waiting.append(lambda: port.define(change, done))

    broker.cluster = Slow(broker)
    bob = Client(broker, "other")
    alice.send(QueueDeclare(queue="q"))
    bob.send(QueueDeclare(queue="q"))
    assert not alice.replies.get(1) and not bob.replies.get(1)
    bob.lose()
    while waiting:
        waiting.pop(0)()
    turn(broker)
    assert alice.reply(1, QueueDeclareOk).queue == "q"
    broker.cluster = port
