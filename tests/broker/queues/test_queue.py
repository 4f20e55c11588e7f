"""How messages leave a queue unconsumed: time to live, length limits, delivery limits."""

from __future__ import annotations

import pytest

from openclust.wire.methods import (
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from tests.support.client import Client
from tests.support.driver import later


def test_messages_of_a_queue_expire(alice: Client) -> None:
    alice.queue("q", x_message_ttl=100)
    alice.publish("q")
    later(alice.broker, 99)
    assert alice.count("q") == 1
    later(alice.broker, 1)
    assert alice.count("q") == 0


def test_the_shorter_time_to_live_counts(alice: Client) -> None:
    alice.queue("q", x_message_ttl=100)
    alice.publish("q", expiration="50")
    alice.publish("q", expiration="500")
    later(alice.broker, 50)
    assert alice.count("q") == 1
    later(alice.broker, 50)
    assert alice.count("q") == 0


def test_a_message_without_time_goes_to_a_consumer_or_nowhere(alice: Client) -> None:
    alice.queue("q", x_message_ttl=0)
    alice.publish("q", b"nobody")
    assert alice.count("q") == 0
    alice.consume("q", no_ack=True)
    alice.publish("q", b"somebody")
    assert alice.bodies() == [b"somebody"]


def test_what_has_expired_is_not_counted_before_time_is_told(alice: Client) -> None:
    """A turn may be long: a declare in it does not count what basic.get would not find."""
    alice.queue("q", x_message_ttl=10)
    alice.publish("q")
    alice.broker.now_ms += 10
    assert alice.count("q") == 0


def test_an_expired_message_is_never_delivered(alice: Client) -> None:
    alice.queue("q", x_message_ttl=10)
    alice.publish("q")
    alice.broker.now_ms += 10
    assert alice.get("q") is None
    alice.publish("q")
    alice.broker.now_ms += 10
    alice.consume("q")
    assert alice.deliveries() == []


def test_an_expired_message_behind_a_lasting_one_waits_for_it(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q", b"lasting")
    alice.publish("q", b"brief", expiration="10")
    later(alice.broker, 100)
    assert alice.count("q") == 2
    alice.get("q")
    later(alice.broker, 1)
    assert alice.count("q") == 0


@pytest.mark.parametrize("how", ["get", "consume", "drop"])
def test_whoever_uncovers_a_brief_message_it_is_looked_at(alice: Client, how: str) -> None:
    alice.queue("q", x_max_length=2 if how == "drop" else 9)
    alice.publish("q", b"lasting")
    alice.publish("q", b"brief", expiration="1000")
    if how == "get":
        alice.get("q")
    elif how == "consume":
        alice.call(BasicQos(prefetch_count=1), BasicQosOk)
        alice.consume("q")
    else:
        alice.publish("q", b"lasting too")
    later(alice.broker, 1_000)
    assert alice.count("q") == (1 if how == "drop" else 0)


def test_a_message_unacknowledged_does_not_expire_until_it_returns(alice: Client) -> None:
    alice.queue("q", x_message_ttl=100)
    alice.publish("q")
    alice.get("q", no_ack=False)
    later(alice.broker, 200)
    alice.nack(1)
    later(alice.broker, 1)
    assert alice.count("q") == 0


def test_a_queue_unused_for_its_time_expires(alice: Client) -> None:
    alice.queue("q", x_expires=100)
    alice.publish("q")
    later(alice.broker, 99)
    alice.get("q")
    later(alice.broker, 99)
    alice.queue("q", x_expires=100)
    later(alice.broker, 100)
    assert alice.error(QueueDeclare(queue="q", passive=True)).code == 404


def test_a_consumer_keeps_a_queue_from_expiring(alice: Client, bob: Client) -> None:
    alice.queue("q", x_expires=100)
    bob.consume("q")
    later(alice.broker, 1_000)
    bob.lose()
    later(alice.broker, 99)
    assert alice.count("q") == 0
    later(alice.broker, 100)
    assert alice.error(QueueDeclare(queue="q", passive=True)).code == 404


def test_a_deleted_queue_does_not_take_its_successor_along(alice: Client, bob: Client) -> None:
    alice.queue("q", x_expires=100)
    alice.lose()
    bob.broker.vhosts["/"].delete_queue("q")
    bob.queue("q")
    later(bob.broker, 1_000)
    assert bob.count("q") == 0


# -- lengths


def test_a_full_queue_drops_its_head(alice: Client) -> None:
    alice.queue("q", x_max_length=2)
    for number in range(4):
        alice.publish("q", b"%d" % number)
    got = [alice.get("q"), alice.get("q"), alice.get("q")]
    assert [each.body for each in got if each] == [b"2", b"3"]


def test_a_queue_can_be_full_by_its_bytes(alice: Client) -> None:
    alice.queue("q", x_max_length_bytes=10)
    for body in (b"1234", b"5678", b"90ab"):
        alice.publish("q", body)
    assert alice.count("q") == 2
    alice.publish("q", b"x" * 11)
    assert alice.count("q") == 0


def test_what_is_unacknowledged_does_not_fill_a_queue(alice: Client) -> None:
    alice.queue("q", x_max_length=1)
    for _ in range(3):
        alice.publish("q")
        alice.get("q", no_ack=False)
    alice.publish("q")
    assert alice.count("q") == 1
    # On their return they are the head, and make way.
    alice.nack(0, multiple=True)
    assert alice.count("q") == 1


def test_a_queue_that_rejects_keeps_what_it_has(alice: Client) -> None:
    alice.queue("q", x_max_length=2, x_overflow="reject-publish")
    for number in range(4):
        alice.publish("q", b"%d" % number)
    got = [alice.get("q"), alice.get("q"), alice.get("q")]
    assert [each.body for each in got if each] == [b"0", b"1"]


def test_a_queue_without_room_still_passes_messages_on(alice: Client) -> None:
    alice.queue("q", x_max_length=0)
    alice.consume("q", no_ack=True)
    alice.publish("q", b"x")
    assert alice.bodies() == [b"x"]


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_overflow_becomes_a_dead_letter(alice: Client, overflow: str) -> None:
    alice.queue("dead")
    alice.queue("q", x_max_length=1, x_overflow=overflow, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    alice.publish("q", b"first")
    alice.publish("q", b"second")
    dead = alice.get("dead")
    assert dead is not None
    assert dead.body == (b"first" if overflow == "drop-head" else b"second")
    assert dead.headers["x-first-death-reason"] == "maxlen"


def test_reject_publish_makes_no_dead_letter(alice: Client) -> None:
    alice.queue("dead")
    alice.queue(
        "q", x_max_length=0, x_overflow="reject-publish", x_dead_letter_exchange="", x_dead_letter_routing_key="dead"
    )
    alice.publish("q")
    assert alice.count("dead") == 0


# -- how often


def test_a_message_is_delivered_a_bounded_number_of_times(alice: Client) -> None:
    alice.queue("dead")
    alice.queue("q", x_delivery_limit=2, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    alice.publish("q")
    alice.consume("q")
    for tag in (1, 2, 3):
        alice.nack(tag)
    assert [each.redelivered for each in alice.deliveries()] == [False, True, True]
    dead = alice.get("dead")
    assert dead is not None and dead.headers["x-first-death-reason"] == "delivery_limit"


def test_a_purge_takes_what_waits_and_leaves_what_is_out(alice: Client) -> None:
    alice.queue("q")
    for _ in range(3):
        alice.publish("q", b"x")
    alice.get("q", no_ack=False)
    assert alice.call(QueuePurge(queue="q"), QueuePurgeOk).message_count == 2
    alice.nack(1)
    assert alice.count("q") == 1


# -- the other kinds of queues


def test_a_priority_queue_serves_the_highest_first(alice: Client) -> None:
    alice.queue("q", x_max_priority=9)
    for priority in (1, 5, None, 200, 5):
        alice.publish("q", b"%d" % (priority or 0), priority=priority)
    got = [alice.get("q") for _ in range(5)]
    assert [each.body for each in got if each] == [b"200", b"5", b"5", b"1", b"0"]


def test_a_last_value_queue_keeps_the_newest_of_each_key(alice: Client) -> None:
    alice.queue("q", x_last_value_key="key")
    for key, body in (("a", b"a1"), ("b", b"b1"), ("a", b"a2"), (None, b"none"), (None, b"none")):
        alice.publish("q", body, headers={"key": key} if key else None)
    got = [alice.get("q", no_ack=False) for _ in range(4)]
    assert [each.body for each in got if each] == [b"b1", b"a2", b"none", b"none"]
    # A newer value came while this one was out: it does not come back.
    alice.publish("q", b"a3", headers={"key": "a"})
    alice.nack(2)
    alice.nack(1)
    bodies = [each.body for each in (alice.get("q"), alice.get("q"), alice.get("q")) if each]
    assert bodies == [b"b1", b"a3"]


def test_a_repeated_message_is_taken_once_and_confirmed_twice(alice: Client) -> None:
    alice.queue("q", x_message_deduplication=True, x_deduplication_size=2)
    alice.call(ConfirmSelect(), ConfirmSelectOk)
    for name in ("a", "a", "b", "c", "a", None, None):
        alice.publish("q", message_id=name)
    assert alice.count("q") == 6
    assert len(alice.confirms) == 7


def test_repetitions_are_forgotten_after_their_time(alice: Client) -> None:
    alice.queue("q", x_message_deduplication=True, x_deduplication_ttl=100)
    alice.publish("q", message_id="a")
    later(alice.broker, 100)
    alice.publish("q", message_id="a")
    assert alice.count("q") == 2


def test_a_header_can_tell_repetitions(alice: Client) -> None:
    alice.queue("q", x_message_deduplication=True, x_deduplication_header="order")
    alice.publish("q", headers={"order": 1}, message_id="a")
    alice.publish("q", headers={"order": 1}, message_id="b")
    alice.publish("q", headers={"order": 2}, message_id="b")
    assert alice.count("q") == 2


def test_a_message_turned_away_is_no_repetition_when_it_comes_again(alice: Client) -> None:
    alice.queue("q", x_message_deduplication=True, x_max_length=1, x_overflow="reject-publish")
    alice.publish("q", message_id="a")
    alice.publish("q", message_id="b")
    alice.get("q")
    alice.publish("q", message_id="b")
    assert alice.count("q") == 1


def test_a_direct_consumer_does_not_bypass_the_window(alice: Client) -> None:
    alice.queue("q", x_message_deduplication=True)
    alice.consume("q", no_ack=True)
    alice.publish("q", message_id="a")
    alice.publish("q", message_id="a")
    assert len(alice.deliveries()) == 1


def test_a_quorum_queue_tells_how_often_it_delivered(alice: Client) -> None:
    method = QueueDeclare(queue="q", durable=True, arguments={"x-queue-type": "quorum"})
    alice.call(method, QueueDeclareOk)
    alice.publish("q")
    alice.consume("q")
    alice.nack(1)
    alice.nack(2)
    assert [each.headers.get("x-delivery-count") for each in alice.deliveries()] == [None, 1, 2]
