"""Imports and exports definitions, in the JSON form of RabbitMQ: users, virtual hosts, policies, exchanges, queues.

The caller reads and writes the JSON. Messages are not part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from openclust import __version__
from openclust.broker.definitions.document import Findings, of_vhost
from openclust.broker.definitions.plan import Planner, Step
from openclust.broker.model.access import User
from openclust.broker.model.changes import Change, PutPermission, PutTopicPermission, PutUser
from openclust.broker.model.field_type import value_text
from openclust.broker.model.password_hash import to_rabbit
from openclust.broker.model.policy import Policy
from openclust.broker.routing.exchange import Target
from openclust.broker.server.vhost import PREDECLARED, VirtualHost
from openclust.wire.errors import AmqpError
from openclust.wire.text import decode_text

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker


RABBITMQ_VERSION = "3.10.8"
"""The version of RabbitMQ whose shapes documents and answers have."""

PENDING_MAX = 10_000


class Report(msgspec.Struct, frozen=True):
    """The result of an import. With `problems` and nothing `changed`, the broker is as before.

    If the import skips problems, `problems` are the entries that were left out, with the reasons.
    """

    changed: int
    unchanged: int
    problems: list[str]
    ignored: list[str]


class Import:
    """One import: call `run` until it returns True.

    It first checks the whole document, then makes the changes. If the check found a problem, it makes none; with
    `skip_problems` it makes those of all entries without one. Both go in parts, so that the broker can serve clients
    in between. When all changes are made, `on_finished` is called. With `vhost` all goes into this virtual host.
    """

    def __init__(
        self, broker: Broker, document: Mapping[str, Any], *, skip_problems: bool = False, vhost: str | None = None
    ) -> None:
        self.broker = broker
        self.on_finished: Callable[[], None] | None = None
        self.users: set[str] = set()
        """The users that were changed, for the users file."""
        self._skip_problems = skip_problems
        own = document if vhost is None else of_vhost(document, vhost)
        self._planner = Planner(broker, own, takes_what_has_room=skip_problems)
        for section in document.keys() - own.keys():
            self._planner.reader.ignored.add(value_text(section), f"not a part of vhost '{value_text(vhost or '')}'")
        self._plan: Iterator[str] | None = self._planner.plan()
        self._steps: list[Step] = []
        self._changed = 0
        self._next = 0
        self._pending = 0

    def run(self, at_most: int | None = None) -> bool:
        """Do the next part, of at most so many entries. True when nothing is left, but in a cluster answers may be."""
        if self._plan is not None:
            for _ in islice(self._plan, at_most) if at_most is not None else self._plan:
                pass
            if at_most is not None and next(self._plan, None) is not None:
                return False
            self._plan = None
            if self._skip_problems or not self._planner.reader.problems:
                self._steps = self._planner.steps
        end = len(self._steps) if at_most is None else min(self._next + at_most, len(self._steps))
        while self._next < end:
            where, change = self._steps[self._next]
            self._next += 1
            self._pending += 1
            self.broker.define(change, self._done(where, change))
        self._tell_if_finished()
        return self._next == len(self._steps)

    def _done(self, where: str, change: Change) -> Callable[[Any], None]:
        def done(result: Any) -> None:
            self._pending -= 1
            if isinstance(result, AmqpError):
                self._planner.reader.problems.add(where, result.text)
            else:
                self._changed += 1
                if isinstance(change, PutUser):
                    self.users.add(change.user.name)
                elif isinstance(change, PutPermission | PutTopicPermission):
                    self.users.add(change.user)
            self._tell_if_finished()

        return done

    def _tell_if_finished(self) -> None:
        if self.finished and self.on_finished is not None:
            tell, self.on_finished = self.on_finished, None
            tell()

    @property
    def is_backed_up(self) -> bool:
        """Whether too many changes wait for their answer to ask for more now."""
        return self._pending > PENDING_MAX

    @property
    def finished(self) -> bool:
        return self._plan is None and self._next == len(self._steps) and not self._pending

    def report(self) -> Report:
        reader = self._planner.reader
        return Report(self._changed, self._planner.unchanged, reader.problems.summary(), reader.ignored.summary())


def import_definitions(broker: Broker, document: Mapping[str, Any]) -> Report:
    """Import a whole document. In a cluster the changes may be made later: `Import` tells when they are."""
    one = Import(broker, document)
    one.run()
    return one.report()


def export_definitions(broker: Broker) -> dict[str, Any]:
    """The broker's users, virtual hosts, policies, and its durable exchanges, queues and bindings, in a fixed order.

    Entries that JSON cannot have (names or values that are not UTF-8) are left out, and named in `openclust_left_out`.
    """
    out = _Export()
    vhosts = [broker.vhosts[name] for name in sorted(broker.vhosts)]
    users = [broker.users[name] for name in sorted(broker.users)]
    document: dict[str, Any] = {
        **_versions(),
        "users": [_user(user) for user in users],
        "vhosts": [{"name": vhost.name, "limits": [], "metadata": vhost.metadata} for vhost in vhosts],
        "permissions": [
            {"user": user.name, "vhost": vhost, "configure": each.configure, "write": each.write, "read": each.read}
            for user in users
            for vhost, each in sorted(user.permissions.items())
            if vhost in broker.vhosts
        ],
        "topic_permissions": [
            {"user": user.name, "vhost": vhost, "exchange": exchange, "write": each.write, "read": each.read}
            for user in users
            for vhost, exchanges in sorted(user.topic_permissions.items())
            if vhost in broker.vhosts
            for exchange, each in sorted(exchanges.items())
        ],
        "parameters": _parameters(broker),
        "global_parameters": [
            {"name": name, "value": msgspec.json.decode(value)}
            for name, value in sorted(broker.parameters.global_values.items())
        ],
        "policies": [msgspec.to_builtins(policy) for policy in broker.policies.list()],
        "queues": out.entries(vhosts, _queues),
        "exchanges": out.entries(vhosts, _exchanges),
        "bindings": out.entries(vhosts, _bindings),
    }
    if out.left_out:
        document["openclust_left_out"] = out.left_out.summary()
    return document


def export_vhost(vhost: VirtualHost, broker: Broker) -> dict[str, Any]:
    """The definitions of one virtual host. As in RabbitMQ, exchanges, queues and bindings do not name it."""
    out = _Export()
    document: dict[str, Any] = {
        **_versions(),
        "parameters": _parameters(broker, vhost.name),
        "policies": [msgspec.to_builtins(policy) for policy in broker.policies.list(vhost.name)],
        "queues": out.entries([vhost], _queues),
        "exchanges": out.entries([vhost], _exchanges),
        "bindings": out.entries([vhost], _bindings),
    }
    for section in ("queues", "exchanges", "bindings"):
        for entry in document[section]:
            del entry["vhost"]
    if out.left_out:
        document["openclust_left_out"] = out.left_out.summary()
    return document


def _versions() -> dict[str, str]:
    """What made the document. RabbitMQ and its tools look for `rabbit_version`."""
    return {
        "openclust_version": __version__,
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "openclust",
        "product_version": __version__,
    }


class _Export:
    def __init__(self) -> None:
        self.left_out = Findings()

    def entries(
        self, vhosts: list[VirtualHost], entries: Callable[[VirtualHost], list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """The entries of all virtual hosts, without those that JSON cannot have."""
        found = []
        for vhost in vhosts:
            for entry in entries(vhost):
                try:
                    found.append(_json_value(entry))
                except ValueError as error:
                    name = entry.get("name") or f"{entry.get('source')} -> {entry.get('destination')}"
                    self.left_out.add(f"'{value_text(name)}' in vhost '{value_text(vhost.name)}'", str(error))
        return found


def is_exported(thing: Target) -> bool:
    """Whether an export has it: durable, and neither exclusive nor predeclared."""
    is_predeclared = thing.is_exchange and thing.name in PREDECLARED
    return thing.durable and not thing.is_private and not is_predeclared


def _user(user: User) -> dict[str, Any]:
    password_hash, algorithm = to_rabbit(user.password_hash)
    entry: dict[str, Any] = {
        "name": user.name,
        "password_hash": password_hash,
        "hashing_algorithm": algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }
    return entry if user.type == "normal" else {**entry, "type": user.type}


def _parameters(broker: Broker, vhost: str | None = None) -> list[dict[str, Any]]:
    """The parameters of one virtual host, or of all; as in RabbitMQ operator policies are among them."""
    policies = [_operator_policy(policy) for policy in broker.policies.list(vhost, operator=True)]
    return policies + [
        {"vhost": each.vhost, "component": each.component, "name": each.name, "value": msgspec.json.decode(each.value)}
        for each in broker.parameters.list()
        if vhost in (None, each.vhost)
    ]


def _operator_policy(policy: Policy) -> dict[str, Any]:
    value = msgspec.to_builtins(policy)
    vhost, name = value.pop("vhost"), value.pop("name")
    return {"vhost": vhost, "component": "operator_policy", "name": name, "value": value}


def _queues(vhost: VirtualHost) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "vhost": vhost.name,
            "durable": True,
            "auto_delete": queue.auto_delete,
            "type": queue.args.queue_type,
            "arguments": queue.arguments,
        }
        for name, queue in sorted(vhost.queues.items())
        if is_exported(queue)
    ]


def _exchanges(vhost: VirtualHost) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "vhost": vhost.name,
            "type": exchange.type,
            "durable": True,
            "auto_delete": exchange.auto_delete,
            "internal": exchange.internal,
            "arguments": exchange.arguments,
        }
        for name, exchange in sorted(vhost.exchanges.items())
        if is_exported(exchange)
    ]


def _bindings(vhost: VirtualHost) -> list[dict[str, Any]]:
    found = []
    for name, exchange in sorted(vhost.exchanges.items()):
        if not exchange.durable:
            continue
        bindings = [
            (binding.target.name, binding.target.is_exchange, key[1], key[2], binding.arguments)
            for key, binding in exchange.bindings.items()
            if binding.target.durable and (binding.target.is_exchange or is_exported(binding.target))
        ]
        for destination, to_exchange, routing_key, _, arguments in sorted(bindings, key=lambda each: each[:4]):
            found.append(
                {
                    "source": name,
                    "vhost": vhost.name,
                    "destination": destination,
                    "destination_type": "exchange" if to_exchange else "queue",
                    "routing_key": routing_key,
                    "arguments": arguments,
                }
            )
    return found


def _json_value(value: Any) -> Any:
    """A field value as JSON. ValueError if JSON cannot have it."""
    if isinstance(value, dict):
        return {_json_value(name): _json_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_json_value(one) for one in value]
    if isinstance(value, bytes):
        value = decode_text(value)
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("a name or an argument is not UTF-8") from None
        return value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)  # RabbitMQ too writes a timestamp as a number.
    number = float(value)
    if not isfinite(number):
        raise ValueError("an argument is not a finite number")
    return number
