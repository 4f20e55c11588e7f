"""py-amqp, the client under Celery and kombu: blocking, with a drain of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import amqp
import pytest

from tests.support.clients.broker_process import Broker
from tests.support.clients.pika_client import unique

pytestmark = pytest.mark.sockets


def connect(broker: Broker, **options: Any) -> amqp.Connection:
    settings: dict[str, Any] = {
        "host": f"{broker.host}:{broker.port}",
        "userid": broker.user,
        "password": broker.password,
        "virtual_host": broker.vhost,
        "connect_timeout": 5,
        **options,
    }
    connection = amqp.Connection(**settings)
    connection.connect()
    return connection


@pytest.fixture
def connection(broker: Broker) -> Iterator[amqp.Connection]:
    connection = connect(broker)
    yield connection
    connection.close()


@pytest.fixture
def channel(connection: amqp.Connection) -> amqp.Channel:
    return connection.channel()


def exclusive_queue(channel: amqp.Channel) -> str:
    return str(channel.queue_declare("", exclusive=True, auto_delete=False).queue)


@pytest.mark.parametrize("login_method", ["PLAIN", "AMQPLAIN", None])
def test_every_way_to_log_in(broker: Broker, login_method: str | None) -> None:
    connection = connect(broker, login_method=login_method)
    assert exclusive_queue(connection.channel())
    connection.close()


def test_a_wrong_password_is_access_refused(broker: Broker) -> None:
    with pytest.raises(amqp.exceptions.AccessRefused):
        connect(broker, password="wrong")


def test_an_unknown_virtual_host_is_not_allowed(broker: Broker) -> None:
    with pytest.raises(amqp.exceptions.NotAllowed):
        connect(broker, virtual_host="missing")


def test_publish_consume_and_ack(channel: amqp.Channel) -> None:
    queue = exclusive_queue(channel)
    inbox: list[Any] = []
    channel.basic_consume(queue, callback=inbox.append)
    for number in range(3):
        channel.basic_publish(amqp.Message(str(number), priority=number, application_headers={"n": number}), "", queue)
    while len(inbox) < 3:
        channel.connection.drain_events(timeout=5)
    assert [(m.body, m.priority, m.headers["n"]) for m in inbox] == [("0", 0, 0), ("1", 1, 1), ("2", 2, 2)]
    channel.basic_ack(inbox[-1].delivery_tag, multiple=True)
    assert channel.basic_get(queue) is None


def test_publish_with_confirms(broker: Broker) -> None:
    connection = connect(broker, confirm_publish=True)
    channel = connection.channel()
    queue = exclusive_queue(channel)
    for _ in range(20):
        channel.basic_publish_confirm(amqp.Message("x"), "", queue)
    assert channel.queue_declare(queue, passive=True).message_count == 20
    connection.close()


def test_a_nacked_publish_raises(broker: Broker) -> None:
    connection = connect(broker, confirm_publish=True)
    channel = connection.channel()
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    queue = channel.queue_declare("", exclusive=True, arguments=arguments).queue
    with pytest.raises(amqp.exceptions.MessageNacked):
        channel.basic_publish(amqp.Message("x"), "", queue)
    connection.close()


def test_a_missing_queue_raises_and_the_connection_lives_on(connection: amqp.Connection) -> None:
    with pytest.raises(amqp.exceptions.NotFound):
        connection.channel().queue_declare(unique("missing"), passive=True)
    assert exclusive_queue(connection.channel())


def test_an_inequivalent_declare_raises(channel: amqp.Channel) -> None:
    name = unique("amqp")
    channel.queue_declare(name, exclusive=True, auto_delete=False)
    with pytest.raises(amqp.exceptions.PreconditionFailed):
        channel.queue_declare(name, exclusive=True, auto_delete=False, arguments={"x-expires": 10000})


def test_a_locked_queue_raises(broker: Broker, channel: amqp.Channel) -> None:
    name, other = unique("amqp"), connect(broker)
    channel.queue_declare(name, exclusive=True)
    with pytest.raises(amqp.exceptions.ResourceLocked):
        other.channel().queue_declare(name, exclusive=True)
    other.close()


def test_a_mandatory_publish_to_nowhere_comes_back(channel: amqp.Channel) -> None:
    returned: list[Any] = []
    channel.events["basic_return"].add(lambda *arguments: returned.append(arguments))
    channel.basic_publish(amqp.Message("x"), "", unique("nowhere"), mandatory=True)
    end = time.monotonic() + 5
    while not returned and time.monotonic() < end:
        channel.connection.drain_events(timeout=5)
    assert returned[0][0].reply_code == 312 if hasattr(returned[0][0], "reply_code") else returned[0][0] == 312


def test_a_cancelled_consumer_is_told(broker: Broker, channel: amqp.Channel) -> None:
    name = unique("amqp")
    told: list[Any] = []
    channel.queue_declare(name, auto_delete=False)
    tag = channel.basic_consume(name, callback=lambda _: None, on_cancel=told.append)
    other = connect(broker)
    other.channel().queue_delete(name)
    end = time.monotonic() + 5
    while not told and time.monotonic() < end:
        try:
            channel.connection.drain_events(timeout=5)
        except amqp.exceptions.ConsumerCancelled:
            break
    assert told == [tag]
    other.close()


def test_a_transaction(channel: amqp.Channel) -> None:
    queue = exclusive_queue(channel)
    channel.tx_select()
    channel.basic_publish(amqp.Message("kept"), "", queue)
    channel.tx_commit()
    channel.basic_publish(amqp.Message("never"), "", queue)
    channel.tx_rollback()
    assert channel.basic_get(queue, no_ack=True).body == "kept"
    assert channel.basic_get(queue) is None


def test_the_types_of_header_values(channel: amqp.Channel) -> None:
    from datetime import datetime
    from decimal import Decimal

    queue = exclusive_queue(channel)
    headers = {
        "float": 1.5,
        "decimal": Decimal("3.14"),
        "when": datetime(2026, 1, 2, 3, 4, 5),
        "list": [1, "two", None, {"deep": True}],
        "big": 2**62,
        "text": "☃",
    }
    channel.basic_publish(amqp.Message("x", application_headers=headers), "", queue)
    assert channel.basic_get(queue, no_ack=True).headers == headers


def test_heartbeats(broker: Broker) -> None:
    connection = connect(broker, heartbeat=1)
    assert connection.heartbeat == 1
    end = time.monotonic() + 3.2
    while time.monotonic() < end:
        try:
            connection.drain_events(timeout=0.2)
        except TimeoutError:
            connection.heartbeat_tick()
    assert exclusive_queue(connection.channel())
    connection.close()


def test_exchange_to_exchange(channel: amqp.Channel) -> None:
    source, target, queue = unique("amqp"), unique("amqp"), exclusive_queue(channel)
    for name in (source, target):
        channel.exchange_declare(name, "fanout", auto_delete=True)
    channel.exchange_bind(target, source)
    channel.queue_bind(queue, target)
    channel.basic_publish(amqp.Message("x"), source, "")
    assert channel.basic_get(queue, no_ack=True).body == "x"
    channel.exchange_unbind(target, source)


def test_a_prefetch_for_the_whole_channel(channel: amqp.Channel) -> None:
    queue = exclusive_queue(channel)
    inbox: list[Any] = []
    for _ in range(5):
        channel.basic_publish(amqp.Message("x"), "", queue)
    channel.basic_qos(0, 2, True)
    channel.basic_consume(queue, callback=inbox.append)
    while len(inbox) < 2:
        channel.connection.drain_events(timeout=5)
    with pytest.raises(TimeoutError):
        channel.connection.drain_events(timeout=0.2)
    assert len(inbox) == 2
