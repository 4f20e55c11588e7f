"""The methods that declare, delete, bind and purge exchanges and queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from openclust.broker.amqp.channel import Channel, handles
from openclust.broker.amqp.deferred_reply import answer
from openclust.broker.delivery.direct_reply import REPLY_PREFIX, REPLY_TO
from openclust.broker.model.changes import (
    Bind,
    Change,
    Counts,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Unbind,
)
from openclust.broker.queues.queue import Queue
from openclust.wire.errors import ACCESS_REFUSED, NOT_FOUND, ChannelError
from openclust.wire.methods import (
    AccessRequest,
    AccessRequestOk,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.wire.table import Value


def define(channel: Channel, change: Change, method: Method, reply: Callable[[Any], None]) -> None:
    """Ask for a change on all brokers. When it is made, reply; if it is refused, close the channel."""
    answer(channel, method, partial(channel.broker.define, change), reply)


def _answer(channel: Channel, no_wait: bool, method: Method) -> Callable[[Any], None]:
    def reply(_: Any) -> None:
        if not no_wait:
            channel.send(method)

    return reply


def clean(name: str) -> str:
    """The name without line ends, as in RabbitMQ: they come from copy and paste."""
    return name.replace("\r", "").replace("\n", "") if "\r" in name or "\n" in name else name


# -- exchanges


@handles(ExchangeDeclare)
def exchange_declare(channel: Channel, method: ExchangeDeclare) -> None:
    vhost = channel.connection.vhost
    name = clean(method.exchange)
    reply = _answer(channel, method.no_wait, ExchangeDeclareOk())
    _refuse_default(name)
    if method.passive:
        vhost.exchange(name)
        reply(None)
        return
    connection = channel.connection
    connection.demand("configure", name)
    if name not in vhost.exchanges:
        _refuse_reserved("exchange", name)
    _demand_passing_on(connection, name, method.arguments.get("alternate-exchange"))
    change = DeclareExchange(
        vhost=vhost.name,
        name=name,
        type=method.type,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=method.arguments,
    )
    define(channel, change, method, reply)


@handles(ExchangeDelete)
def exchange_delete(channel: Channel, method: ExchangeDelete) -> None:
    name = clean(method.exchange)
    _refuse_default(name)
    channel.connection.demand("configure", name)
    _refuse_reserved("exchange", name)
    change = DeleteExchange(vhost=channel.connection.vhost.name, name=name, if_unused=method.if_unused)
    define(channel, change, method, _answer(channel, method.no_wait, ExchangeDeleteOk()))


@handles(ExchangeBind)
def exchange_bind(channel: Channel, method: ExchangeBind) -> None:
    _change_exchange_binding(channel, method, Bind, ExchangeBindOk())


@handles(ExchangeUnbind)
def exchange_unbind(channel: Channel, method: ExchangeUnbind) -> None:
    _change_exchange_binding(channel, method, Unbind, ExchangeUnbindOk())


def _change_exchange_binding(
    channel: Channel, method: ExchangeBind | ExchangeUnbind, kind: type[Bind | Unbind], ok: Method
) -> None:
    source, destination = _demand_ends(channel, method.source, method.destination, method.routing_key, to_exchange=True)
    change = kind(
        vhost=channel.connection.vhost.name,
        source=source,
        destination=destination,
        to_exchange=True,
        routing_key=method.routing_key,
        arguments=method.arguments,
    )
    define(channel, change, method, _answer(channel, method.no_wait, ok))


def _demand_ends(
    channel: Channel, source: str, destination: str, routing_key: str, *, to_exchange: bool
) -> tuple[str, str]:
    """Clean and check both names of a binding: 403 without write permission at its destination or read at source."""
    source = clean(source)
    destination = clean(destination)
    _refuse_default(source)
    if to_exchange:
        _refuse_default(destination)
    channel.connection.demand("write", destination)
    connection = channel.connection
    connection.demand("read", source)
    exchange = connection.vhost.exchanges.get(source)
    if exchange is not None:
        connection.demand_topic("read", exchange, routing_key)
    return source, destination


def _refuse_reserved(kind: str, name: str) -> None:
    if name.startswith("amq."):
        raise ChannelError(ACCESS_REFUSED, f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def _demand_passing_on(connection: Connection, name: str, exchange: Value) -> None:
    """Raise 403 unless the user may read here and write there, where messages are passed on to `exchange`."""
    if isinstance(exchange, str):
        connection.demand("read", name)
        connection.demand("write", exchange)


def _refuse_default(name: str) -> None:
    if not name:
        raise ChannelError(ACCESS_REFUSED, "operation not permitted on the default exchange")


@handles(AccessRequest)
def access_request(channel: Channel, method: AccessRequest) -> None:
    """Access tickets of 0-8 are not checked any more: every client gets the same one."""
    channel.send(AccessRequestOk(ticket=1))


# -- queues


def named_queue(channel: Channel, name: str) -> str:
    """The queue that a method names. An empty name is the last queue that the channel declared."""
    name = clean(name)
    if name:
        return name
    if not channel.last_queue:
        raise ChannelError(NOT_FOUND, "no previously declared queue")
    return channel.last_queue


@handles(QueueDeclare)
def queue_declare(channel: Channel, method: QueueDeclare) -> None:
    connection = channel.connection
    vhost = connection.vhost
    name = clean(method.queue)
    if name == REPLY_TO or name.startswith(REPLY_PREFIX):
        _declare_reply(channel, name, method.no_wait)
        return

    def reply(made: Queue | Counts) -> None:
        channel.last_queue = name
        if not method.no_wait:
            counts = counted(made) if isinstance(made, Queue) else made
            ok = QueueDeclareOk(queue=name, message_count=counts.messages, consumer_count=counts.consumers)
            channel.send(ok)

    if method.passive:
        # As in RabbitMQ an empty name is not the last declared queue here.
        queue = vhost.queue(name, connection)
        if channel.broker.cluster.is_elsewhere(queue):
            answer(channel, method, partial(channel.broker.cluster.inspect, queue), reply)
            return
        queue.touch()
        reply(queue)
        return
    is_named = bool(name)
    if not is_named:
        name = connection.broker.name_queue()
    connection.demand("configure", name)
    if is_named and name not in vhost.queues:
        _refuse_reserved("queue", name)
    existing = vhost.queues.get(name)
    if existing is not None:
        # Before any other difference, as in RabbitMQ.
        vhost.demand_owner(existing, connection if method.exclusive else None)
    _demand_passing_on(connection, name, method.arguments.get("x-dead-letter-exchange"))
    change = DeclareQueue(
        vhost=vhost.name,
        name=name,
        durable=method.durable,
        auto_delete=method.auto_delete,
        arguments=method.arguments,
    )
    channel.broker.churn.queue_declared += 1
    if method.exclusive:
        # Other brokers need not know an exclusive queue.
        vhost.demand_room_for_queue(name)
        reply(vhost.declare_queue(change, connection))
    else:
        define(channel, vhost.with_default_type(change), method, reply)


def counted(queue: Queue) -> Counts:
    """The counts for queue.declare-ok, without messages that have expired by now."""
    queue.expire()
    return Counts(len(queue), len(queue.consumers.all))


def _declare_reply(channel: Channel, name: str, no_wait: bool) -> None:
    """Declaring a reply address asks whether its requester still exists."""
    if name != REPLY_TO and name not in channel.broker.replies:
        raise ChannelError(NOT_FOUND, f"no queue '{name}' in vhost '{channel.connection.vhost.name}'")
    if not no_wait:
        channel.send(QueueDeclareOk(queue=name, message_count=0, consumer_count=1))


@handles(QueueBind)
def queue_bind(channel: Channel, method: QueueBind) -> None:
    name = named_queue(channel, method.queue)
    # 0-9-1: where neither queue nor key is named, the key is the queue's name too.
    key = name if not method.queue and not method.routing_key else method.routing_key
    source, name = _demand_ends(channel, method.exchange, name, key, to_exchange=False)
    vhost = channel.connection.vhost
    queue = vhost.queue(name, channel.connection)
    change = Bind(vhost=vhost.name, source=source, destination=name, routing_key=key, arguments=method.arguments)
    reply = _answer(channel, method.no_wait, QueueBindOk())
    if queue.owner is not None:
        vhost.bind(change)
        reply(None)
    else:
        define(channel, change, method, reply)


@handles(QueueUnbind)
def queue_unbind(channel: Channel, method: QueueUnbind) -> None:
    name = named_queue(channel, method.queue)
    key = name if not method.queue and not method.routing_key else method.routing_key
    source, name = _demand_ends(channel, method.exchange, name, key, to_exchange=False)
    vhost = channel.connection.vhost
    change = Unbind(vhost=vhost.name, source=source, destination=name, routing_key=key, arguments=method.arguments)
    queue = vhost.queues.get(name)
    if queue is not None and vhost.queue(name, channel.connection).owner is not None:
        vhost.unbind(change)
        channel.send(QueueUnbindOk())
    else:
        define(channel, change, method, _answer(channel, False, QueueUnbindOk()))


@handles(QueuePurge)
def queue_purge(channel: Channel, method: QueuePurge) -> None:
    name = named_queue(channel, method.queue)
    channel.connection.demand("read", name)
    queue = channel.connection.vhost.queue(name, channel.connection)

    def reply(count: int) -> None:
        if not method.no_wait:
            channel.send(QueuePurgeOk(message_count=count))

    if channel.broker.cluster.is_elsewhere(queue):
        answer(channel, method, partial(channel.broker.cluster.purge, queue), reply)
    else:
        reply(queue.purge())


@handles(QueueDelete)
def queue_delete(channel: Channel, method: QueueDelete) -> None:
    name = named_queue(channel, method.queue)
    connection = channel.connection
    connection.demand("configure", name)
    vhost = connection.vhost

    def reply(count: int) -> None:
        if not method.no_wait:
            channel.send(QueueDeleteOk(message_count=count))

    if name in vhost.queues and vhost.queue(name, connection).owner is not None:
        reply(vhost.delete_queue(name, if_unused=method.if_unused, if_empty=method.if_empty))
        return
    change = DeleteQueue(vhost=vhost.name, name=name, if_unused=method.if_unused, if_empty=method.if_empty)
    define(channel, change, method, reply)
