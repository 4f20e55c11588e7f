"""Exchanges, their bindings, and the targets to which these send a message."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from openclust.broker.counts.message_counts import ExchangeCounts
from openclust.broker.routing.headers import HeadersMatcher
from openclust.broker.routing.topic import TopicTable
from openclust.wire.table import Table, encode_table

if TYPE_CHECKING:
    from openclust.broker.routing.destination import Destination

TYPES = ("direct", "fanout", "headers", "topic")

BindingKey: TypeAlias = "tuple[Target, str, bytes]"

_NO_ARGUMENTS: Table = {}


class Target(Hashable, Protocol):
    """What a binding leads to: a queue, another exchange or, in a meta-binding, another broker.

    `incoming` are the bindings that lead to it, None where there are none.
    """

    incoming: dict[Binding, None] | None

    @property
    def name(self) -> str: ...
    @property
    def durable(self) -> bool: ...
    @property
    def is_private(self) -> bool:
        """Whether it is a queue that only one client uses."""

    @property
    def is_exchange(self) -> bool: ...
    def add_to(self, targets: Targets) -> None:
        """Become one of the targets of a message."""


class Targets:
    """Where the bindings send one message: its destinations on this broker, and the names of other brokers.

    Each is there once, in the order in which it was found. `by_headers` says whether the message's headers decided.
    """

    __slots__ = ("_exchanges", "brokers", "by_headers", "destinations", "exchanges_left")

    def __init__(self) -> None:
        self.destinations: dict[Destination, None] = {}
        self.brokers: dict[str, None] = {}
        self.by_headers = False
        # The exchanges whose bindings are still to be followed; and all that were found.
        self.exchanges_left: list[Exchange] = []
        self._exchanges: set[Exchange] = set()

    def add_exchange(self, exchange: Exchange) -> None:
        if exchange not in self._exchanges:
            self._exchanges.add(exchange)
            self.exchanges_left.append(exchange)


class Binding(msgspec.Struct, frozen=True, eq=False):
    """From an exchange to a queue or another exchange. A meta-binding leads to another broker."""

    source: Exchange
    target: Target
    routing_key: str
    arguments: Table


class RoutingTable(Protocol):
    """Finds the targets of a message by the bindings, in the way of one exchange type."""

    def add(self, binding: Binding) -> None: ...
    def remove(self, binding: Binding) -> None: ...
    def match(self, routing_key: str, headers: Table) -> Iterable[Target]: ...


class DirectTable:
    """Targets by exact routing key."""

    __slots__ = ("_targets",)

    def __init__(self) -> None:
        self._targets: dict[str, dict[Target, int]] = {}

    def add(self, binding: Binding) -> None:
        _count_up(self._targets.setdefault(binding.routing_key, {}), binding.target)

    def remove(self, binding: Binding) -> None:
        targets = self._targets[binding.routing_key]
        _count_down(targets, binding.target)
        if not targets:
            del self._targets[binding.routing_key]

    def match(self, routing_key: str, headers: Table) -> Iterable[Target]:
        return self._targets.get(routing_key, ())


class FanoutTable:
    """All targets, whatever the key."""

    __slots__ = ("_targets",)

    def __init__(self) -> None:
        self._targets: dict[Target, int] = {}

    def add(self, binding: Binding) -> None:
        _count_up(self._targets, binding.target)

    def remove(self, binding: Binding) -> None:
        _count_down(self._targets, binding.target)

    def match(self, routing_key: str, headers: Table) -> Iterable[Target]:
        return self._targets


class TopicRouting:
    """Targets by patterns of words."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: TopicTable[Target] = TopicTable()

    def add(self, binding: Binding) -> None:
        self._table.add(binding.routing_key, binding.target)

    def remove(self, binding: Binding) -> None:
        self._table.remove(binding.routing_key, binding.target)

    def match(self, routing_key: str, headers: Table) -> Iterable[Target]:
        return self._table.match(routing_key)


class HeadersTable:
    """Targets by what the message's headers hold."""

    __slots__ = ("_matchers",)

    def __init__(self) -> None:
        self._matchers: dict[Binding, HeadersMatcher] = {}

    def add(self, binding: Binding) -> None:
        self._matchers[binding] = HeadersMatcher(binding.arguments)

    def remove(self, binding: Binding) -> None:
        del self._matchers[binding]

    def match(self, routing_key: str, headers: Table) -> Iterable[Target]:
        return [binding.target for binding, matcher in self._matchers.items() if matcher.matches(headers)]


