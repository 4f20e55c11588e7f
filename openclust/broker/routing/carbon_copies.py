"""Carbon copies: the headers CC and BCC of a message have more routing keys. Consumers do not see BCC."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from openclust.broker.routing.destination import Destination
from openclust.broker.routing.route import ExchangeHost, Route, find_targets
from openclust.wire.errors import PRECONDITION_FAILED, ChannelError
from openclust.wire.properties import HEADERS, Properties, decode_properties, encode_header, header_fields
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.model.message import Message
    from openclust.broker.routing.exchange import Exchange, Targets

ReachRule: TypeAlias = "Callable[[ExchangeHost, Targets], tuple[list[Destination], bool]]"
"""Of all that the bindings name, the destinations of a message; and whether the root must get the message too."""

_NO_PROPERTIES = Properties()


def has_headers(header: bytes) -> bool:
    """Whether a content header says that the message has a table of headers."""
    return bool((header[12] << 8 | header[13]) & HEADERS)


def copy_keys(headers: Table | None) -> list[str] | None:
    """The further routing keys of a message, in its CC and BCC headers; None where it has neither header.

    ChannelError where one of them is not an array of routing keys.
    """
    if not headers or not ("CC" in headers or "BCC" in headers):
        return None
    return [*_keys_in(headers, "CC"), *_keys_in(headers, "BCC")]


def _keys_in(headers: Table, name: str) -> list[str]:
    keys = headers.get(name)
    if keys is None:
        return []
    found = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
    if not isinstance(keys, list) or len(found) != len(keys):
        raise ChannelError(PRECONDITION_FAILED, f"invalid header '{name}': an array of strings is wanted")
    return found


def route_by_headers(
    vhost: ExchangeHost, exchange: Exchange, key: str, headers: Table, reach: ReachRule, *, mandatory: bool = False
) -> Route:
    """The route of one message, by its routing key, its carbon copies and all its other headers."""
    targets = find_targets(vhost, exchange, (key, *(copy_keys(headers) or ())), headers)
    destinations, forward = reach(vhost, targets)
    return Route(exchange.name, key, destinations, mandatory=mandatory, forward=forward)


def hide_blind_copies(route: Route, properties: Properties, header: bytes, size: int) -> tuple[Properties, bytes]:
    """The properties without BCC, and their content header. `route` must be of this message only, and is changed.

    Other brokers need BCC to find their queues: they get the message with all its headers.
    """
    headers = properties.headers
    if not headers or "BCC" not in headers:
        return properties, header
    if copy_keys(headers):
        route.whole_header = header
        route.destinations = [WithAllHeaders(each, header) if each.is_remote else each for each in route.destinations]
    shown = {name: value for name, value in headers.items() if name != "BCC"}
    fields = header_fields(header)
    fields.pop("BCC", None)
    properties = msgspec.structs.replace(properties, headers=shown)
    return properties, encode_header(properties, size, fields)


def route_again(
    vhost: ExchangeHost,
    exchange: Exchange,
    key: str,
    header: bytes,
    size: int,
    reach: ReachRule,
    *,
    mandatory: bool = False,
) -> tuple[Route, bytes]:
    """Route a message that was published before once more. Returns its route and the content header for consumers."""
    properties = decode_properties(header) if has_headers(header) else _NO_PROPERTIES
    route = route_by_headers(vhost, exchange, key, properties.headers or {}, reach, mandatory=mandatory)
    return route, hide_blind_copies(route, properties, header, size)[1]


class WithAllHeaders(Destination):
    """Other brokers in the route of one message. They get it with BCC, which consumers here must not see."""

    __slots__ = ("_header", "_remote", "name")

    name: str
    is_remote = True

    def __init__(self, remote: Destination, header: bytes) -> None:
        self.name = remote.name
        self._remote = remote
        self._header = header

    def publish(self, message: Message) -> int:
        return self._remote.publish(msgspec.structs.replace(message, header=self._header))
