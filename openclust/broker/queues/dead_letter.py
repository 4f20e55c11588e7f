"""Dead letters: messages that left a queue without being consumed, and the headers that say why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from openclust.broker.delivery.fanout import RoutingBroker, fan_out
from openclust.broker.model.message import Message
from openclust.broker.model.outcome import PLACES
from openclust.broker.queues.queue import Queue, QueueBroker
from openclust.broker.routing.route import ExchangeHost, Route, find_targets
from openclust.wire.properties import decode_properties, encode_header, header_fields
from openclust.wire.table import (
    Fields,
    Timestamp,
    decode_field,
    encode_long,
    encode_value,
    join_array,
    join_table,
    split_array,
    split_table,
)

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.model.limits import Limits
    from openclust.broker.routing.destination import Destination
    from openclust.broker.routing.exchange import Targets

REJECTED = "rejected"
_COUNT_MAX = 2**63 - 1
_Cause: TypeAlias = tuple[str | None, str | None]
"""A queue, and the reason why a message left it as a dead letter."""


class DeadLetterCluster(Protocol):
    """The cluster, as far as dead letters need it: see `ClusterPort`."""

    def dead_letters_entered(self, queue: Queue, entry: Entry, mark: int) -> None: ...
    def reach(self, vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]: ...
    def forward(self, channel: None, vhost: ExchangeHost, message: Message, verdict: None) -> None: ...


class DeadLetterBroker(QueueBroker, RoutingBroker, Protocol):
    """The broker, as far as dead letters need it."""

    limits: Limits

    @property
    def cluster(self) -> DeadLetterCluster: ...
    @property
    def wall_clock_s(self) -> int: ...


def redirect_letters(broker: DeadLetterBroker, count: int) -> int:
    """Publish this many of the turn's dead letters. The batch that has one at its new place also removes the old one.

    Returns where that batch must be before the letters are safe (bits of `model/outcome.py`).
    """
    places = 0
    letters = broker.dead_letters[:count]
    del broker.dead_letters[:count]
    for queue, message, reason, entry in letters:
        mark = broker.journal.mark
        places |= redirect_dead(broker, queue, message, reason) & PLACES
        if entry is not None and entry.recorded:
            broker.cluster.dead_letters_entered(queue, entry, mark)
            broker.journal.left(queue, entry)
    return places


def redirect_dead(broker: DeadLetterBroker, queue: Queue, message: Message, reason: str) -> int:
    """Publish a dead letter to the dead-letter exchange of its queue. Without such an exchange it is dropped."""
    settings = queue.settings
    exchange = queue.vhost.exchanges.get(settings.dead_letter_exchange or "")
    if settings.dead_letter_exchange is None or exchange is None:
        return 0
    # Decoded first, so that malformed properties are found before its fields are split.
    properties = message.properties
    fields, causes = _with_death(message, queue.name, reason, broker.wall_clock_s)
    if settings.dead_letter_routing_key is not None:
        keys = [settings.dead_letter_routing_key]
        fields.pop("CC", None)
    else:
        keys = _routing_keys(message)
    # An expiration counts once: otherwise the dead letter would expire again in the next queue.
    header = encode_header(msgspec.structs.replace(properties, expiration=None), len(message.body), fields)
    targets = find_targets(queue.vhost, exchange, keys)
    if targets.by_headers:
        targets = find_targets(queue.vhost, exchange, keys, decode_properties(header).headers or {})
    for destination in [each for each in targets.destinations if _is_cycle(causes, each.name)]:
        del targets.destinations[destination]
    destinations, forward = broker.cluster.reach(queue.vhost, targets)
    route = Route(exchange.name, keys[0], destinations)
    queue.vhost.route_counts.add_one(route)
    outcome = fan_out(broker, route, header, message.body)
    if forward:
        letter = Message(route.exchange, route.routing_key, header, message.body, route.suffix)
        broker.cluster.forward(None, queue.vhost, letter, None)
    return outcome


def _with_death(message: Message, queue: str, reason: str, now_s: int) -> tuple[Fields, list[_Cause]]:
    """The message's headers with one more death in `x-death`, and all its deaths, the latest first.

    All other headers keep their values and types.
    """
    fields = header_fields(message.header)
    deaths = fields.get("x-death")
    history = _unique_deaths(split_array(deaths)) if deaths else {}
    same = history.pop((queue, reason), None)
    if same is None:
        same = _new_death(message, queue, reason, now_s)
    else:
        # A publisher may have written any count: one more must still fit the field.
        same["count"] = encode_long(min(_count(same, 1) + 1, _COUNT_MAX))
    fields["x-death"] = join_array([b"F" + join_table(death) for death in (same, *history.values())])
    for name, value in (("reason", reason), ("queue", queue), ("exchange", message.exchange)):
        fields[f"x-last-death-{name}"] = encoded = encode_value(value)
        if deaths is None:
            fields[f"x-first-death-{name}"] = encoded
    return fields, [(queue, reason), *history]


def _unique_deaths(deaths: list[bytes]) -> dict[_Cause, Fields]:
    """One death for each queue and reason, the latest first. A client may have sent several of one queue and reason.

    As in RabbitMQ the first of those stands for all, with its own count, or with their number if it has no count.
    """
    folded: dict[_Cause, Fields] = {}
    several: dict[_Cause, int] = {}
    for death in deaths:
        if death[:1] != b"F":
            continue
        fields = split_table(death[1:])
        key = (_text(fields, "queue"), _text(fields, "reason"))
        folded.setdefault(key, fields)
        several[key] = several.get(key, 0) + 1
    for key, fields in folded.items():
        if "count" not in fields:
            fields["count"] = encode_long(several[key])
    return folded


def _text(fields: Fields, name: str) -> str | None:
    value = decode_field(fields[name]) if name in fields else None
    return value if isinstance(value, str) else None


def _count(death: Fields, otherwise: int) -> int:
    value = decode_field(death["count"])
    return value if isinstance(value, int) else otherwise


def _new_death(message: Message, queue: str, reason: str, now_s: int) -> Fields:
    # As RabbitMQ types them: clients with static types cast to these.
    death: Fields = {
        "count": encode_long(1),
        "reason": encode_value(reason),
        "queue": encode_value(queue),
        "time": encode_value(Timestamp(now_s)),
        "exchange": encode_value(message.exchange),
        "routing-keys": encode_value([*_routing_keys(message)]),
    }
    if message.properties.expiration is not None:
        death["original-expiration"] = encode_value(message.properties.expiration)
    return death


def _routing_keys(message: Message) -> list[str]:
    copies = (message.properties.headers or {}).get("CC")
    others = [key for key in copies if isinstance(key, str)] if isinstance(copies, list) else []
    return [message.routing_key, *others]


def _is_cycle(causes: list[_Cause], target: str) -> bool:
    """Whether the message was in `target` before, and came round again without a consumer's rejection on the way."""
    for queue, reason in causes:
        if reason == REJECTED:
            return False
        if queue == target:
            return True
    return False
