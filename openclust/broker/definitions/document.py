"""A definitions document as RabbitMQ writes it: its sections and entries, checked for their fields and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from openclust.broker.model.access import UserType
from openclust.broker.model.field_type import value_text
from openclust.wire.table import Table

Pairs: TypeAlias = "dict[str, Any] | list[tuple[str, Any]]"
"""A mapping. `rabbitmqctl export_definitions` of RabbitMQ 3.10 writes some as lists of pairs, empty ones as lists."""


class UserEntry(msgspec.Struct, kw_only=True):
    name: str
    password_hash: str = ""
    hashing_algorithm: str | None = None
    type: UserType = "normal"
    tags: list[str] | str = []
    limits: Pairs = {}
    password: Any = None


class VhostEntry(msgspec.Struct, kw_only=True):
    name: str
    limits: Pairs = {}
    metadata: dict[str, Any] = {}
    description: Any = None
    tags: Any = None
    default_queue_type: Any = None
    tracing: Any = None


class PermissionEntry(msgspec.Struct, kw_only=True):
    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionEntry(msgspec.Struct, kw_only=True):
    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class GlobalParameterEntry(msgspec.Struct, kw_only=True):
    name: str
    value: Any


class PolicyEntry(msgspec.Struct, kw_only=True, rename="kebab"):
    vhost: str
    name: str
    pattern: str
    definition: Pairs
    apply_to: str = "all"
    priority: int = 0


class ParameterEntry(msgspec.Struct, kw_only=True):
    component: str
    name: str
    value: Any
    vhost: str


class ExchangeEntry(msgspec.Struct, kw_only=True):
    name: str
    vhost: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Pairs = {}


class QueueEntry(msgspec.Struct, kw_only=True):
    name: str
    vhost: str
    durable: bool = True
    auto_delete: bool = False
    type: str | None = None
    arguments: Pairs = {}


class BindingEntry(msgspec.Struct, kw_only=True):
    source: str
    vhost: str
    destination: str
    destination_type: Literal["queue", "exchange"]
    routing_key: str = ""
    arguments: Pairs = {}


Listed = TypeVar("Listed", bound=msgspec.Struct)

# Keys by which an export describes itself.
_ABOUT = {
    "bindings_count",
    "explanation",
    "metadata",
    "openclust_version",
    "original_cluster_name",
    "original_vhost_name",
    "product_name",
    "product_version",
    "rabbit_version",
    "rabbitmq_definition_format",
    "rabbitmq_version",
}
_OF_VHOST = ("parameters", "policies", "queues", "exchanges", "bindings")
_TAKEN = ("users", "vhosts", "permissions", "topic_permissions", "global_parameters", *_OF_VHOST)
FINDINGS_MAX = 1_000


class Findings:
    """Findings about a document, in its order: a bounded number of lines, and the count of all."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def add(self, place: str, text: str) -> None:
        self.count += 1
        if self.count <= FINDINGS_MAX:
            self.lines.append(f"{place}: {text}")

    def __bool__(self) -> bool:
        return bool(self.count)

    def summary(self) -> list[str]:
        """The lines, and one more that counts those left out."""
        left_out = self.count - len(self.lines)
        return [*self.lines, f"and {left_out} more"] if left_out else list(self.lines)


def place(section: str, index: int, name: Any = None, vhost: Any = None) -> str:
    """The place of an entry in the document: `queues[3] 'orders' in vhost '/'`."""
    text = f"{section}[{index}]"
    if isinstance(name, str):
        text += f" '{value_text(name)}'"
    return f"{text} in vhost '{value_text(vhost)}'" if isinstance(vhost, str) else text


class Reader:
    """Reads the sections of a document. Errors go to `problems`, entries without a meaning here to `ignored`."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.problems = Findings()
        self.ignored = Findings()
        self._document = document
        for key in document:
            if key not in _ABOUT and key not in _TAKEN and not key.startswith("openclust_"):
                self.ignored.add(value_text(key), "not a section that this broker knows")

    def entries(self, section: str, type: type[Listed]) -> Iterator[tuple[int, Listed]]:
        """The well-formed entries of a section, with their indexes."""
        for index, entry in self._list(section):
            name, vhost = (entry.get("name"), entry.get("vhost")) if isinstance(entry, dict) else (None, None)
            read = self.convert(entry, type, place(section, index, name, vhost))
            if read is not None:
                yield index, read

    def convert(self, entry: Any, type: type[Listed], where: str) -> Listed | None:
        """The entry as `type`, or None and a problem. Unknown keys are ignored and reported."""
        try:
            read = msgspec.convert(entry, type)
        except (msgspec.ValidationError, RecursionError) as error:
            self.problems.add(where, value_text(str(error)[:1].lower() + str(error)[1:]))
            return None
        for key in entry.keys() - set(type.__struct_encode_fields__):
            self.ignored.add(where, f"the key '{value_text(key)}' is unknown")
        return read

    def _list(self, section: str) -> list[tuple[int, Any]]:
        found = self._document.get(section)
        if found is None:
            return []
        if not isinstance(found, list):
            self.problems.add(section, f"expected a list, got {type(found).__name__}")
            return []
        return list(enumerate(found))


def of_vhost(document: Mapping[str, Any], vhost: str) -> dict[str, Any]:
    """The sections that one virtual host has, their entries in this virtual host whatever they say."""
    found = {key: value for key, value in document.items() if key in _ABOUT or key in _OF_VHOST}
    for section in _OF_VHOST:
        if isinstance(found.get(section), list):
            found[section] = [{**each, "vhost": vhost} if isinstance(each, dict) else each for each in found[section]]
    return found


def as_table(pairs: Pairs) -> Table:
    """The pairs as a field table."""
    return dict(pairs)
