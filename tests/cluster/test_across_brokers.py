"""What passes several exchanges, comes back to who asked, or is set up elsewhere: over all brokers as on one."""

from __future__ import annotations

import itertools
import urllib.error
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ProbableAccessDeniedError, ProbableAuthenticationError, UnroutableError

from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import Received, bodies, channel_closed, consume, depth, publish, unique
from tests.support.cluster.whole_cluster import (
    EVERY_PLACE,
    ROLES,
    Place,
    WholeCluster,
    letters,
    one_of,
    place,
    pump,
    settle,
    wait_for_letters,
    wait_until_wanted,
)

pytestmark = pytest.mark.sockets

every_place = pytest.mark.parametrize("roles", EVERY_PLACE, ids="-".join)
every_role = pytest.mark.parametrize("role", ROLES)
every_pair = pytest.mark.parametrize("pair", list(itertools.product(ROLES, repeat=2)), ids="-".join)


@pytest.fixture
def of_pair(whole: WholeCluster, pair: tuple[str, str]) -> Place:
    """Publisher and consumer by the test's `pair`; what is declared, is declared at a secondary."""
    return place(whole, ("secondary", *pair))


def private_queue(channel: BlockingChannel, exchange: str, key: str = "", **options: Any) -> list[Received]:
    queue = channel.queue_declare("", exclusive=True, arguments=options).method.queue
    channel.queue_bind(queue, exchange, key)
    return consume(channel, queue, auto_ack=True)


# -- more than one exchange


@every_place
def test_a_message_goes_from_exchange_to_exchange_to_a_private_queue(at: Place) -> None:
    first, second, third = unique("topic"), unique("direct"), unique("fanout")
    for name, kind in ((first, "topic"), (second, "direct"), (third, "fanout")):
        at.declarer.exchange_declare(name, kind)
    at.consumer.exchange_bind(second, first, "a.#")
    at.declarer.exchange_bind(third, second, "a.b")
    inbox = private_queue(at.consumer, third)
    wait_until_wanted(at.publisher, first, "a.b", {at.consumer: inbox})
    publish(at.publisher, "a.c", "second has no such binding", first)
    publish(at.publisher, "a.b", "through", first)
    wait_for_letters(at.consumer, inbox, b"through")
    assert inbox[-1].method.exchange == first
    at.publisher.exchange_unbind(third, second, "a.b")
    with pytest.raises(UnroutableError):
        at.publisher.confirm_delivery()
        at.publisher.basic_publish(first, "a.b", b"", mandatory=True)
    for name in (first, second, third):
        at.declarer.exchange_delete(name)


@every_pair
def test_a_message_goes_from_exchange_to_exchange_to_a_shared_queue(of_pair: Place) -> None:
    at = of_pair
    first, second, queue = unique("headers"), unique("topic"), unique("shared")
    at.declarer.exchange_declare(first, "headers")
    at.declarer.exchange_declare(second, "topic")
    at.declarer.exchange_bind(second, first, "", {"x-match": "any", "color": "red"})
    at.consumer.queue_declare(queue)
    at.consumer.queue_bind(queue, second, "#.z")
    at.publisher.confirm_delivery()
    publish(at.publisher, "a.z", "yes", first, headers={"color": "red"})
    publish(at.publisher, "a.z", "no", first, headers={"color": "blue"})
    publish(at.publisher, "a.y", "no", first, headers={"color": "red"})
    assert depth(at.consumer, queue) == 1
    at.consumer.queue_delete(queue)
    at.declarer.exchange_delete(first)
    at.declarer.exchange_delete(second)


