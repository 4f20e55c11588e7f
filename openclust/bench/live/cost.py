"""The measured figures of a workload that real clients played, and the medians of several runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec


class LiveFound(msgspec.Struct, kw_only=True):
    """The figures of one run. Rates and shares are those of the measured window; brokers have the names of the plan."""

    window_s: float
    deliveries_per_s: float
    consumed_per_s: float
    relayed: dict[str, float]
    """Copies to other brokers a second, by the broker that sent them."""
    cpu: dict[str, float]
    """The share of one core that each broker used."""
    latency_ms: dict[str, float]
    worked_ms: dict[str, float]
    no_root_ms: float | None
    killed_at_ms: int | None
    lost: int
    back_p50_ms: float | None
    back_all_ms: float | None
    machine_busy: float
    """The share of all cores that was in use, by any process."""
    generators_cpu: float
    client_us: float
    """Microseconds of CPU of the process with the timed clients, for each message that it publishes or gets."""
    others_cpu: float
    """The share of a core that the process with all other clients used."""
    late_ms: float
    published: int
    unsent: int
    attached: int
    redirected: int
    moved: int
    at_brokers: dict[str, int]
    notes: list[str] = []


def middle(found: Sequence[LiveFound]) -> LiveFound:
    """The median of each figure over the runs that have it, and the notes of all."""
    names = [name for name in LiveFound.__struct_fields__ if name != "notes"]
    figures = {name: _middle([getattr(each, name) for each in found]) for name in names}
    return LiveFound(**figures, notes=list(dict.fromkeys(note for each in found for note in each.notes)))


def _middle(values: Sequence[Any]) -> Any:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], dict):
        names = dict.fromkeys(name for value in known for name in value)
        return {name: _middle([value.get(name) for value in known]) for name in names}
    found = statistics.median(known)
    return round(found) if isinstance(known[0], int) else found
