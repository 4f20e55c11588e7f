"""Where a message goes: through exchanges, their bindings and alternate exchanges, to its destinations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from openclust.broker.model.message import delivery_suffix
from openclust.broker.routing.exchange import Exchange, Target, Targets
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.routing.destination import Destination

_NO_HEADERS: Table = {}


class Route:
    """Where a publish goes, as far as the arguments of its method alone decide it.

    `watch` are property flags: a message with one of them needs a closer look. 0xFFFF means that the headers of each
    message choose the destinations. With `forward` the root gets the message too, for its shared queues.
    A plain route takes the hot path: it has destinations, and the root need not get the message.
    It has `published` so many messages since `RouteCounts` last asked; they entered the cluster here, or (not `enters`)
    at another broker. `whole_header` is the content header for other brokers, where consumers get one without BCC.
    """

    __slots__ = (
        "destinations",
        "enters",
        "exchange",
        "forward",
        "is_plain",
        "mandatory",
        "published",
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
        enters: bool = True,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.destinations = list(destinations)
        self.mandatory = mandatory
        self.watch = watch
        self.forward = forward
        self.enters = enters
        self.published = 0
        self.whole_header = b""
        self.is_plain = bool(self.destinations) and not forward
        self.suffix = delivery_suffix(exchange, routing_key)


class ExchangeHost(Protocol):
    """A virtual host, to whoever follows its bindings."""

    exchanges: dict[str, Exchange]

    @property
    def name(self) -> str: ...
    def targets(self, exchange: Exchange, routing_key: str, headers: Table) -> Iterable[Target]: ...


def find_targets(
    vhost: ExchangeHost, exchange: Exchange, routing_keys: Iterable[str], headers: Table = _NO_HEADERS
) -> Targets:
    """Where a message goes that is published to `exchange`: through other exchanges, and to alternate ones."""
    found = Targets()
    found.add_exchange(exchange)
    keys = tuple(routing_keys)
    while found.exchanges_left:
        here = found.exchanges_left.pop()
        found.by_headers = found.by_headers or here.type == "headers"
        matched = False
        for key in keys:
            for target in vhost.targets(here, key, headers):
                matched = True
                target.add_to(found)
        if not matched and here.alternate is not None:
            alternate = vhost.exchanges.get(here.alternate)
            if alternate is not None:
                found.add_exchange(alternate)
    return found
