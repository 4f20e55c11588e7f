"""Dead letters: messages that left a queue without being consumed, and what their headers tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.broker.fanout import fan_out
from openclust.broker.message import Message
from openclust.broker.routing import Route, find_queues
from openclust.wire.properties import Properties, encode_header
from openclust.wire.table import Table, Timestamp, Value

if TYPE_CHECKING:
    from openclust.broker.broker import Broker
    from openclust.broker.queue import Queue

REJECTED = "rejected"
_COUNT_MAX = 2**63 - 1


def redirect_letters(broker: Broker, count: int) -> None:
    """Send so many of this turn's dead letters where they go: each leaves its queue in the batch in which it comes."""
    letters = broker.dead_letters[:count]
    del broker.dead_letters[:count]
    for queue, message, reason, entry in letters:
        mark = broker.journal.mark
        redirect_dead(broker, queue, message, reason)
        if entry is not None and entry.recorded:
            broker.cluster.came_of(queue, entry, mark)
            broker.journal.left(queue, entry)


def redirect_dead(broker: Broker, queue: Queue, message: Message, reason: str) -> None:
    """Publish a dead letter to the exchange that its queue names; without one there, it is gone."""
    settings = queue.settings
    exchange = queue.vhost.exchanges.get(settings.dead_letter_exchange or "")
    if settings.dead_letter_exchange is None or exchange is None:
        return
    properties = buried_properties(message, queue.name, reason, broker.wall_clock_s)
    headers = properties.headers or {}
    if settings.dead_letter_routing_key is not None:
        keys = [settings.dead_letter_routing_key]
        headers.pop("CC", None)
    else:
        copies = headers.get("CC")
        keys = (
            [message.routing_key, *(key for key in copies if isinstance(key, str))]
            if isinstance(copies, list)
            else [message.routing_key]
        )
    targets, _ = find_queues(queue.vhost, exchange, keys, headers)
    targets = [target for target in targets if not _is_cycle(headers, target.name, reason)]
    queues, forward = broker.cluster.reach(queue.vhost, targets)
    route = Route(exchange.name, keys[0], queues)
    header = encode_header(properties, len(message.body))
    fan_out(route, header, message.body, broker.dirty, properties)
    if forward:
        letter = Message(route.exchange, route.routing_key, header, message.body, route.suffix)
        broker.cluster.forward(None, queue.vhost, letter, None)


def buried_properties(message: Message, queue: str, reason: str, now_s: int) -> Properties:
    """The message's properties with one more death in them."""
    old = message.properties
    headers: Table = dict(old.headers or {})
    deaths = headers.get("x-death")
    history = [dict(death) for death in deaths if isinstance(death, dict)] if isinstance(deaths, list) else []
    same = next((d for d in history if d.get("queue") == queue and d.get("reason") == reason), None)
    if same is not None:
        history.remove(same)
        count = same.get("count")
        # The publisher may have written it: any number at all must still fit its field.
        same["count"] = min(count + 1, _COUNT_MAX) if isinstance(count, int) else 1
    else:
        same = _first_death(message, old, queue, reason, now_s)
    entries: list[Value] = [same, *history]
    headers["x-death"] = entries
    for name, value in (("reason", reason), ("queue", queue), ("exchange", message.exchange)):
        headers.setdefault(f"x-first-death-{name}", value)
        headers[f"x-last-death-{name}"] = value
    # A time to live counts once: the dead letter would expire again where it lands.
    return msgspec.structs.replace(old, headers=headers, expiration=None)


def _first_death(message: Message, properties: Properties, queue: str, reason: str, now_s: int) -> Table:
    keys: list[Value] = [message.routing_key]
    copies = (properties.headers or {}).get("CC")
    if isinstance(copies, list):
        keys += copies
    death: Table = {
        "count": 1,
        "reason": reason,
        "queue": queue,
        "time": Timestamp(now_s),
        "exchange": message.exchange,
        "routing-keys": keys,
    }
    if properties.expiration is not None:
        death["original-expiration"] = properties.expiration
    return death


def _is_cycle(headers: Table, target: str, reason: str) -> bool:
    """Whether the message was in `target` before, and came round again without a consumer's rejection on the way."""
    if reason == REJECTED:
        return False
    deaths = headers.get("x-death")
    for death in deaths if isinstance(deaths, list) else ():
        if not isinstance(death, dict):
            continue
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == target:
            return True
    return False