@every_place
def test_what_nobody_wants_goes_to_the_alternate_exchange(at: Place) -> None:
    main, spare, queue = unique("direct"), unique("fanout"), unique("shared")
    at.declarer.exchange_declare(spare, "fanout")
    at.publisher.exchange_declare(main, "direct", arguments={"alternate-exchange": spare})
    at.declarer.queue_declare(queue)
    at.declarer.queue_bind(queue, spare)
    unwanted = private_queue(at.consumer, spare)
    wait_until_wanted(at.publisher, spare, "", {at.consumer: unwanted})
    wanted = private_queue(at.consumer, main, "key")
    at.publisher.confirm_delivery()
    before = depth(at.declarer, queue)
    publish(at.publisher, "other", "for the spare", main)
    wait_for_letters(at.consumer, unwanted, b"for the spare")
    assert depth(at.declarer, queue) == before + 1
    # Where the private binding is known, the spare one has no part in it: wherever that queue is.
    wait_until_wanted(at.publisher, main, "key", {at.consumer: wanted})
    before = depth(at.declarer, queue)
    publish(at.publisher, "key", "for the private queue", main)
    wait_for_letters(at.consumer, wanted, b"for the private queue")
    assert depth(at.declarer, queue) == before
    at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(main)
    at.declarer.exchange_delete(spare)


@every_pair
def test_a_message_that_dies_in_a_shared_queue_goes_on(of_pair: Place) -> None:
    at = of_pair
    dead, queue, grave = unique("direct"), unique("short"), unique("grave")
    at.declarer.exchange_declare(dead, "direct")
    arguments = {"x-dead-letter-exchange": dead, "x-dead-letter-routing-key": "dead", "x-max-length": 1}
    at.declarer.queue_declare(queue, arguments=arguments)
    at.declarer.queue_declare(grave)
    at.declarer.queue_bind(grave, dead, "dead")
    mourner = private_queue(at.consumer, dead, "dead")
    wait_until_wanted(at.publisher, dead, "dead", {at.consumer: mourner})
    at.consumer.queue_purge(grave)
    at.publisher.confirm_delivery()
    publish(at.publisher, queue, "first")
    publish(at.publisher, queue, "second")
    wait_for_letters(at.consumer, mourner, b"first")
    assert mourner[-1].headers["x-first-death-queue"] == queue
    assert mourner[-1].headers["x-first-death-reason"] == "maxlen"
    eventually(lambda: depth(at.consumer, grave) == 1)
    assert depth(at.publisher, queue) == 1
    at.declarer.queue_delete(queue)
    at.declarer.queue_delete(grave)
    at.declarer.exchange_delete(dead)


@every_pair
def test_a_message_that_dies_in_a_private_queue_goes_to_a_shared_one(of_pair: Place) -> None:
    at = of_pair
    source, grave = unique("fanout"), unique("grave")
    at.declarer.exchange_declare(source, "fanout")
    at.declarer.queue_declare(grave)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave, "x-message-ttl": 1}
    private = at.consumer.queue_declare("", exclusive=True, arguments=arguments).method.queue
    at.consumer.queue_bind(private, source)

    def one_has_died() -> bool:
        publish(at.publisher, "", "expires", source)
        return depth(at.declarer, grave) > 0

    eventually(one_has_died)
    at.declarer.queue_delete(grave)
    at.declarer.exchange_delete(source)


# -- headers that name more queues


@every_place
def test_copies_go_to_private_and_shared_queues_of_other_brokers(at: Place) -> None:
    exchange = unique("direct")
    at.declarer.exchange_declare(exchange, "direct")
    queues = [unique("cc"), unique("bcc")]
    for queue, key in zip(queues, ("cc", "bcc"), strict=True):
        at.declarer.queue_declare(queue)
        at.declarer.queue_bind(queue, exchange, key)
    private = at.consumer.queue_declare("", exclusive=True).method.queue
    for key in ("key", "cc", "bcc"):
        at.consumer.queue_bind(private, exchange, key)
    inbox = consume(at.consumer, private, auto_ack=True)
    only_bcc = private_queue(at.consumer, exchange, "bcc")
    wait_until_wanted(at.publisher, exchange, "bcc", {at.consumer: only_bcc})
    wait_until_wanted(at.publisher, exchange, "key", {at.consumer: inbox})
    at.publisher.confirm_delivery()
    before = [depth(at.declarer, queue) for queue in queues]
    publish(at.publisher, "key", "copied", exchange, headers={"CC": ["cc"], "BCC": ["bcc"], "kept": 1})
    wait_for_letters(at.consumer, inbox, b"copied")
    wait_for_letters(at.consumer, only_bcc, b"copied")
    assert inbox[-1].headers == {"CC": ["cc"], "kept": 1}
    assert only_bcc[-1].headers == {"CC": ["cc"], "kept": 1}
    assert [depth(at.declarer, queue) for queue in queues] == [count + 1 for count in before]
    for queue in queues:
        at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


