"""A broker of one that starts again: what is durable is there, what is not is gone, for its log too."""

from __future__ import annotations

from openclust.broker.model.changes import DeleteUser
from openclust.wire.methods import ExchangeDeclare, ExchangeDeclareOk, QueueDeclare, QueueDeclareOk
from tests.support.cluster.one_broker import One


def test_durable_queues_come_back_with_their_persistent_messages() -> None:
    one = One()
    one.publish(b"persistent")
    one.publish(b"transient", mode=1)
    one.disk.write()
    again = one.restarted()
    got = again.client.get("q")
    assert got is not None and got.body == b"persistent"
    assert again.client.get("q") is None


def test_what_was_not_written_is_gone() -> None:
    one = One()
    one.publish(b"written")
    one.disk.write()
    one.publish(b"not written")
    assert one.restarted().client.count("q") == 1


def test_queues_and_exchanges_that_are_not_durable_are_gone() -> None:
    one = One()
    one.call(QueueDeclare(queue="passing"), QueueDeclareOk)
    one.call(ExchangeDeclare(exchange="passing", type="topic"), ExchangeDeclareOk)
    one.call(ExchangeDeclare(exchange="lasting", type="topic", durable=True), ExchangeDeclareOk)
    vhost = one.restarted().broker.vhosts["/"]
    assert list(vhost.queues) == ["q"]
    assert "lasting" in vhost.exchanges and "passing" not in vhost.exchanges


def test_their_names_may_be_another_kinds_next_time() -> None:
    one = One()
    one.call(QueueDeclare(queue="passing"), QueueDeclareOk)
    one.call(ExchangeDeclare(exchange="passing", type="topic"), ExchangeDeclareOk)
    again = one.restarted()
    again.call(QueueDeclare(queue="passing", durable=True), QueueDeclareOk)
    again.call(ExchangeDeclare(exchange="passing", type="fanout", durable=True), ExchangeDeclareOk)
    third = again.restarted()
    vhost = third.broker.vhosts["/"]
    assert vhost.queues["passing"].durable and vhost.exchanges["passing"].type == "fanout"
    assert third.membership.replica.diverged == 0


def test_a_user_who_was_deleted_stays_so() -> None:
    one = One()
    one.broker.define(DeleteUser(name="other"))
    one.disk.write()
    assert sorted(one.restarted().broker.users) == ["guest"]


def test_places_go_on_far_beyond_32_bits() -> None:
    far = 2**62
    one = One(base=far)
    one.broker.vhosts["/"].queues["q"].next_seq = far
    for number in range(3):
        one.publish(b"%d" % number)
        one.disk.write()
        one.rest()
    one.call(QueueDeclare(queue="another", durable=True), QueueDeclareOk)
    again = one.restarted()
    queue = again.broker.vhosts["/"].queues["q"]
    assert queue.next_seq == far + 3
    assert again.membership.replica.position.sequence > far
    assert [again.client.get("q").body for _ in range(3)] == [b"0", b"1", b"2"]  # type: ignore[union-attr]
