"""The configuration of one broker: every section and key, with its default, as frozen structs.

Names here are the names in the TOML file: `Config.listen.port` is `port` in `[listen]`. `config_file.load` fills these
from the file, the environment and the command line; `check` says what values are allowed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from openclust.broker.model.limits import Limits
from openclust.cluster.protocol.redirect import Redirect
from openclust.shell.config.topology_section import Place, Topology

Mechanism = Literal["PLAIN", "AMQPLAIN", "EXTERNAL"]
PeerVerification = Literal["none", "optional", "required"]
TlsVersion = Literal["1.2", "1.3"]
LoginFrom = Literal["cn", "dn", "san"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


class ConfigError(Exception):
    """The configuration cannot be used. `problems` are whole lines for people, all that were found at once."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Listen(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plain AMQP listener. Port 0: the system picks one. The backlog is that of the TLS listener too."""

    host: str = "127.0.0.1"
    port: int = 5672
    backlog: int = 4_096


class Tls(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class Http(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The management API."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 15_672


class Auth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may log in and how. Without a users file there is one user, `guest` with password `guest`."""

    users_file: str | None = None
    mechanisms: tuple[Mechanism, ...] = ("PLAIN", "AMQPLAIN", "EXTERNAL")
    guest_from_loopback_only: bool = True


class Definitions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of RabbitMQ's JSON definitions that is imported at start."""

    file: str | None = None


class Primary(Place, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one primary is, as `host:port`: for clients, for its peers, and its HTTP API (none without)."""

    client: str
    peer: str
    http: str = ""


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The primaries that elect a root, this broker among them by its `name`; or whom it joins as a secondary.

    With neither it is a cluster of one. With `peer_cert`, `peer_key` and `peer_ca` the links are TLS, and a certificate
    that the authority signed proves a peer. Addresses are `host:port`; `cluster_section` says what an empty one means.
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


class Log(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes to stderr."""

    level: LogLevel = "info"
    format: LogFormat = "text"


class Trace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of one in `sample` messages, as lines of JSON. `{name}` in the file's path is the broker's name."""

    file: str | None = None
    sample: int = 1_000
    max_mb: int = 100


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of it. Paths are absolute or relative to the working directory, whatever file they came from."""

    cluster_key: str
    name: str = ""
    listen: Listen = Listen()
    tls: Tls = Tls()
    http: Http = Http()
    auth: Auth = Auth()
    limits: Limits = Limits()
    definitions: Definitions = Definitions()
    cluster: Cluster = Cluster()
    redirect: Redirect = Redirect()
    log: Log = Log()
    trace: Trace = Trace()
    topology: Topology = Topology()
