"""The same objects at any broker: what the routes are asked about."""

from __future__ import annotations

import contextlib
import json
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import pika
import pika.exceptions

VHOST = "conformance"
BUSY_S = 8.0
"""How long messages flow at most before the statistics must show them; RabbitMQ takes them every five seconds."""


@dataclass
class Broker:
    """Where a broker's two doors are."""

    amqp: tuple[str, int]
    http: tuple[str, int]
    user: str = "guest"
    password: str = "guest"

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of an answer; None where it has none."""
        connection = HTTPConnection(*self.http, timeout=30)
        try:
            given = {"Authorization": "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode()}
            if body is not None:
                given["Content-Type"] = "application/json"
            connection.request(method, path, None if body is None else json.dumps(body), given)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, None


@dataclass
class Scene:
    """What is there, and its names as they stand in paths."""

    broker: Broker
    names: dict[str, str] = field(default_factory=dict)


@contextmanager
def scene(broker: Broker) -> Iterator[Scene]:
    """A virtual host with everything in it, and traffic that has been counted."""
    made = Scene(broker)
    _define(broker)
    connections = []
    try:
        publisher, consumer = (_connect(broker, name) for name in ("publisher", "consumer"))
        connections += [publisher, consumer]
        _declare(publisher)
        _run(made, publisher, consumer)
        yield made
    finally:
        for connection in connections:
            # One of the questions has ended one of them.
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.close()
        broker.call("DELETE", f"/api/vhosts/{VHOST}")
        broker.call("DELETE", "/api/users/conformance")
        broker.call("DELETE", "/api/users/idle")


def _define(broker: Broker) -> None:
    broker.call("PUT", f"/api/vhosts/{VHOST}", {"description": "objects of all kinds", "tags": "one,two"})
    broker.call("PUT", "/api/users/conformance", {"password": "secret-1", "tags": "monitoring"})
    broker.call("PUT", "/api/users/idle", {"password": "secret-2", "tags": "management"})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    for user in (broker.user, "conformance"):
        broker.call("PUT", f"/api/permissions/{VHOST}/{user}", everything)
    broker.call(
        "PUT",
        f"/api/topic-permissions/{VHOST}/conformance",
        {"exchange": "amq.topic", "write": "^a", "read": ".*"},
    )
    policy = {"pattern": "^work", "definition": {"max-length": 10_000}, "apply-to": "queues", "priority": 1}
    broker.call("PUT", f"/api/policies/{VHOST}/bounded", policy)
    operator_policy = {"pattern": "^work", "definition": {"message-ttl": 3_600_000}, "apply-to": "queues"}
    broker.call("PUT", f"/api/operator-policies/{VHOST}/kept", operator_policy)
    broker.call("PUT", f"/api/vhost-limits/{VHOST}/max-connections", {"value": 1_000})
    broker.call("PUT", "/api/user-limits/conformance/max-channels", {"value": 1_000})
    broker.call("PUT", "/api/global-parameters/conformance", {"value": {"of": "the tests"}})


def _connect(broker: Broker, name: str) -> pika.BlockingConnection:
    host, port = broker.amqp
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            host,
            port,
            VHOST,
            pika.PlainCredentials(broker.user, broker.password),
            client_properties={"connection_name": name},
        )
    )


def _declare(connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    channel.exchange_declare("events", "topic", durable=True)
    channel.exchange_declare("audit", "fanout", durable=True, arguments={"x-note": "kept"})
    channel.exchange_bind("audit", "events", "#")
    for name, arguments in (("work", {"x-max-priority": 5}), ("idle", {}), ("answered", {})):
        channel.queue_declare(name, durable=True, arguments=arguments)
    channel.queue_bind("work", "events", "work.*", {"x-note": "one"})
    channel.queue_bind("idle", "audit")
    channel.close()


def _run(made: Scene, publisher: pika.BlockingConnection, consumer: pika.BlockingConnection) -> None:
    """Publish, consume, get, and leave something unacknowledged, until the statistics have seen it."""
    receiving = consumer.channel()
    receiving.basic_qos(prefetch_count=20)
    receiving.basic_consume("work", lambda ch, method, *_: _settle(ch, method), consumer_tag="worker")
    receiving.basic_consume("answered", lambda *_: None, auto_ack=True, consumer_tag="listener")
    sending = publisher.channel()
    sending.confirm_delivery()
    end = time.monotonic() + BUSY_S
    while time.monotonic() < end:
        for number in range(10):
            sending.basic_publish("events", f"work.{number}", b"x" * 100, pika.BasicProperties(delivery_mode=2))
        sending.basic_publish("", "answered", b"y")
        sending.basic_publish("events", "nobody", b"z")
        sending.basic_get("idle")
        sending.basic_get("idle", auto_ack=True)
        consumer.process_data_events(0.05)
    status, rows = made.broker.call("GET", f"/api/vhosts/{VHOST}/connections")
    found = [row["name"] for row in rows] if status == 200 else []
    made.names["connection"] = found[0] if found else "none"
    status, rows = made.broker.call("GET", "/api/channels")
    channels = [row["name"] for row in rows if row["vhost"] == VHOST] if status == 200 else []
    made.names["channel"] = channels[0] if channels else "none"
    status, overview = made.broker.call("GET", "/api/overview")
    made.names["node"] = overview["node"]


def _settle(channel: Any, method: Any) -> None:
    if method.delivery_tag % 7:
        channel.basic_ack(method.delivery_tag)
    elif method.delivery_tag % 14 == 0:
        channel.basic_nack(method.delivery_tag, requeue=True)
