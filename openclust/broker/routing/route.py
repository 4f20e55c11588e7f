"""Where a message goes: through exchanges, their bindings and alternates, to queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from openclust.broker.model.message import delivery_suffix
from openclust.broker.routing.exchange import Exchange
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.queues.queue import Queue
    from openclust.broker.routing.destination import Destination
    from openclust.broker.routing.remote_broker import RemoteBroker
    from openclust.broker.server.vhost import VirtualHost

_NO_HEADERS: Table = {}


class Route:
    """Where a publish goes, as far as the arguments of its method alone decide it.

    `watch` are property flags: a message with one of them needs a closer look. 0xFFFF means that the headers of each
    message choose the destinations. With `forward` the root gets the message too, for its shared queues.
    A plain route takes the hot path: it has destinations, and the root need not get the message.
    `whole_header` is the content header for other brokers, where consumers get one without BCC.
    """

    __slots__ = (
        "destinations",
        "exchange",
        "forward",
        "is_plain",
        "mandatory",
        "routing_key",
        "suffix",
        "watch",
        "whole_header",
    )

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        destinations: Iterable[Destination],
        *,
        mandatory: bool = False,
        watch: int = 0,
        forward: bool = False,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.destinations = list(destinations)
        self.mandatory = mandatory
        self.watch = watch
        self.forward = forward
        self.whole_header = b""
        self.is_plain = bool(self.destinations) and not forward
        self.suffix = delivery_suffix(exchange, routing_key)


def find_queues(
    vhost: VirtualHost, exchange: Exchange, routing_keys: Iterable[str], headers: Table = _NO_HEADERS
) -> tuple[list[Queue | RemoteBroker], bool]:
    """Who gets a message published to `exchange`, each once; and whether its headers had a say."""
    found: dict[Queue | RemoteBroker, None] = {}
    seen = {exchange}
    ahead = [exchange]
    by_headers = False
    keys = tuple(routing_keys)
    while ahead:
        here = ahead.pop()
        by_headers = by_headers or here.type == "headers"
        matched = False
        for key in keys:
            for target in vhost.targets(here, key, headers):
                matched = True
                if not isinstance(target, Exchange):
                    found[target] = None
                elif target not in seen:
                    seen.add(target)
                    ahead.append(target)
        if not matched and here.alternate is not None:
            alternate = vhost.exchanges.get(here.alternate)
            if alternate is not None and alternate not in seen:
                seen.add(alternate)
                ahead.append(alternate)
    return list(found), by_headers
