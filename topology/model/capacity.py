"""The capacity of brokers, and the load that is expected of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from topology.model.file_entries import ListedBroker
from topology.model.graph import Model

CONNECTION_BYTES = 7_000
"""Memory of an idle subscriber: 6.7 kB when it is attached, 7.0 to 7.6 kB after traffic (docs/performance.md)."""

BROKER_BYTES = 60_000_000
"""Memory of a broker without clients."""


@lru_cache(maxsize=4)
def connections(model: Model) -> dict[str, int]:
    """The most connections of each broker: the number in the file, and no more than its limits and memory allow."""
    return {
        name: min(
            each.connections or model.config.topology.thresholds.connections_max,
            int(str(model.setting(name, "limits.connections_max"))),
            connections_in_memory(model, each),
        )
        for name, each in model.brokers.items()
    }


def connections_in_memory(model: Model, broker: ListedBroker) -> int:
    """How many connections fit before publishers are blocked; unbounded if the file does not tell the memory."""
    if not broker.memory_mb:
        return 10**9
    watermark = float(str(model.setting(broker.name, "limits.memory_high_watermark")))
    usable = watermark if watermark > 1 else watermark * broker.memory_mb * 1_000_000
    return max(0, int((usable - BROKER_BYTES) / CONNECTION_BYTES))


def weight(model: Model, broker: ListedBroker) -> int:
    """The broker's weight, by which it gets its share of the clients."""
    return broker.weight or int(str(model.setting(broker.name, "redirect.weight")))


@lru_cache(maxsize=4)
def clients(model: Model) -> dict[str, float]:
    """The expected clients of each broker, by weight."""
    weights = {name: weight(model, each) for name, each in model.brokers.items()}
    total = sum(weights.values())
    return {name: model.config.topology.clients * own / total for name, own in weights.items()}


def is_active_passive(model: Model) -> bool:
    """Whether all clients are sent to the root. Each primary must have room for all of them then."""
    return model.config.redirect.mode == "active-passive" and bool(model.primaries)


def clients_at_most(model: Model) -> dict[str, float]:
    """The most clients that each broker is expected to have at one time."""
    if is_active_passive(model):
        return {
            name: float(model.config.topology.clients if each.is_primary else 0) for name, each in model.brokers.items()
        }
    return clients(model)


def bandwidth(model: Model, names: Iterable[str]) -> float | None:
    """The Mbit/s of these brokers together; None if the file does not tell that of one."""
    each = [model.brokers[name].bandwidth_mbit for name in names]
    return sum(each) if all(each) else None
