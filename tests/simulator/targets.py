"""What durable clients publish to: queues of all kinds that outlive brokers, and how to reach them."""

from __future__ import annotations

from typing import Any

import msgspec

from openclust.wire.methods import ExchangeDeclare, Method, QueueBind, QueueDeclare

KEY = "key"
"""The header by which a last-value queue tells its messages apart."""
LAST_VALUE = "d.last"
DEDUP = "d.dedup"
DEAD = "d.dead"
FAN = "d.fan"

_TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "d.one": {},
    "d.two": {},
    "d.three": {"x-single-active-consumer": True},
    "d.priority": {"x-max-priority": 3},
    "d.ring": {"x-max-length": 3, **_TO_DEAD},
    "d.ttl": {"x-message-ttl": 150, **_TO_DEAD},
    LAST_VALUE: {"x-last-value-key": KEY},
    DEDUP: {"x-message-deduplication": True},
    DEAD: {},
}
IN_ORDER = ("d.one", "d.two", "d.three", DEDUP)
"""What one publisher has published there once comes in that order."""


class Target(msgspec.Struct, frozen=True):
    """Where to publish, and the queues that get it. `has_dead`: what leaves these for good is a letter to the dead."""

    exchange: str
    routing_key: str
    queues: tuple[str, ...]
    has_dead: bool = False

    def declares(self) -> list[Method]:
        queues = (*self.queues, DEAD) if self.has_dead else self.queues
        methods: list[Method] = [declare(queue) for queue in queues]
        if self.exchange:
            methods.append(ExchangeDeclare(exchange=self.exchange, type="fanout", durable=True))
            methods += [QueueBind(queue=queue, exchange=self.exchange) for queue in queues]
        return methods


def declare(queue: str) -> QueueDeclare:
    return QueueDeclare(queue=queue, durable=True, arguments=ARGUMENTS[queue])


def to_queue(queue: str) -> Target:
    return Target("", queue, (queue,), "x-dead-letter-exchange" in ARGUMENTS[queue])


TARGETS = (*(to_queue(queue) for queue in ARGUMENTS if queue != DEAD), Target(FAN, "", ("d.one", "d.two")))
