"""The settings of a queue, by argument (`x-` and the name) or by policy (the name), and the values they may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from openclust.broker.model.field_type import type_name, value_text
from openclust.wire.table import Timestamp
from openclust.wire.text import encode_text

TIME_MAX_MS = 2**53
COUNT_MAX = 2**63 - 1
PREFETCH_MAX = 2**16 - 1
DEDUP_SIZE_MAX = 1_000_000

Check = Callable[[Any], Any]
"""Returns the value, or raises ValueError with the reason only: the caller adds key and place."""


class Setting(msgspec.Struct, frozen=True):
    """One setting. `field` is its name in `QueueArgs`; empty if the setting is accepted and ignored."""

    field: str
    check: Check
    by_argument: bool = True
    by_policy: bool = True
    smaller_wins: bool = False


def whole_number(low: int, high: int) -> Check:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool | Timestamp):
            raise ValueError(f"expected integer, got {type_name(value)} '{value_text(value)}'")
        if not low <= value <= high:
            raise ValueError(f"{value} is out of range, expected {low} to {high}")
        return value

    return check


def one_of(*words: str) -> Check:
    def check(value: Any) -> str:
        _text(value)
        if value not in words:
            raise ValueError(f"'{value_text(value)}' is unknown, expected {', '.join(words[:-1])} or {words[-1]}")
        return str(value)

    return check


def short_text(value: Any) -> str:
    # It names an exchange or becomes a routing key, and so must fit a short string.
    text = _text(value)
    if len(encode_text(text)) > 255:
        raise ValueError("longer than 255 bytes")
    return text


def key_name(value: Any) -> str:
    if not short_text(value):
        raise ValueError("must not be empty")
    return str(value)


def yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected bool, got {type_name(value)} '{value_text(value)}'")
    return value


def anything(value: Any) -> Any:
    return value


def delivery_limit(value: Any) -> int | None:
    """As in newer versions of RabbitMQ -1 means no limit."""
    number: int = whole_number(-1, COUNT_MAX)(value)
    return None if number == -1 else number


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected longstr, got {type_name(value)} '{value_text(value)}'")
    return value


_time = whole_number(0, TIME_MAX_MS)
_count = whole_number(0, COUNT_MAX)

# RabbitMQ checks and compares arguments in this order, and names the first that is wrong.
SETTINGS: dict[str, Setting] = {
    "expires": Setting("expires_ms", whole_number(1, TIME_MAX_MS), smaller_wins=True),
    "message-ttl": Setting("message_ttl_ms", _time, smaller_wins=True),
    "dead-letter-exchange": Setting("dead_letter_exchange", short_text),
    "dead-letter-routing-key": Setting("dead_letter_routing_key", short_text),
    "dead-letter-strategy": Setting("dead_letter_strategy", one_of("at-most-once", "at-least-once")),
    "max-length": Setting("max_length", _count, smaller_wins=True),
    "max-length-bytes": Setting("max_length_bytes", _count, smaller_wins=True),
    "overflow": Setting("overflow", one_of("drop-head", "reject-publish", "reject-publish-dlx")),
    "max-priority": Setting("max_priority", whole_number(0, 255), by_policy=False),
    "single-active-consumer": Setting("single_active_consumer", yes_or_no, by_policy=False),
    "queue-type": Setting("queue_type", one_of("classic", "quorum"), by_policy=False),
    "delivery-limit": Setting("delivery_limit", delivery_limit, smaller_wins=True),
    "consumer-timeout": Setting("consumer_timeout_ms", whole_number(1, TIME_MAX_MS), smaller_wins=True),
    # RabbitMQ has no such argument and ignores unknown ones: so here it can only be set by policy.
    "consumer-prefetch-max": Setting(
        "consumer_prefetch_max", whole_number(1, PREFETCH_MAX), by_argument=False, smaller_wins=True
    ),
    "last-value-key": Setting("last_value_key", key_name, by_policy=False),
    "message-deduplication": Setting("dedup", yes_or_no),
    "deduplication-size": Setting("dedup_size", whole_number(1, DEDUP_SIZE_MAX)),
    "deduplication-ttl": Setting("dedup_ttl_ms", _time),
    "deduplication-header": Setting("dedup_header", key_name),
    "replicate": Setting("replicate", one_of("none", "configuration", "messages")),
    # Where and how RabbitMQ stores a queue: accepted, so that its definitions load, and ignored.
    "queue-mode": Setting("", one_of("default", "lazy")),
    "queue-version": Setting("", whole_number(1, 2)),
    **{
        name: Setting("", anything)
        for name in (
            "queue-master-locator",
            "queue-leader-locator",
            "max-in-memory-length",
            "max-in-memory-bytes",
        )
    },
}
