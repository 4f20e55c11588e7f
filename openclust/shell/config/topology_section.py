"""What a cluster file says for `openclust lint`, `draw` and `simulate`: where things stand, what they bear, what lies
between them.

A broker reads it, checks it as any other key, and needs none of it but its own weight.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

NodeKind = Literal["switch", "router", "network", "wan"]

NUMBERS: dict[str, tuple[float, float]] = {
    "connections": (0, 10_000_000),
    "memory_mb": (0, 2**30),
    "cores": (0, 4_096),
    "bandwidth_mbit": (0, 10**9),
    "weight": (0, 1_000),
    "latency_ms": (0, 3_600_000),
    "loss": (0, 1),
    "connections_max": (1, 10_000_000),
    "primaries_max": (1, 1_000),
    "wan_latency_ms": (0, 3_600_000),
    "round_trip_share_max": (0.01, 1),
    "capability_share_min": (0, 1),
}
"""What the numbers of the structs below may be, by the name of their field."""


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every broker may say of itself: where it stands, and what it bears. Empty and 0: not said."""

    host: str = ""
    rack: str = ""
    zone: str = ""
    region: str = ""
    connections: int = 0
    memory_mb: int = 0
    cores: int = 0
    bandwidth_mbit: float = 0
    weight: int = 0


class Secondary(Place, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secondary that is expected to join. It does so without being on any list; this is for the tools."""

    client: str = ""
    peer: str = ""
    http: str = ""


class PhysicalNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What links pass through. `wan`: a network of others, which a stranger may listen to."""

    kind: NodeKind = "switch"
    rack: str = ""
    zone: str = ""
    region: str = ""


class TopologyLink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A link between two of all brokers and nodes. The latency is that of one way; bandwidth 0 is not said."""

    between: tuple[str, ...]
    latency_ms: float = 0
    bandwidth_mbit: float = 0
    loss: float = 0


class Ignore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Findings of a rule that are meant to be so, and why; of all brokers, or of these."""

    rule: str
    reason: str = ""
    brokers: tuple[str, ...] = ()


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From where on `openclust lint` finds fault, where that is a matter of judgement.

    `connections_max` are what one broker is asked for in practice, and taken to bear where it says nothing else (an
    address has some 64,000 ports to a client behind a proxy, and heartbeats of more keep one process busy);
    `wan_latency_ms` is that of one way (light goes a thousand kilometres in 5 ms, farther than within any building);
    `round_trip_share_max` what a round trip may take of the time that a root's lease leaves; `capability_share_min` how
    much the weakest primary must have of what the strongest has.
    """

    connections_max: int = 60_000
    primaries_max: int = 9
    wan_latency_ms: float = 5
    round_trip_share_max: float = 0.5
    capability_share_min: float = 1


class Topology(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[topology]`. Where no links are listed, everybody reaches everybody.

    `settings` are of single brokers where they differ from the file, by dotted key. `clients` are connections at one
    time, `client_mbit` what goes to and from all of them, `shared_mbit` what of it is published to shared queues.
    """

    secondaries: dict[str, Secondary] = {}
    nodes: dict[str, PhysicalNode] = {}
    links: tuple[TopologyLink, ...] = ()
    settings: dict[str, dict[str, Any]] = {}
    ignore: tuple[Ignore, ...] = ()
    thresholds: Thresholds = Thresholds()
    failover_ms: int = 0
    clients: int = 0
    client_mbit: int = 0
    shared_mbit: int = 0
