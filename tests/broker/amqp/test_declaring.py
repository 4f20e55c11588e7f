"""Exchanges, queues and bindings: made, compared, used and unmade by methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from openclust.broker.model.access import Permission, User
from openclust.broker.server.broker import Broker
from openclust.wire.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicConsume,
    BasicGet,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from openclust.wire.table import Table
from tests.support.client import EVERYTHING, Client

NewBroker = Callable[..., Broker]


def _exchange(client: Client, name: str, type: str = "direct", **more: Any) -> None:
    client.call(ExchangeDeclare(exchange=name, type=type, **more), ExchangeDeclareOk)


def _e2e(client: Client, source: str, destination: str, key: str = "") -> None:
    client.call(ExchangeBind(source=source, destination=destination, routing_key=key), ExchangeBindOk)


# -- queues


def test_declare_tells_messages_and_consumers(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q")
    alice.publish("q")
    alice.call(QueueDeclare(queue="other"), QueueDeclareOk)
    ok = alice.call(QueueDeclare(queue="q"), QueueDeclareOk)
    assert (ok.queue, ok.message_count, ok.consumer_count) == ("q", 2, 0)
    alice.consume("q")
    ok = alice.call(QueueDeclare(queue="q"), QueueDeclareOk)
    assert (ok.message_count, ok.consumer_count) == (0, 1)


def test_an_empty_name_is_given_a_new_one(alice: Client) -> None:
    one, two = alice.queue(), alice.queue()
    assert one.startswith("amq.gen-") and two.startswith("amq.gen-") and one != two


def test_declare_without_an_answer(alice: Client) -> None:
    alice.send(QueueDeclare(queue="q", no_wait=True))
    assert alice.count("q") == 0


@pytest.mark.parametrize("method", [QueueDeclare(queue="amq.mine"), ExchangeDeclare(exchange="amq.mine")])
def test_reserved_names_are_refused(alice: Client, method: Method) -> None:
    closed = alice.error(method)
    assert (closed.code, closed.by) == (403, method.ID)
    assert "'amq.mine' contains reserved prefix 'amq.*'" in closed.text


@pytest.mark.parametrize("name", ["nowhere", "amq.mine", ""])
def test_a_passive_declare_wants_the_queue_to_be_there(alice: Client, name: str) -> None:
    alice.queue("q")
    closed = alice.error(QueueDeclare(queue=name, passive=True))
    assert (closed.code, closed.by) == (404, (50, 10))
    assert f"no queue '{name}' in vhost '/'" in closed.text


def test_a_passive_declare_compares_nothing(alice: Client) -> None:
    alice.queue("q", x_max_length=1)
    alice.call(QueueDeclare(queue="q", passive=True, durable=True, auto_delete=True), QueueDeclareOk)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (QueueDeclare(queue="q", durable=True), "durable"),
        (QueueDeclare(queue="q", auto_delete=True), "auto_delete"),
        (QueueDeclare(queue="q", arguments={"x-max-length": 2}), "x-max-length"),
        (QueueDeclare(queue="q", arguments={"x-max-length": 1, "x-message-ttl": 5}), "x-message-ttl"),
        (QueueDeclare(queue="q"), "x-max-length"),
    ],
)
def test_the_same_queue_must_be_declared_the_same(alice: Client, wanted: QueueDeclare, named: str) -> None:
    alice.queue("q", x_max_length=1)
    if not wanted.arguments and named != "x-max-length":
        wanted = QueueDeclare(
            queue="q", durable=wanted.durable, auto_delete=wanted.auto_delete, arguments={"x-max-length": 1}
        )
    closed = alice.error(wanted)
    assert (closed.code, closed.by) == (406, (50, 10))
    assert f"inequivalent arg '{named}' for queue 'q' in vhost '/'" in closed.text


@pytest.mark.parametrize("first", [True, False])
def test_exclusive_and_not_exclusive_are_never_the_same(alice: Client, first: bool) -> None:
    """RabbitMQ answers 405 here, and says why in these words."""
    alice.queue("q", exclusive=first)
    closed = alice.error(QueueDeclare(queue="q", exclusive=not first))
    assert (closed.code, closed.by) == (405, (50, 10))
    assert "exclusive property value does not match" in closed.text


@pytest.mark.parametrize(
    "differs",
    [
        QueueDeclare(queue="q", durable=True),
        QueueDeclare(queue="q", auto_delete=True),
        QueueDeclare(queue="q", arguments={"x-max-length": 1}),
        QueueDeclare(queue="q", arguments={"x-max-length": "many"}),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_of_all_differences_that_of_exclusive_is_told_first(alice: Client, first: bool, differs: QueueDeclare) -> None:
    alice.queue("q", exclusive=first)
    closed = alice.error(msgspec.structs.replace(differs, exclusive=not first))
    assert (closed.code, closed.by) == (405, (50, 10))
    assert "locked queue 'q' in vhost '/'" in closed.text


def test_a_number_of_another_kind_is_another_argument(alice: Client) -> None:
    alice.queue("q", x_message_ttl=10)
    closed = alice.error(QueueDeclare(queue="q", arguments={"x-message-ttl": 10.0}))
    assert closed.code == 406
    assert closed.text.endswith("received '10.0' but current is '10'")


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare(queue="mine"),
        QueueDeclare(queue="mine", exclusive=True),
        QueueDeclare(queue="mine", passive=True),
        QueueBind(queue="mine", exchange="amq.direct"),
        QueueUnbind(queue="mine", exchange="amq.direct"),
        QueuePurge(queue="mine"),
        QueueDelete(queue="mine"),
        BasicConsume(queue="mine"),
        BasicGet(queue="mine"),
    ],
)
def test_an_exclusive_queue_is_locked_to_others(alice: Client, bob: Client, method: Method) -> None:
    alice.queue("mine", exclusive=True)
    closed = bob.error(method)
    assert (closed.code, closed.by) == (405, method.ID)
    assert "cannot obtain exclusive access to locked queue 'mine' in vhost '/'" in closed.text


def test_an_exclusive_queue_goes_with_its_connection(alice: Client, bob: Client) -> None:
    alice.queue("mine", exclusive=True)
    alice.open_channel(2)
    alice.queue("mine", exclusive=True)
    alice.close()
    assert bob.error(QueueDeclare(queue="mine", passive=True)).code == 404
    bob.queue("mine", exclusive=True)


def test_a_bad_argument_is_refused_by_its_name(alice: Client) -> None:
    closed = alice.error(QueueDeclare(queue="q", arguments={"x-message-ttl": -1}))
    assert (closed.code, closed.by) == (406, (50, 10))
    assert "invalid arg 'x-message-ttl' for queue 'q' in vhost '/'" in closed.text


def test_line_ends_in_names_do_not_count(alice: Client) -> None:
    assert alice.queue("q\r\n") == "q"
    assert alice.count("q\n") == 0


def test_an_auto_delete_queue_goes_with_its_last_consumer(alice: Client, bob: Client) -> None:
    alice.queue("q", auto_delete=True)
    alice.consume("q")
    bob.consume("q")
    alice.lose()
    assert bob.consumers("q") == 1
    carol = Client(bob.broker)
    bob.lose()
    assert carol.error(QueueDeclare(queue="q", passive=True)).code == 404


def test_an_auto_delete_queue_waits_for_its_first_consumer(alice: Client) -> None:
    alice.queue("q", auto_delete=True)
    assert alice.count("q") == 0


def test_delete_tells_how_many_messages_went(alice: Client) -> None:
    alice.queue("q")
    for _ in range(3):
        alice.publish("q")
    alice.get("q", no_ack=False)
    assert alice.call(QueueDelete(queue="q"), QueueDeleteOk).message_count == 2


def test_deleting_what_is_not_there_succeeds(alice: Client) -> None:
    assert alice.call(QueueDelete(queue="nowhere"), QueueDeleteOk).message_count == 0
    alice.call(ExchangeDelete(exchange="nowhere"), ExchangeDeleteOk)


def test_delete_can_be_held_back(alice: Client, bob: Client) -> None:
    alice.queue("q")
    alice.publish("q")
    closed = alice.error(QueueDelete(queue="q", if_empty=True))
    assert (closed.code, closed.by) == (406, (50, 40)) and "not empty" in closed.text
    bob.consume("q")
    closed = alice.error(QueueDelete(queue="q", if_unused=True))
    assert closed.code == 406 and "in use" in closed.text
    bob.close()
    assert alice.call(QueueDelete(queue="q", if_unused=True), QueueDeleteOk).message_count == 1


def test_the_deletion_is_answered_before_own_consumers_are_cancelled(alice: Client) -> None:
    alice.queue("q")
    alice.consume("q", "c")
    alice.stop_reading()
    alice.send(QueueDelete(queue="q"))
    assert alice.unread.index(b"\0\x32\0\x29") < alice.unread.index(b"\0\x3c\0\x1e")
    alice.read_on()
    assert alice.cancelled == ["c"]
    alice.reply(1, QueueDeleteOk)


def test_purge_tells_how_many_messages_went(alice: Client) -> None:
    alice.queue("q")
    alice.publish("q")
    assert alice.call(QueuePurge(queue="q"), QueuePurgeOk).message_count == 1
    assert alice.error(QueuePurge(queue="nowhere")).code == 404


# -- exchanges


@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"])
def test_the_standard_exchanges_are_there(alice: Client, name: str) -> None:
    alice.call(ExchangeDeclare(exchange=name, passive=True), ExchangeDeclareOk)


def test_a_passive_declare_wants_the_exchange_to_be_there(alice: Client) -> None:
    closed = alice.error(ExchangeDeclare(exchange="nowhere", passive=True))
    assert (closed.code, closed.by) == (404, (40, 10))


def test_an_unknown_type_closes_the_connection(alice: Client) -> None:
    closed = alice.hard_error(ExchangeDeclare(exchange="e", type="x-none"))
    assert (closed.code, closed.by) == (503, (40, 10))
    assert "unknown exchange type 'x-none'" in closed.text


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"type": "topic"}, "type"),
        ({"durable": True}, "durable"),
        ({"auto_delete": True}, "auto_delete"),
        ({"internal": True}, "internal"),
        ({"arguments": {"alternate-exchange": "amq.fanout"}}, "alternate-exchange"),
    ],
)
def test_the_same_exchange_must_be_declared_the_same(alice: Client, changed: dict[str, Any], named: str) -> None:
    _exchange(alice, "e")
    _exchange(alice, "e")
    closed = alice.error(ExchangeDeclare(exchange="e", **changed))
    assert (closed.code, closed.by) == (406, (40, 10))
    assert f"inequivalent arg '{named}' for exchange 'e' in vhost '/'" in closed.text


@pytest.mark.parametrize(
    "method",
    [
        ExchangeDeclare(exchange=""),
        ExchangeDeclare(exchange="", passive=True),
        ExchangeDelete(exchange=""),
        ExchangeBind(source="", destination="amq.direct"),
        ExchangeBind(source="amq.direct", destination=""),
        ExchangeUnbind(source="", destination="amq.direct"),
        QueueBind(queue="q", exchange=""),
        QueueUnbind(queue="q", exchange=""),
    ],
)
def test_nothing_is_done_to_the_default_exchange(alice: Client, method: Method) -> None:
    alice.queue("q")
    closed = alice.error(method)
    assert (closed.code, closed.by) == (403, method.ID)
    assert "operation not permitted on the default exchange" in closed.text


def test_a_standard_exchange_cannot_be_deleted(alice: Client) -> None:
    assert alice.error(ExchangeDelete(exchange="amq.topic")).code == 403


def test_an_exchange_in_use_can_be_kept(alice: Client) -> None:
    _exchange(alice, "e")
    alice.bind(alice.queue("q"), "e")
    closed = alice.error(ExchangeDelete(exchange="e", if_unused=True))
    assert (closed.code, closed.by) == (406, (40, 20)) and "in use" in closed.text
    alice.call(ExchangeDelete(exchange="e"), ExchangeDeleteOk)
    alice.publish("", exchange="e")
    assert alice.channel_error().code == 404


def test_an_auto_delete_exchange_goes_with_its_last_binding(alice: Client) -> None:
    _exchange(alice, "e", auto_delete=True)
    one, two = alice.queue("one"), alice.queue("two")
    alice.bind(one, "e", "a")
    alice.bind(one, "e", "b")
    alice.bind(two, "e")
    alice.call(QueueUnbind(queue="one", exchange="e", routing_key="a"), QueueUnbindOk)
    alice.call(QueueDelete(queue="one"), QueueDeleteOk)
    _exchange(alice, "e", auto_delete=True)
    alice.call(QueueUnbind(queue="two", exchange="e"), QueueUnbindOk)
    assert alice.error(ExchangeDeclare(exchange="e", passive=True)).code == 404


def test_a_long_chain_of_auto_delete_exchanges_goes_at_once(alice: Client) -> None:
    """As deep as a client may build it: no stack of ours is as deep."""
    size = 1_500
    for number in range(size):
        _exchange(alice, f"e{number}", "fanout", auto_delete=True)
        if number:
            _e2e(alice, f"e{number - 1}", f"e{number}")
    alice.bind(alice.queue("q"), f"e{size - 1}")
    alice.publish("", exchange="e0")
    assert alice.count("q") == 1
    alice.call(QueueDelete(queue="q"), QueueDeleteOk)
    assert alice.error(ExchangeDeclare(exchange="e0", passive=True)).code == 404


# -- bindings


def test_binding_twice_is_one_binding(alice: Client) -> None:
    alice.queue("q")
    for _ in range(2):
        alice.bind("q", "amq.direct", "key")
    alice.publish("key", exchange="amq.direct")
    assert alice.count("q") == 1
    assert alice.broker.binding_count == 1


def test_bindings_differ_by_key_and_arguments(alice: Client) -> None:
    alice.queue("q")
    for key, arguments in (("a", {}), ("b", {}), ("a", {"x": 1}), ("a", {"y": 1, "x": 1}), ("a", {"x": 1, "y": 1})):
        method = QueueBind(queue="q", exchange="amq.direct", routing_key=key, arguments=dict(arguments))
        alice.call(method, QueueBindOk)
    assert alice.broker.binding_count == 4
    alice.publish("a", exchange="amq.direct")
    assert alice.count("q") == 1
    alice.call(QueueUnbind(queue="q", exchange="amq.direct", routing_key="a"), QueueUnbindOk)
    alice.publish("a", exchange="amq.direct")
    assert alice.count("q") == 2


def test_no_names_at_all_bind_the_last_queue_by_its_name(alice: Client) -> None:
    name = alice.queue()
    alice.call(QueueBind(exchange="amq.direct"), QueueBindOk)
    alice.publish(name, exchange="amq.direct")
    assert alice.count(name) == 1
    alice.call(QueueUnbind(exchange="amq.direct"), QueueUnbindOk)
    assert alice.broker.binding_count == 0


@pytest.mark.parametrize("method", [QueueBind(exchange="amq.direct"), QueuePurge(), QueueDelete(), BasicConsume()])
def test_without_a_last_queue_an_empty_name_is_not_found(alice: Client, method: Method) -> None:
    closed = alice.error(method)
    assert (closed.code, closed.by) == (404, method.ID)
    assert "no previously declared queue" in closed.text


@pytest.mark.parametrize(
    ("method", "missing"),
    [
        (QueueBind(queue="nowhere", exchange="amq.direct"), "no queue 'nowhere' in vhost '/'"),
        (QueueBind(queue="q", exchange="nowhere"), "no exchange 'nowhere' in vhost '/'"),
        (ExchangeBind(source="nowhere", destination="amq.direct"), "no exchange 'nowhere' in vhost '/'"),
        (ExchangeBind(source="amq.direct", destination="nowhere"), "no exchange 'nowhere' in vhost '/'"),
    ],
)
def test_both_ends_of_a_binding_must_be_there(alice: Client, method: Method, missing: str) -> None:
    alice.queue("q")
    closed = alice.error(method)
    assert (closed.code, closed.by) == (404, method.ID)
    assert missing in closed.text


@pytest.mark.parametrize(
    "method",
    [
        QueueUnbind(queue="q", exchange="amq.direct", routing_key="never"),
        QueueUnbind(queue="nowhere", exchange="amq.direct"),
        QueueUnbind(queue="q", exchange="nowhere"),
        ExchangeUnbind(source="nowhere", destination="amq.direct"),
    ],
)
def test_unbinding_what_is_not_bound_succeeds(alice: Client, method: Method) -> None:
    alice.queue("q")
    alice.call(method, QueueUnbindOk if isinstance(method, QueueUnbind) else ExchangeUnbindOk)


def test_arguments_a_headers_exchange_cannot_use_are_refused(alice: Client) -> None:
    alice.queue("q")
    closed = alice.error(QueueBind(queue="q", exchange="amq.headers", arguments={"x-match": "some"}))
    assert (closed.code, closed.by) == (406, (50, 20))
    assert alice.broker.binding_count == 0


def test_many_bindings_of_one_queue_go_quickly(alice: Client) -> None:
    """Not by looking through all the others for each of them."""
    alice.queue("q")
    _exchange(alice, "e", "topic")
    for number in range(5_000):
        alice.connection.vhost.exchanges["e"].bind(alice.connection.vhost.queues["q"], f"key.{number}", {})
    alice.broker.binding_count += 5_000
    incoming = alice.connection.vhost.queues["q"].incoming
    assert isinstance(incoming, dict)
    alice.call(ExchangeDelete(exchange="e"), ExchangeDeleteOk)
    assert alice.broker.binding_count == 0


# -- where exchanges send


@pytest.mark.parametrize(
    ("exchange", "bound", "published", "count"),
    [
        ("amq.direct", "a.b", "a.b", 1),
        ("amq.direct", "a.*", "a.b", 0),
        ("amq.fanout", "a", "b", 1),
        ("amq.topic", "a.*", "a.b", 1),
        ("amq.topic", "a.*", "a.b.c", 0),
        ("amq.topic", "#.c", "a.b.c", 1),
        ("amq.topic", "a.b", "a.b", 1),
    ],
)
def test_each_type_routes_by_its_own_rule(alice: Client, exchange: str, bound: str, published: str, count: int) -> None:
    alice.bind(alice.queue("q"), exchange, bound)
    alice.publish(published, exchange=exchange)
    assert alice.count("q") == count


def test_a_headers_exchange_looks_at_headers(alice: Client) -> None:
    matches: list[tuple[str, Table]] = [
        ("all", {"x-match": "all", "a": 1, "b": "x"}),
        ("any", {"x-match": "any", "a": 1, "b": "x"}),
        ("every", {}),
        ("with-x", {"x-match": "all-with-x", "x-a": 1}),
    ]
    for name, arguments in matches:
        alice.queue(name)
        method = QueueBind(queue=name, exchange="amq.headers", arguments=arguments)
        alice.call(method, QueueBindOk)
    alice.publish("", exchange="amq.headers", headers={"a": 1, "x-a": 1})
    alice.publish("", exchange="amq.headers", headers={"a": 1, "b": "x"})
    alice.publish("", exchange="amq.headers", message_id="no headers")
    alice.publish("", exchange="amq.headers")
    assert [alice.count(name) for name in ("all", "any", "every", "with-x")] == [1, 2, 4, 1]


def test_exchanges_pass_messages_on_to_exchanges_each_queue_once(alice: Client) -> None:
    for name in ("one", "two", "three"):
        _exchange(alice, name, "fanout")
    _e2e(alice, "one", "two")
    _e2e(alice, "two", "three")
    _e2e(alice, "one", "three")
    _e2e(alice, "three", "one")
    alice.queue("q")
    for name in ("one", "two", "three"):
        alice.bind("q", name)
    alice.publish("", exchange="one")
    assert alice.count("q") == 1
    alice.call(ExchangeUnbind(source="one", destination="two"), ExchangeUnbindOk)
    alice.call(ExchangeDelete(exchange="two"), ExchangeDeleteOk)


def test_an_internal_exchange_takes_what_others_pass_on(alice: Client) -> None:
    _exchange(alice, "inner", "fanout", internal=True)
    _e2e(alice, "amq.fanout", "inner")
    alice.bind(alice.queue("q"), "inner")
    alice.publish("", exchange="amq.fanout")
    assert alice.count("q") == 1


def test_an_alternate_exchange_takes_what_nobody_wants(alice: Client) -> None:
    _exchange(alice, "last", "fanout", arguments={"alternate-exchange": "nowhere"})
    _exchange(alice, "middle", arguments={"alternate-exchange": "last"})
    _exchange(alice, "first", arguments={"alternate-exchange": "middle"})
    alice.bind(alice.queue("wanted"), "first", "key")
    alice.bind(alice.queue("unwanted"), "last")
    alice.publish("key", exchange="first", mandatory=True)
    alice.publish("other", exchange="first", mandatory=True)
    assert (alice.count("wanted"), alice.count("unwanted")) == (1, 1)
    assert alice.returns == []


def test_alternates_in_a_circle_end(alice: Client) -> None:
    _exchange(alice, "one", arguments={"alternate-exchange": "two"})
    _exchange(alice, "two", arguments={"alternate-exchange": "one"})
    alice.publish("key", exchange="one", mandatory=True)
    assert len(alice.returns) == 1


def test_an_alternate_must_be_a_name(alice: Client) -> None:
    closed = alice.error(ExchangeDeclare(exchange="e", arguments={"alternate-exchange": 7}))
    assert closed.code == 406 and "alternate-exchange" in closed.text


# -- permissions


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (QueueDeclare(queue="no"), "configure access to 'no'"),
        (QueueDelete(queue="no"), "configure access to 'no'"),
        (ExchangeDeclare(exchange="no"), "configure access to 'no'"),
        (ExchangeDelete(exchange="no"), "configure access to 'no'"),
        (QueueBind(queue="no", exchange="c-e"), "write access to 'no'"),
        (QueueBind(queue="w-q", exchange="no"), "read access to 'no'"),
        (QueueUnbind(queue="no", exchange="c-e"), "write access to 'no'"),
        (ExchangeBind(source="no", destination="w-e"), "read access to 'no'"),
        (QueuePurge(queue="no"), "read access to 'no'"),
        (BasicConsume(queue="no"), "read access to 'no'"),
        (BasicGet(queue="no"), "read access to 'no'"),
        (QueueDeclare(queue="c-q", arguments={"x-dead-letter-exchange": "w-e"}), "read access to 'c-q'"),
        (ExchangeDeclare(exchange="cr-e", arguments={"alternate-exchange": "no"}), "write access to 'no'"),
    ],
)
def test_each_method_demands_its_permission(broker: Broker, method: Method, text: str) -> None:
    permission = Permission(configure="^c", write="^w", read="^(r|cr)")
    broker.put_user(User(name="some", permissions={"/": permission}))
    some = Client(broker, "some")
    closed = some.error(method)
    assert (closed.code, closed.by) == (403, method.ID)
    assert text in closed.text and "refused for user 'some'" in closed.text


def test_everybody_gets_an_access_ticket(alice: Client) -> None:
    assert alice.call(AccessRequest(), AccessRequestOk).ticket == 1


# -- bounds


def test_the_numbers_of_queues_exchanges_and_bindings_are_bounded(new_broker: NewBroker) -> None:
    client = Client(new_broker(queues_max=2, exchanges_max=7, bindings_max=2))
    client.queue("one")
    client.queue("two")
    assert client.error(QueueDeclare(queue="three")).code == 506
    client.queue("two")
    _exchange(client, "seventh")
    assert client.error(ExchangeDeclare(exchange="eighth")).code == 506
    client.bind("one", "amq.fanout")
    client.bind("two", "amq.fanout")
    closed = client.error(QueueBind(queue="two", exchange="amq.fanout", routing_key="more"))
    assert (closed.code, closed.by) == (506, (50, 20))
    client.call(QueueDelete(queue="one"), QueueDeleteOk)
    client.bind("two", "amq.fanout", "more")
    client.queue("three")


def test_virtual_hosts_are_worlds_apart(broker: Broker, alice: Client) -> None:
    broker.put_vhost("other")
    broker.put_permission("guest", "other", EVERYTHING)
    elsewhere = Client(broker, vhost="other")
    alice.queue("q")
    assert elsewhere.error(QueueDeclare(queue="q", passive=True)).code == 404
    elsewhere.queue("q")
    elsewhere.publish("q")
    assert (alice.count("q"), elsewhere.count("q")) == (0, 1)
