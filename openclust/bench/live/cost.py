"""What a workload that was played for real cost, and the middle of several that were."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec


class LiveFound(msgspec.Struct, kw_only=True):
    """What was measured. Rates and shares are of the window; brokers have the names of the plan."""

    window_s: float
    deliveries_per_s: float
    consumed_per_s: float
    relayed: dict[str, float]
    """Copies a second, by the broker that sent them."""
    cpu: dict[str, float]
    """Of one core."""
    latency_ms: dict[str, float]
    worked_ms: dict[str, float]
    no_root_ms: float | None
    killed_at_ms: int | None
    lost: int
    back_p50_ms: float | None
    back_all_ms: float | None
    machine_busy: float
    """Of all cores, whoever used them."""
    generators_cpu: float
    client_us: float
    """Of CPU, that a message takes which the process with the timed clients publishes or gets."""
    others_cpu: float
    """Of a core, that the process with all other clients takes."""
    late_ms: float
    published: int
    unsent: int
    attached: int
    redirected: int
    moved: int
    at_brokers: dict[str, int]
    notes: list[str] = []


def middle(found: Sequence[LiveFound]) -> LiveFound:
    """Of each figure the median of those who have it; the notes of all."""
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