@every_pair
def test_a_blind_copy_to_nobody_changes_nothing_for_the_messages_after_it(of_pair: Place) -> None:
    at = of_pair
    exchange, queue = unique("fanout"), unique("shared")
    at.declarer.exchange_declare(exchange, "fanout")
    at.declarer.queue_declare(queue)
    inbox = private_queue(at.consumer, exchange)
    wait_until_wanted(at.publisher, exchange, "", {at.consumer: inbox})
    at.declarer.queue_bind(queue, exchange)
    at.publisher.confirm_delivery()
    publish(at.publisher, "", "one", exchange, headers={"BCC": []})
    publish(at.publisher, "", "and another", exchange, headers={"n": 2})
    wait_for_letters(at.consumer, inbox, b"one", b"and another")
    assert [each.headers for each in inbox[-2:]] == [{}, {"n": 2}]
    assert depth(at.declarer, queue) == 2
    at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


# -- questions and answers


def serve(channel: BlockingChannel, queue: str) -> None:
    """Answer what comes to `queue`, in capitals, to where it says."""

    def answer(_: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        reply = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", str(properties.reply_to), body.upper(), reply)

    channel.basic_consume(queue, answer, auto_ack=True)


@every_pair
@pytest.mark.parametrize("exclusive", [True, False], ids=["private", "shared"])
def test_an_answer_goes_straight_to_the_asker_at_another_broker(of_pair: Place, exclusive: bool) -> None:
    asker, server = of_pair.publisher, of_pair.consumer
    # A queue that is asked for work may be private too: then it is at the server's broker.
    work = server.queue_declare(unique("work"), exclusive=exclusive).method.queue
    serve(server, work)
    answers = consume(asker, "amq.rabbitmq.reply-to", auto_ack=True)

    def is_answered() -> bool:
        publish(asker, work, "ping", reply_to="amq.rabbitmq.reply-to", correlation_id="7")
        asker.connection.process_data_events(0.01)
        return bool(answers)

    pump([asker, server], is_answered)
    assert (answers[0].body, answers[0].properties.correlation_id) == (b"PING", "7")
    server.queue_delete(work)


def test_an_answer_for_one_who_is_gone_harms_nobody(whole: WholeCluster) -> None:
    first, second = (whole.channel(each) for each in whole.secondaries.values())
    work = second.queue_declare(unique("work"), exclusive=True).method.queue
    inbox = consume(second, work, auto_ack=True)
    answers = consume(first, "amq.rabbitmq.reply-to", auto_ack=True)

    def has_come() -> bool:
        publish(first, work, "ping", reply_to="amq.rabbitmq.reply-to")
        return bool(inbox)

    pump([first, second], has_come)
    address = inbox[0].properties.reply_to
    assert address is not None and address != "amq.rabbitmq.reply-to"
    first.close()
    publish(second, address, "late")
    settle([second])
    assert second.is_open and not answers


@every_pair
def test_an_answer_goes_to_the_askers_own_queue_at_another_broker(of_pair: Place) -> None:
    asker, server = of_pair.publisher, of_pair.consumer
    work = server.queue_declare(unique("work"), exclusive=True).method.queue
    serve(server, work)
    mine = asker.queue_declare("", exclusive=True).method.queue
    answers = consume(asker, mine, auto_ack=True)
    wait_until_wanted(server, "", mine, {asker: answers})
    del answers[:]

    def is_answered() -> bool:
        publish(asker, work, "ping", reply_to=mine, correlation_id="8")
        return bool(letters(answers))

    pump([asker, server], is_answered)
    answer = next(each for each in answers if each.body == b"PING")
    assert answer.properties.correlation_id == "8"


# -- transactions


@every_place
def test_a_transaction_reaches_shared_and_private_queues_when_it_is_committed(at: Place) -> None:
    exchange, queue = unique("fanout"), unique("shared")
    at.declarer.exchange_declare(exchange, "fanout")
    at.declarer.queue_declare(queue)
    inbox = private_queue(at.consumer, exchange)
    wait_until_wanted(at.publisher, exchange, "", {at.consumer: inbox})
    at.declarer.queue_bind(queue, exchange)
    at.publisher.tx_select()
    publish(at.publisher, "", "rolled back", exchange)
    publish(at.publisher, queue, "rolled back")
    at.publisher.tx_rollback()
    publish(at.publisher, "", "committed", exchange)
    publish(at.publisher, queue, "committed")
    assert depth(at.declarer, queue) == 0
    at.publisher.tx_commit()
    # commit-ok says that the root has them.
    assert depth(at.declarer, queue) == 2
    wait_for_letters(at.consumer, inbox, b"committed")
    at.declarer.queue_delete(queue)
    at.declarer.exchange_delete(exchange)


# -- set up at one broker, used at another


@every_pair
def test_a_policy_of_one_broker_holds_for_the_queues_of_all(whole: WholeCluster, pair: tuple[str, str]) -> None:
    setter, user = (one_of(whole, role) for role in pair)
    prefix = unique("limited")
    channel = whole.channel(user)
    channel.confirm_delivery()
    channel.queue_declare(f"{prefix}.before")
    body = {"pattern": f"^{prefix}", "definition": {"max-length": 2}, "apply-to": "queues"}
    whole.api(setter, "PUT", f"policies/%2F/{prefix}", body)
    channel.queue_declare(f"{prefix}.after")
    for queue in (f"{prefix}.before", f"{prefix}.after"):
        for _ in range(5):
            publish(channel, queue, "x")
        assert depth(channel, queue) == 2
    for broker in whole.brokers.values():
        assert prefix in {each["name"] for each in whole.api(broker, "GET", "policies")}
    whole.api(user, "DELETE", f"policies/%2F/{prefix}")
    assert prefix not in {each["name"] for each in whole.api(setter, "GET", "policies")}
    for _ in range(5):
        publish(channel, f"{prefix}.after", "x")
    assert depth(channel, f"{prefix}.after") == 7
    channel.queue_delete(f"{prefix}.before")
    channel.queue_delete(f"{prefix}.after")


@every_pair
def test_a_user_and_a_virtual_host_of_one_broker_serve_at_another(whole: WholeCluster, pair: tuple[str, str]) -> None:
    maker, user = (one_of(whole, role) for role in pair)
    name, vhost = unique("user"), unique("vhost")
    credentials = pika.PlainCredentials(name, "secret")
    with pytest.raises((ProbableAuthenticationError, ProbableAccessDeniedError)):
        whole.connect(user, credentials=credentials)
    whole.api(maker, "PUT", f"vhosts/{vhost}")
    whole.api(maker, "PUT", f"users/{name}", {"tags": "", "password": "secret"})
    whole.api(
        maker, "PUT", f"permissions/{vhost}/{name}", {"configure": "^(mine|amq[.]gen.*)$", "write": ".*", "read": ".*"}
    )
    mine = whole.connect(user, credentials=credentials, virtual_host=vhost)
    theirs = whole.connect(maker, credentials=credentials, virtual_host=vhost)
    channel, other = mine.channel(), theirs.channel()
    channel.confirm_delivery()
    channel.queue_declare("mine")
    publish(channel, "mine", "hello")
    assert depth(other, "mine") == 1
    with channel_closed(403, "yours"):
        channel.queue_declare("yours")
    # A queue of another virtual host is another queue, and so are its private ones.
    with channel_closed(404, "mine"):
        whole.channel(user).queue_declare("mine", passive=True)
    other = theirs.channel()
    inbox = private_queue(other, "amq.topic", "a.#")
    elsewhere = whole.channel(maker)
    stranger = private_queue(elsewhere, "amq.topic", "a.#")
    wait_until_wanted(mine.channel(), "amq.topic", "a.b", {other: inbox})
    settle([elsewhere])
    assert not stranger
    mine.close()
    theirs.close()
    whole.api(user, "DELETE", f"vhosts/{vhost}")
    whole.api(user, "DELETE", f"users/{name}")
    for broker in (maker, user):
        with pytest.raises((ProbableAuthenticationError, ProbableAccessDeniedError)):
            whole.connect(broker, credentials=credentials)


@every_role
def test_a_virtual_host_that_is_deleted_elsewhere_takes_its_clients_with_it(whole: WholeCluster, role: str) -> None:
    vhost = unique("vhost")
    whole.api(one_of(whole, "backup"), "PUT", f"vhosts/{vhost}")
    connection = whole.connect(one_of(whole, role), virtual_host=vhost)
    whole.api(one_of(whole, "secondary"), "DELETE", f"vhosts/{vhost}")

    def is_closed() -> bool:
        try:
            connection.process_data_events(0.01)
        except pika.exceptions.AMQPConnectionError:
            return True
        return connection.is_closed

    eventually(is_closed)


@every_role
def test_a_wrong_policy_is_refused_by_every_broker(whole: WholeCluster, role: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        whole.api(one_of(whole, role), "PUT", "policies/%2F/wrong", {"pattern": "[", "definition": {"max-length": 1}})
    assert refused.value.code == 400


# -- once


@every_role
def test_a_message_is_once_in_each_queue_though_private_and_shared_ones_want_it(whole: WholeCluster, role: str) -> None:
    exchange, queue = unique("topic"), unique("shared")
    publisher = whole.channel(one_of(whole, role))
    publisher.exchange_declare(exchange, "topic")
    inboxes: dict[BlockingChannel, list[Received]] = {}
    for broker in whole.brokers.values():
        channel = whole.channel(broker)
        inboxes[channel] = private_queue(channel, exchange, "a.#")
    wait_until_wanted(publisher, exchange, "a", inboxes)
    publisher.queue_declare(queue)
    publisher.queue_bind(queue, exchange, "a.*")
    publisher.queue_bind(queue, exchange, "#.b")
    publisher.confirm_delivery()
    expected = [b"%d" % number for number in range(20)]
    for body in expected:
        publish(publisher, "a.b", body, exchange)
    pump(list(inboxes), lambda: all(len(letters(inbox)) >= len(expected) for inbox in inboxes.values()))
    settle(list(inboxes))
    assert [letters(inbox) for inbox in inboxes.values()] == [expected] * 5
    assert depth(publisher, queue) == len(expected)
    publisher.queue_delete(queue)
    publisher.exchange_delete(exchange)


@every_role
def test_a_large_message_arrives_whole(whole: WholeCluster, role: str) -> None:
    publisher = whole.channel(one_of(whole, role))
    exchange = unique("fanout")
    publisher.exchange_declare(exchange, "fanout")
    inboxes: dict[BlockingChannel, list[Received]] = {}
    for broker in whole.brokers.values():
        channel = whole.channel(broker)
        inboxes[channel] = private_queue(channel, exchange)
    wait_until_wanted(publisher, exchange, "", inboxes)
    body = bytes(range(256)) * 12_000
    publish(publisher, "", body, exchange)
    pump(list(inboxes), lambda: all(letters(inbox) for inbox in inboxes.values()))
    assert all(bodies(inbox)[-1] == body for inbox in inboxes.values())
    publisher.exchange_delete(exchange)