def _count_up(targets: dict[Target, int], target: Target) -> None:
    targets[target] = targets.get(target, 0) + 1


def _count_down(targets: dict[Target, int], target: Target) -> None:
    if targets[target] == 1:
        del targets[target]
    else:
        targets[target] -= 1


_TABLES: dict[str, type[DirectTable] | type[FanoutTable] | type[TopicRouting] | type[HeadersTable]] = {
    "direct": DirectTable,
    "fanout": FanoutTable,
    "topic": TopicRouting,
    "headers": HeadersTable,
}


class Exchange:
    """One exchange. `bindings` lead away from it, `incoming` are bindings of other exchanges to it.

    Meta-bindings are kept apart: `remote_table` routes by them, and is None where there are none.
    """

    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "bindings",
        "durable",
        "incoming",
        "internal",
        "name",
        "published_in",
        "published_out",
        "remote_bindings",
        "remote_table",
        "table",
        "type",
    )

    is_private = False
    is_exchange = True

    def __init__(
        self,
        name: str,
        type: str,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table = _NO_ARGUMENTS,
    ) -> None:
        self.name = name
        self.type = type
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.alternate: str | None = None
        self.published_in = self.published_out = 0
        self.bindings: dict[BindingKey, Binding] = {}
        self.incoming: dict[Binding, None] | None = None
        self.table: RoutingTable = _TABLES[type]()
        self.remote_bindings: dict[BindingKey, Binding] | None = None
        self.remote_table: RoutingTable | None = None

    def add_to(self, targets: Targets) -> None:
        targets.add_exchange(self)

    def counts(self) -> ExchangeCounts:
        """How many messages passed, but for those that routes have not told of yet."""
        return ExchangeCounts(self.published_in, self.published_out)

    @property
    def is_used(self) -> bool:
        """Whether anything is bound to it, here or on another broker."""
        return bool(self.bindings or self.remote_bindings)

    def bind(self, target: Target, routing_key: str, arguments: Table) -> Binding | None:
        """The new binding, or None where it exists. ValueError for arguments this type cannot use."""
        key = binding_key(target, routing_key, arguments)
        if key in self.bindings:
            return None
        binding = Binding(self, target, routing_key, arguments or _NO_ARGUMENTS)
        self.table.add(binding)
        self.bindings[key] = binding
        if target.incoming is None:
            target.incoming = {}
        target.incoming[binding] = None
        return binding

    def unbind(self, target: Target, routing_key: str, arguments: Table) -> Binding | None:
        """The binding that was there, or None; now there is none."""
        binding = self.bindings.get(binding_key(target, routing_key, arguments))
        if binding is None:
            return None
        self.drop(binding)
        assert target.incoming is not None, "a target knows the bindings to it"
        del target.incoming[binding]
        return binding

    def drop(self, binding: Binding) -> None:
        """Remove a binding; the caller removes it from the target's `incoming`."""
        del self.bindings[binding_key(binding.target, binding.routing_key, binding.arguments)]
        self.table.remove(binding)

    def bind_remote(self, remote: Target, routing_key: str, arguments: Table) -> None:
        """Add a meta-binding. One with arguments that this type cannot use matches nothing."""
        if self.remote_bindings is None or self.remote_table is None:
            self.remote_bindings = {}
            self.remote_table = _TABLES[self.type]()
        binding = Binding(self, remote, routing_key, arguments or _NO_ARGUMENTS)
        with contextlib.suppress(ValueError):
            self.remote_table.add(binding)
            self.remote_bindings[binding_key(remote, routing_key, arguments)] = binding

    def unbind_remote(self, remote: Target, routing_key: str, arguments: Table) -> None:
        if self.remote_bindings is None or self.remote_table is None:
            return
        binding = self.remote_bindings.pop(binding_key(remote, routing_key, arguments), None)
        if binding is not None:
            self.remote_table.remove(binding)
        if not self.remote_bindings:
            self.remote_bindings = self.remote_table = None


def binding_key(target: Target, routing_key: str, arguments: Table) -> BindingKey:
    """Equal bindings have equal keys. The order of the arguments does not count."""
    if not arguments:
        return target, routing_key, b""
    return target, routing_key, encode_table(dict(sorted(arguments.items())))
