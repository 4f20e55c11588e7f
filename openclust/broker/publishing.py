"""basic.publish, publisher confirms and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.broker.channel import Channel, handles
from openclust.broker.confirms import Confirms
from openclust.broker.control import CLUSTER_EXCHANGE, ControlQueue
from openclust.broker.fanout import fan_out
from openclust.broker.message import OVERHEAD_BYTES
from openclust.broker.reply import REPLY_PREFIX, REPLY_TO
from openclust.broker.routing import Route, find_queues
from openclust.broker.transaction import Transaction
from openclust.wire.codec import decode_method, method_frame
from openclust.wire.errors import (
    ACCESS_REFUSED,
    CONTENT_TOO_LARGE,
    NO_ROUTE,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    ChannelError,
    ConnectionError,
)
from openclust.wire.frames import content_frames
from openclust.wire.methods import (
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from openclust.wire.properties import (
    EXPIRATION,
    HEADERS,
    PREAMBLE,
    USER_ID,
    Properties,
    decode_properties,
    encode_header,
)
from openclust.wire.properties import REPLY_TO as REPLY_TO_FLAG
from openclust.wire.table import Table

if TYPE_CHECKING:
    from openclust.broker.broker import Broker

EXPIRATION_MAX_MS = 2**53
PUBLISH_PREFIX = b"\0\x3c\0\x28"

_WATCH = HEADERS | EXPIRATION | REPLY_TO_FLAG | USER_ID | 0x0003
_BY_MESSAGE = 0xFFFF
_PROPERTIES_CACHE_MAX = 1_000
_CACHED_QUEUES_MAX = 1_000_000
"""How many queues the cached routes of one user may list together, roughly."""


class Publication(msgspec.Struct):
    """A publish that waits for its transaction."""

    route: Route
    header: bytes
    body: bytes


def publish(channel: Channel, arguments: bytes, header: bytes, body: bytes) -> None:
    """A whole publish: the hot path, as long as nothing about it asks for a closer look."""
    try:
        route = channel.routes.get(arguments) or _resolve(channel, arguments)
        flags = header[12] << 8 | header[13]
        if (
            flags & route.watch
            or not route.queues
            or channel.transaction is not None
            or len(body) > channel.broker.limits.message_size_max
        ):
            _publish_with_care(channel, route, header, body)
            return
        if (flags or len(header) != PREAMBLE.size) and header[12:] not in channel.broker.sound:
            _check_header(channel.broker, header)
        accepted = fan_out(route, header, body, channel.broker.dirty)
    except ChannelError as error:
        channel.fail(error, *BasicPublish.ID)
        return
    broker = channel.broker
    broker.turn_bytes += (len(body) + 200) * len(route.queues)
    if channel.confirms is not None and channel.confirms.settle(accepted):
        broker.confirming.append(channel)


def _check_header(broker: Broker, header: bytes) -> None:
    """Raise 502 for properties that do not add up: all who got the message would fail on it."""
    decode_properties(header)
    if len(broker.sound) >= _PROPERTIES_CACHE_MAX:
        broker.sound.clear()
    if len(header) <= 512:
        broker.sound.add(header[12:])


def too_large(size: int, limit: int) -> ChannelError:
    return ChannelError(
        CONTENT_TOO_LARGE, f"a message of {size} bytes is larger than the configured maximum of {limit}"
    )


def _resolve(channel: Channel, arguments: bytes) -> Route:
    """The route of a publish method, from now on in the cache of its user and virtual host."""
    method = decode_method(PUBLISH_PREFIX + arguments)
    assert isinstance(method, BasicPublish), "the prefix is basic.publish's"
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
    if not method.exchange and method.routing_key.startswith(REPLY_PREFIX):
        # Reply addresses come and go with their askers: not worth a place in the cache.
        reply = channel.broker.replies.get(method.routing_key)
        found = [] if reply is None else [reply]
        return Route("", method.routing_key, found, mandatory=method.mandatory, watch=_WATCH)
    queues, by_headers = find_queues(vhost, exchange, (method.routing_key,))
    watch = _BY_MESSAGE if by_headers else _WATCH
    route = Route(method.exchange, method.routing_key, queues, mandatory=method.mandatory, watch=watch)
    routes = channel.routes
    if len(routes) >= channel.broker.limits.route_cache_max or len(routes) * len(queues) > _CACHED_QUEUES_MAX:
        routes.clear()
    routes[arguments] = route
    return route


def _to_cluster(channel: Channel, arguments: bytes, method: BasicPublish) -> Route:
    """What brokers say to each other; nobody else may."""
    user = channel.connection.user
    if user.type != "cluster":
        raise ChannelError(ACCESS_REFUSED, f"only brokers of the cluster may publish to '{CLUSTER_EXCHANGE}'")
    route = Route(method.exchange, method.routing_key, [ControlQueue(channel.broker, user)], watch=_WATCH)
    channel.routes[arguments] = route
    return route


def _publish_with_care(channel: Channel, route: Route, header: bytes, body: bytes) -> None:
    """Validate what the properties say, act on it, and publish."""
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
        header = encode_header(properties, len(body))
    headers = properties.headers
    if headers and ("CC" in headers or "BCC" in headers):
        keys = [route.routing_key, *_carbon_copies(headers, "CC"), *_carbon_copies(headers, "BCC")]
        if "BCC" in headers:
            shown = {name: value for name, value in headers.items() if name != "BCC"}
            properties = msgspec.structs.replace(properties, headers=shown)
            header = encode_header(properties, len(body))
        route = _reroute(channel, route, keys, headers)
    elif route.watch == _BY_MESSAGE:
        route = _reroute(channel, route, [route.routing_key], headers or {})
    if channel.transaction is not None:
        _remember(channel, channel.transaction, Publication(route, header, body))
        return
    _perform(channel, route, header, body, properties)


def _remember(channel: Channel, transaction: Transaction, publication: Publication) -> None:
    limit = channel.broker.limits.transaction_bytes_max
    size = len(publication.body) + len(publication.header) + OVERHEAD_BYTES
    transaction.held_bytes += size
    channel.broker.books.held_bytes += size
    if transaction.held_bytes > limit:
        raise ChannelError(
            RESOURCE_ERROR, f"a transaction holds more than {limit} bytes of messages: commit more often"
        )
    transaction.publications.append(publication)


def _perform(channel: Channel, route: Route, header: bytes, body: bytes, properties: Properties | None) -> None:
    """Publish what has been validated; tell the publisher what it asked to be told."""
    broker = channel.broker
    if not route.queues and route.mandatory:
        _return(channel, route, header, body)
    accepted = fan_out(route, header, body, broker.dirty, properties)
    broker.turn_bytes += (len(body) + 200) * len(route.queues)
    if channel.confirms is not None and channel.confirms.settle(accepted):
        broker.confirming.append(channel)


def _properties(channel: Channel, header: bytes) -> Properties:
    """Decoded properties; equal ones come often, so they are kept a while."""
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


def _carbon_copies(headers: Table, name: str) -> list[str]:
    """The routing keys in a CC or BCC header."""
    keys = headers.get(name)
    if keys is None:
        return []
    found = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
    if not isinstance(keys, list) or len(found) != len(keys):
        raise ChannelError(PRECONDITION_FAILED, f"invalid header '{name}': an array of strings is wanted")
    return found


def _reroute(channel: Channel, route: Route, keys: list[str], headers: Table) -> Route:
    """A route for this one message, by all its keys and its headers."""
    vhost = channel.connection.vhost
    exchange = vhost.exchange(route.exchange)
    queues, _ = find_queues(vhost, exchange, keys, headers)
    return Route(route.exchange, route.routing_key, queues, mandatory=route.mandatory)


def _return(channel: Channel, route: Route, header: bytes, body: bytes) -> None:
    method = BasicReturn(
        reply_code=NO_ROUTE, reply_text="NO_ROUTE", exchange=route.exchange, routing_key=route.routing_key
    )
    connection = channel.connection
    connection.send(method_frame(channel.number, method))
    connection.send(content_frames(channel.number, header, body, connection.frame_max))


@handles(ConfirmSelect)
def confirm_select(channel: Channel, method: ConfirmSelect) -> None:
    if channel.transaction is not None:
        raise ChannelError(PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.no_wait:
        channel.send(ConfirmSelectOk())


@handles(TxSelect)
def tx_select(channel: Channel, method: TxSelect) -> None:
    if channel.confirms is not None:
        raise ChannelError(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(TxSelectOk())


@handles(TxCommit)
def tx_commit(channel: Channel, method: TxCommit) -> None:
    transaction = _begin_next(channel)
    for publication in transaction.publications:
        route = publication.route
        route.queues = [queue for queue in route.queues if queue.is_alive]
        _perform(channel, route, publication.header, publication.body, None)
    for item in transaction.acks:
        channel.settle(item)
    channel.take_back([item for item, back in transaction.rejects if back])
    for item, back in transaction.rejects:
        if not back:
            item.queue.reject(item.entry)
            channel.credit(item)
    channel.send(TxCommitOk())


@handles(TxRollback)
def tx_rollback(channel: Channel, method: TxRollback) -> None:
    transaction = _begin_next(channel)
    # The deliveries are unacknowledged again, as if the acks had never been sent.
    for item in [*transaction.acks, *(item for item, _ in transaction.rejects)]:
        channel.unacked[item.tag] = item
        channel.lowest_tag = min(channel.lowest_tag, item.tag)
    channel.send(TxRollbackOk())


def _begin_next(channel: Channel) -> Transaction:
    transaction = channel.transaction
    if transaction is None:
        raise ChannelError(PRECONDITION_FAILED, "channel is not transactional")
    channel.transaction = Transaction()
    channel.broker.books.held_bytes -= transaction.held_bytes
    return transaction
