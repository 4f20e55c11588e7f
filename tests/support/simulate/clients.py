"""Clients of small runs for tests of placement, and what must be true of where they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from topology.simulate.clients.attaching import attach
from topology.simulate.clients.cohort import Attempt, ClientSession
from topology.simulate.input.calibration import Calibration, shipped
from topology.simulate.input.fault import parse_fault
from topology.simulate.input.layout import Layout
from topology.simulate.input.timeline import NOBODY, Timeline, timeline
from topology.simulate.input.workload import ClientGroup

COSTS: Calibration = msgspec.structs.replace(shipped(), attach_per_s=1_000, attach_us=110, open_us=55)
BIN_MS = 100


def group(number: int = 0, count: int = 1_000, **fields: object) -> ClientGroup:
    given: dict[str, object] = {
        "number": number,
        "kind": "subscribers",
        "name": f"g{number}",
        "count": count,
        "join_at_ms": 0,
        "join_over_ms": 0,
        "latency_us": 100,
        "jitter_us": 0,
        "brokers": (),
        "follows": True,
    }
    return ClientGroup(**(given | fields))  # type: ignore[arg-type]


def dealt(groups: Sequence[ClientGroup], layout: Layout) -> list[Attempt]:
    """Members join evenly over their time, and those of one bin are dealt out evenly to the brokers they know."""
    found = []
    for each in groups:
        contacts = [layout.number(name) for name in each.brokers if name in layout.names] or range(len(layout.sites))
        slots = max(1, min(each.join_over_ms // BIN_MS, each.count))
        for slot in range(slots):
            low, high = each.count * slot // slots, each.count * (slot + 1) // slots
            for place, contact in enumerate(contacts):
                first = low + (high - low) * place // len(contacts)
                after = low + (high - low) * (place + 1) // len(contacts)
                if first < after:
                    found.append(Attempt(each.number, each.join_at_ms + slot * BIN_MS, contact, first, after - 1))
    return found


class Placed:
    """What became of these groups on this layout."""

    def __init__(
        self,
        layout: Layout,
        groups: Sequence[ClientGroup],
        *faults: str,
        duration_ms: int = 30_000,
        attempts: Iterable[Attempt] | None = None,
        calibration: Calibration = COSTS,
    ) -> None:
        self.layout = layout
        self.attempts = list(dealt(groups, layout) if attempts is None else attempts)
        self.timeline: Timeline = timeline(layout, [parse_fault(each) for each in faults], calibration, duration_ms)
        self.sessions = attach(layout, groups, self.attempts, self.timeline, calibration, BIN_MS)

    @property
    def redirects(self) -> int:
        return sum(each.last - each.first + 1 for each in self.sessions if each.from_ms == each.to_ms)

    def at(self, at_ms: int, grp: int | None = None) -> Counter[int]:
        """How many clients are at each broker, and nowhere."""
        found: Counter[int] = Counter()
        for each in self.sessions:
            if each.from_ms <= at_ms < each.to_ms and grp in (None, each.grp):
                found[each.broker] += each.last - each.first + 1
        return found

    def attached_by(self, since_ms: int) -> int:
        """When the last of those had a broker that had been nowhere since then."""
        return max(each.to_ms for each in self.sessions if each.broker == NOBODY and each.from_ms == since_ms)

    def check(self) -> None:
        """Every client is at one place at a time, from when it joins to the end, and never where nobody is."""
        spans: dict[tuple[int, int], list[ClientSession]] = defaultdict(list)
        for each in self.sessions:
            assert each.from_ms <= each.to_ms
            until_ms = max(each.to_ms, each.from_ms + 1)
            assert each.broker == NOBODY or self.timeline.is_up(each.broker, each.from_ms, until_ms), each
            if each.from_ms < each.to_ms:
                for client in range(each.first, each.last + 1):
                    spans[each.grp, client].append(each)
        joined = {
            (each.grp, client): each.joins_ms
            for each in self.attempts
            for client in range(each.first, each.last + 1)
            if each.joins_ms < self.timeline.duration_ms
        }
        assert spans.keys() == joined.keys()
        for member, found in spans.items():
            found.sort(key=lambda each: each.from_ms)
            assert found[0].from_ms == joined[member]
            assert found[0].broker == NOBODY
            assert found[-1].to_ms == self.timeline.duration_ms
            assert all(earlier.to_ms == later.from_ms for earlier, later in pairwise(found))
