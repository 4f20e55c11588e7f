"""basic.publish, publisher confirms and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.broker.amqp.channel import OPEN, Channel, handles
from openclust.broker.amqp.confirms import Confirms
from openclust.broker.amqp.content import PUBLISH_PREFIX, too_large
from openclust.broker.amqp.transaction import Publication, Transaction
from openclust.broker.delivery.cluster_exchange import CLUSTER_EXCHANGE, ControlQueue
from openclust.broker.delivery.direct_reply import REPLY_PREFIX, REPLY_TO
from openclust.broker.delivery.fanout import PUBLISHED, fan_out
from openclust.broker.model.message import OVERHEAD_BYTES, Message
from openclust.broker.model.outcome import PLACES, REFUSED
from openclust.broker.routing.carbon_copies import copy_keys, hide_blind_copies, route_by_headers
from openclust.broker.routing.route import Route, find_targets
from openclust.wire.codec import decode_method
from openclust.wire.errors import (
    ACCESS_REFUSED,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    ChannelError,
    ConnectionError,
)
from openclust.wire.methods import (
    BasicPublish,
    ConfirmSelect,
    ConfirmSelectOk,
)
from openclust.wire.properties import (
    EXPIRATION,
    HEADERS,
    USER_ID,
    Properties,
    decode_properties,
    encode_header,
    header_fields,
)
from openclust.wire.properties import REPLY_TO as REPLY_TO_FLAG

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import ServingBroker
    from openclust.broker.cluster_port import Verdict

EXPIRATION_MAX_MS = 2**53

_WATCH = HEADERS | EXPIRATION | REPLY_TO_FLAG | USER_ID | 0x0003
_BY_MESSAGE = 0xFFFF
_PROPERTIES_CACHE_MAX = 1_000
_CACHED_DESTINATIONS_MAX = 1_000_000
"""How many destinations the cached routes of one user may list together, roughly."""


def confirm(channel: Channel, outcome: int) -> None:
    """A publish is done: confirm it, once the message is kept where it must be."""
    confirms, broker = channel.confirms, channel.broker
    assert confirms is not None, "the channel confirms"
    if not outcome:
        if confirms.settle(True):
            broker.confirming.append(channel)
        return
    places = outcome & PLACES
    if places:
        confirms.settle_behind(outcome == places, broker.journal.number, places)
        broker.journal.waiters[channel] = None
    elif confirms.settle(False):
        broker.confirming.append(channel)


def is_simple(channel: Channel, body: bytes) -> bool:
    return channel.transaction is None and len(body) <= channel.broker.limits.message_size_max


def check_header(broker: ServingBroker, header: bytes) -> None:
    """Raise 502 for malformed properties: every consumer that gets the message would fail on them."""
    if header[12:] in broker.sound:
        return
    decode_properties(header)
    if len(broker.sound) >= _PROPERTIES_CACHE_MAX:
        broker.sound.clear()
    if len(header) <= 512:
        broker.sound.add(header[12:])


def decode_publish(arguments: bytes) -> BasicPublish:
    """The basic.publish of these arguments: the bytes behind its class and method id."""
    method = decode_method(PUBLISH_PREFIX + arguments)
    assert isinstance(method, BasicPublish), "the prefix is basic.publish's"
    return method


def resolve(channel: Channel, arguments: bytes) -> Route:
    """Find the route of a publish, and put it into the cache of its user and virtual host."""
    method = decode_publish(arguments)
    if method.immediate:
        raise ConnectionError(NOT_IMPLEMENTED, "immediate=true")
    connection = channel.connection
    vhost = connection.vhost
    connection.demand("write", method.exchange)
    if method.exchange == CLUSTER_EXCHANGE:
        return _to_cluster(channel, arguments, method)
    exchange = vhost.exchange(method.exchange)
    if exchange.internal:
        raise ChannelError(
            ACCESS_REFUSED, f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'"
        )
    connection.demand_topic("write", exchange, method.routing_key)
    if not method.exchange and method.routing_key.startswith(REPLY_PREFIX):
        # Reply addresses come and go with their requesters, so they are not cached.
        broker = channel.broker
        reply = broker.replies.get(method.routing_key) or broker.cluster.reply_outlet(method.routing_key)
        found = [] if reply is None else [reply]
        route = Route("", method.routing_key, found, mandatory=method.mandatory, watch=_WATCH)
        if channel.transaction is None:
            vhost.route_counts.add_one(route)
        return route
    targets = find_targets(vhost, exchange, (method.routing_key,))
    destinations, forward = channel.broker.cluster.reach(vhost, targets)
    route = Route(
        method.exchange,
        method.routing_key,
        destinations,
        mandatory=method.mandatory,
        watch=_BY_MESSAGE if targets.by_headers else _WATCH,
        forward=forward,
    )
    routes = channel.routes
    if (
        len(routes) >= channel.broker.limits.route_cache_max
        or len(routes) * len(destinations) > _CACHED_DESTINATIONS_MAX
    ):
        vhost.route_counts.forget(routes.values())
        routes.clear()
    routes[arguments] = route
    return route


def _to_cluster(channel: Channel, arguments: bytes, method: BasicPublish) -> Route:
    """The route of control messages to `amq.cluster`, which only brokers may publish."""
    connection = channel.connection
    if connection.user.type != "cluster":
        raise ChannelError(ACCESS_REFUSED, f"only brokers of the cluster may publish to '{CLUSTER_EXCHANGE}'")

    def hear(body: bytes) -> None:
        # Control messages do not count as published messages.
        channel.published -= 1
        connection.broker.cluster.control(connection, body)

    route = Route(method.exchange, method.routing_key, [ControlQueue(hear)], watch=_WATCH)
    channel.routes[arguments] = route
    return route


def publish_with_care(channel: Channel, route: Route, header: bytes, body: bytes) -> None:
    """Check the properties, follow them, and publish."""
    limit = channel.broker.limits.message_size_max
    if len(body) > limit:
        raise too_large(len(body), limit)
    properties = _properties(channel, header)
    _check_user(channel, properties)
    _check_expiration(properties)
    if properties.reply_to == REPLY_TO:
        if channel.reply is None:
            raise ChannelError(PRECONDITION_FAILED, "fast reply consumer does not exist")
        properties = msgspec.structs.replace(properties, reply_to=channel.reply.address)
        fields = None if properties.headers is None else header_fields(header)
        header = encode_header(properties, len(body), fields)
    headers = properties.headers
    keys = copy_keys(headers)
    vhost = channel.connection.vhost
    is_own_route = bool(keys) or route.watch == _BY_MESSAGE
    if is_own_route:
        reach = channel.broker.cluster.reach
        exchange = vhost.exchange(route.exchange)
        # Else a carbon copy would be the way around: RabbitMQ checks the routing key only.
        for key in keys or ():
            channel.connection.demand_topic("write", exchange, key)
        route = route_by_headers(vhost, exchange, route.routing_key, headers or {}, reach, mandatory=route.mandatory)
    if keys is not None:
        properties, header = hide_blind_copies(route, properties, header, len(body))
    if channel.transaction is not None:
        _remember(channel, channel.transaction, Publication(route, header, body))
        return
    if is_own_route:
        vhost.route_counts.add_one(route)
    perform_message(channel, route, header, body, properties)


def _remember(channel: Channel, transaction: Transaction, publication: Publication) -> None:
    limit = channel.broker.limits.transaction_bytes_max
    size = len(publication.body) + len(publication.header) + OVERHEAD_BYTES
    transaction.held_bytes += size
    channel.broker.memory_accounts.held_bytes += size
    if transaction.held_bytes > limit:
        raise ChannelError(
            RESOURCE_ERROR, f"a transaction holds more than {limit} bytes of messages: commit more often"
        )
    transaction.publications.append(publication)


def perform_message(channel: Channel, route: Route, header: bytes, body: bytes, properties: Properties | None) -> None:
    """Publish a checked message; return or confirm it."""
    broker = channel.broker
    if not route.destinations and not route.forward:
        channel.unroutable(route, header, body)
    outcome = fan_out(broker, route, header, body, properties, PUBLISHED)
    channel.published = published = channel.published + 1
    if published >= channel.size_sample_at:
        channel.sample_size(len(body))
    if route.forward:
        _forward(channel, route, header, body, not outcome & REFUSED)
    elif channel.confirms is not None:
        confirm(channel, outcome)


def _forward(channel: Channel, route: Route, header: bytes, body: bytes, accepted: bool) -> None:
    """Send the root a message for its queues. The publisher gets its confirm when the root has answered."""
    message = Message(route.exchange, route.routing_key, route.whole_header or header, body, route.suffix)
    verdict: Verdict | None = None
    if channel.confirms is not None or route.mandatory:
        verdict = _verdict(channel, route, header, body, accepted)
    channel.broker.cluster.forward(channel, channel.connection.vhost, message, verdict)


def _verdict(channel: Channel, route: Route, header: bytes, body: bytes, accepted: bool) -> Verdict:
    confirms = channel.confirms
    number = confirms.defer() if confirms is not None else 0

    def verdict(routed: bool, taken: bool) -> None:
        if channel.state != OPEN:
            return
        if not routed and not route.destinations:
            channel.unroutable(route, header, body)
        if confirms is not None and confirms.resolve(number, accepted and taken):
            channel.broker.confirming.append(channel)

    return verdict


def _properties(channel: Channel, header: bytes) -> Properties:
    """The decoded properties, from a cache: equal ones come often."""
    known = channel.broker.properties
    properties = known.get(header)
    if properties is None:
        properties = decode_properties(header)
        if len(known) >= _PROPERTIES_CACHE_MAX:
            known.clear()
        if len(header) <= 512:
            known[header] = properties
    return properties


def _check_user(channel: Channel, properties: Properties) -> None:
    user = channel.connection.user
    if properties.user_id is not None and properties.user_id != user.name and "impersonator" not in user.tags:
        text = f"user_id property set to '{properties.user_id}' but authenticated user was '{user.name}'"
        raise ChannelError(PRECONDITION_FAILED, text)


def _check_expiration(properties: Properties) -> None:
    expiration = properties.expiration
    if expiration is None:
        return
    # int() would take signs, blanks and underscores too.
    if not (expiration.isascii() and expiration.isdigit() and len(expiration) <= 16):
        raise ChannelError(
            PRECONDITION_FAILED, f"invalid expiration '{expiration}': a number of milliseconds is wanted"
        )
    if int(expiration) > EXPIRATION_MAX_MS:
        raise ChannelError(PRECONDITION_FAILED, f"invalid expiration '{expiration}': more than 2^53 ms")


@handles(ConfirmSelect)
def confirm_select(channel: Channel, method: ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise ChannelError(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.no_wait:
        channel.send(ConfirmSelectOk())
