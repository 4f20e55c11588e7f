"""The configuration of one broker: every section and key, with its default, as frozen structs.

Names here are the names in the TOML file: `Config.listen.port` is `port` in `[listen]`. `load` fills these from
the file, the environment and the command line; `checks` says what values are allowed.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from openclust.broker.model.limits import Limits
from openclust.cluster.protocol.redirect import Redirect

Mechanism = Literal["PLAIN", "AMQPLAIN", "EXTERNAL"]
PeerVerification = Literal["none", "optional", "required"]
TlsVersion = Literal["1.2", "1.3"]
LoginFrom = Literal["cn", "dn", "san"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
NodeKind = Literal["switch", "router", "network", "wan"]


class ConfigError(Exception):
    """The configuration cannot be used. `problems` are whole lines for people, all that were found at once."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ListenSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plain AMQP listener. Port 0: the system picks one. The backlog is that of the TLS listener too."""

    host: str = "127.0.0.1"
    port: int = 5672
    backlog: int = 4_096


class TlsSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The AMQPS listener: off while `port` is None.

    Without a `host` it is that of the plain listener. `login_from` is the part of a client's certificate that names the
    user, for EXTERNAL.
    """

    host: str | None = None
    port: int | None = None
    cert: str | None = None
    key: str | None = None
    ca: str | None = None
    verify: PeerVerification = "none"
    min_version: TlsVersion = "1.2"
    login_from: LoginFrom = "cn"


class HttpSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The management API. With `tls_cert` and `tls_key` it speaks TLS only.

    `wrong_logins_max` is what a user name may have from one address in a minute (0: no limit), and an address ten times
    that. `cors_origins` are the origins whose pages may read answers, `*` all. `path_prefix` stands before every path.
    """

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 15_672
    path_prefix: str = ""
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_ca: str | None = None
    tls_verify: PeerVerification = "none"
    tls_min_version: TlsVersion = "1.2"
    session_lifetime_s: int = 28_800
    wrong_logins_max: int = 10
    cors_origins: tuple[str, ...] = ()


class MetricsSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A listener for Prometheus alone, without logins: off while `port` is None."""

    host: str = "127.0.0.1"
    port: int | None = None
    from_loopback_only: bool = True


class AuthSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may log in and how. Without a users file there is one user, `guest` with password `guest`."""

    users_file: str | None = None
    mechanisms: tuple[Mechanism, ...] = ("PLAIN", "AMQPLAIN", "EXTERNAL")
    guest_from_loopback_only: bool = True


class DefinitionsSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of RabbitMQ's JSON definitions that is imported at start."""

    file: str | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a cluster file may tell of a broker: its place and its capacity. Empty text and 0: not known."""

    host: str = ""
    rack: str = ""
    zone: str = ""
    region: str = ""
    connections: int = 0
    memory_mb: int = 0
    cores: int = 0
    bandwidth_mbit: float = 0
    weight: int = 0


class Primary(Place, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one primary is, as `host:port`: for clients, for its peers, and its HTTP API (none without)."""

    client: str
    peer: str
    http: str = ""


class ClusterSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The primaries that elect a root, one of them with this broker's `name`; or the addresses that a secondary joins.

    With neither it is a cluster of one. With `peer_cert`, `peer_key` and `peer_ca` the links are TLS, and a certificate
    that the authority signed proves a peer. Addresses are `host:port`; `addresses` says what an empty one means.
    """

    secret: str | None = None
    secret_file: str | None = None
    data_dir: str | None = None
    peer_cert: str | None = None
    peer_key: str | None = None
    peer_ca: str | None = None
    heartbeat_ms: int = 100
    start_grace_ms: int = 5_000
    join: tuple[str, ...] = ()
    peer_listen: str = ""
    peer_advertise: str = ""
    client_listen: str = ""
    client_advertise: str = ""
    state_max_mb: int = 256
    root_wait_ms: int = 30_000
    disk_stall_ms: int = 2_000
    waiting_mb_max: int = 64
    link_outbox_mb_max: int = 64
    log_tail_max: int = 100_000
    primaries: dict[str, Primary] = {}


class LogSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log on stderr."""

    level: LogLevel = "info"
    format: LogFormat = "text"


class TraceSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The events of one in `sample` messages, as lines of JSON. `{name}` in the file's path is the broker's name."""

    file: str | None = None
    sample: int = 1_000
    max_mb: int = 100


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
"""What the numbers of brokers and of the structs below may be, by the name of their field."""


class Secondary(Place, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secondary that is expected to join. Brokers need no list of secondaries: this is for the tools."""

    client: str = ""
    peer: str = ""
    http: str = ""


class PhysicalNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A network that links pass through. `wan`: others run it, and strangers may listen."""

    kind: NodeKind = "switch"
    rack: str = ""
    zone: str = ""
    region: str = ""


class TopologyLink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A link between two brokers or network nodes. The latency is one-way; bandwidth 0 means not known."""

    between: tuple[str, ...]
    latency_ms: float = 0
    bandwidth_mbit: float = 0
    loss: float = 0


class Ignore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Findings of a rule that are accepted, with the reason; for all brokers, or for these."""

    rule: str
    reason: str = ""
    brokers: tuple[str, ...] = ()


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The thresholds of `openclust lint`, for rules that are a matter of judgement.

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


class TopologySection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[topology]`: the part of a cluster file for `openclust lint`, `draw` and `simulate`.

    A broker reads and checks it as any other section, and needs none of it but its own weight. Where no links are
    listed, everybody reaches everybody.

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


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. Paths are absolute or relative to the working directory, also those from a file."""

    cluster_key: str
    name: str = ""
    listen: ListenSection = ListenSection()
    tls: TlsSection = TlsSection()
    http: HttpSection = HttpSection()
    metrics: MetricsSection = MetricsSection()
    auth: AuthSection = AuthSection()
    limits: Limits = Limits()
    definitions: DefinitionsSection = DefinitionsSection()
    cluster: ClusterSection = ClusterSection()
    redirect: Redirect = Redirect()
    log: LogSection = LogSection()
    trace: TraceSection = TraceSection()
    topology: TopologySection = TopologySection()
