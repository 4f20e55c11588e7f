"""Bindings as rows: those of private queues by the broker that has them, all others by the broker that is asked."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote_plus, unquote_plus

from openclust.broker.queues.queue import Queue
from openclust.broker.routing.exchange import Binding, Exchange
from openclust.broker.server.broker import Broker
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.questions import FindRow, ListRows
from openclust.manage.gather.selection import Row
from openclust.manage.rows.scope import vhosts_seen
from openclust.manage.rows.values import text, value
from openclust.wire.table import Table, encode_table

_NO_ARGUMENTS: Table = {}


class PlacedBinding(NamedTuple):
    """A binding and its virtual host. From the default exchange, whose name is empty, there is one to every queue."""

    vhost: VirtualHost
    source: str
    target: Queue | Exchange
    routing_key: str
    arguments: Table

    @property
    def destination_type(self) -> str:
        return "queue" if isinstance(self.target, Queue) else "exchange"

    @property
    def properties_key(self) -> str:
        return properties_key(self.routing_key, self.arguments)


class BindingRows:
    """Can be asked for by source, destination, destination_type and properties_key."""

    values: Mapping[str, Callable[[PlacedBinding], Any]] = {
        "source": lambda it: text(it.source),
        "vhost": lambda it: text(it.vhost.name),
        "destination": lambda it: text(it.target.name),
        "destination_type": lambda it: it.destination_type,
        "routing_key": lambda it: text(it.routing_key),
    }

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def objects(self, question: ListRows) -> Iterator[PlacedBinding]:
        key = question.where.get("properties_key")
        keys = None if key is None else spellings(key)
        return (
            each
            for vhost in vhosts_seen(self._broker, question.viewer, question.vhost)
            for each in bindings_in(vhost, question.where)
            if (question.is_own or each.target.is_private) and (keys is None or each.properties_key in keys)
        )

    def find(self, question: FindRow) -> PlacedBinding | None:
        """A binding has no name: it is asked for by its ends, in a list."""
        return None

    def place(self, it: PlacedBinding) -> tuple[str, str]:
        return text(it.vhost.name), text(f"{it.source} {it.destination_type} {it.target.name} {it.routing_key}")

    def row(self, it: PlacedBinding) -> Row:
        return {
            "source": text(it.source),
            "vhost": text(it.vhost.name),
            "destination": text(it.target.name),
            "destination_type": it.destination_type,
            "routing_key": text(it.routing_key),
            "arguments": value(it.arguments),
            "properties_key": it.properties_key,
        }

    def details(self, it: PlacedBinding) -> Row:
        return self.row(it)


def bindings_in(vhost: VirtualHost, where: Mapping[str, str]) -> Iterator[PlacedBinding]:
    """The bindings that this broker knows in a virtual host, of the source and to the destination that are named.

    Bindings may come and go while the others are looked at.
    """
    source = where.get("source")
    if "destination" in where:
        target = _target(vhost, where["destination"], where.get("destination_type", "queue"))
        if target is None:
            return
        if isinstance(target, Queue) and not source:
            yield _default(vhost, target)
        found: Iterable[Binding] = list(target.incoming or ())
        yield from (_placed(vhost, each) for each in found if source is None or each.source.name == source)
        return
    if not source:
        yield from (_default(vhost, queue) for queue in list(vhost.queues.values()))
    exchanges = [vhost.exchanges[source]] if source in vhost.exchanges else []
    for exchange in list(vhost.exchanges.values()) if source is None else exchanges:
        yield from (_placed(vhost, each) for each in list(exchange.bindings.values()))


def _target(vhost: VirtualHost, name: str, kind: str) -> Queue | Exchange | None:
    return vhost.queues.get(name) if kind == "queue" else vhost.exchanges.get(name)


def _default(vhost: VirtualHost, queue: Queue) -> PlacedBinding:
    return PlacedBinding(vhost, "", queue, queue.name, _NO_ARGUMENTS)


def _placed(vhost: VirtualHost, binding: Binding) -> PlacedBinding:
    target = binding.target
    assert isinstance(target, Queue | Exchange), "meta-bindings are kept apart"
    return PlacedBinding(vhost, binding.source.name, target, binding.routing_key, binding.arguments)


def properties_key(routing_key: str, arguments: Table) -> str:
    """The name of a binding among those between two ends: its routing key, and a hash of its arguments if it has any.

    An empty routing key is "~" alone. What RabbitMQ puts behind the "~" is a hash of another form.
    """
    quoted = _quoted(routing_key)
    if not arguments:
        return quoted or "~"
    packed = encode_table(dict(sorted(arguments.items())))
    digest = hashlib.md5(packed, usedforsecurity=False).digest()
    return f"{quoted}~{urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _quoted(routing_key: str) -> str:
    return quote_plus(routing_key, errors="surrogateescape").replace("~", "%7E")


def spellings(key: str) -> set[str]:
    """The key, and what it is if a path has it with one quoting less, as some tools write it."""
    routing_key, tilde, digest = key.partition("~")
    return {key, f"{_quoted(unquote_plus(routing_key, errors='surrogateescape'))}{tilde}{digest}"}
