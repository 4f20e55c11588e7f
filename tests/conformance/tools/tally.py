"""What of a tool worked."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

CALL_WAIT_S = 15.0


@dataclass
class Place:
    """Where the broker is that the tool is to talk to."""

    host: str
    http_port: int
    amqp_port: int


def place() -> Place:
    host, http_port, amqp_port = sys.argv[1:4]
    return Place(host, int(http_port), int(amqp_port))


def tried(name: str, call: Callable[[], Any]) -> Any:
    """Try a call, and print whether it worked; what it returned, or None."""
    found: list[Any] = []
    failure: list[str] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            failure.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(CALL_WAIT_S)
    error = failure[0] if failure else "" if found else f"no answer in {CALL_WAIT_S:g} s"
    print(json.dumps({"call": name, "works": not error, "error": error[:300]}), flush=True)
    return found[0] if found else None


def wanted(condition: Any, what: str = "not what was wanted") -> Any:
    """The same value; an error if it is false."""
    if not condition:
        raise AssertionError(what)
    return condition


def held_connection(where: Place, name: str) -> Callable[[], None]:
    """A client with a channel and a consumer that stays until the returned function is called."""
    import pika

    connection = pika.BlockingConnection(
        pika.ConnectionParameters(where.host, where.amqp_port, client_properties={"connection_name": name})
    )
    channel = connection.channel()
    channel.queue_declare(f"{name}-queue", durable=True)
    channel.basic_consume(f"{name}-queue", lambda *_: None, consumer_tag=name)
    is_over = threading.Event()

    def hold() -> None:
        while not is_over.is_set() and connection.is_open:
            try:
                connection.process_data_events(0.1)
            except pika.exceptions.AMQPError:
                return

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    # RabbitMQ shows a connection once it has taken its statistics.
    time.sleep(6)

    def end() -> None:
        is_over.set()
        thread.join(5)

    return end
