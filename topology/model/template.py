"""A new cluster file with comments, to be changed by hand: addresses above all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from topology.model.words import few

CLIENT_PORT, PEER_PORT, HTTP_PORT = 5672, 5682, 15672


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a new file. Brokers are put into the zones in turn; their host names end in `domain`."""

    primaries: int
    secondaries: int = 0
    zones: Sequence[str] = ()
    cluster_key: str = ""
    domain: str = "example"

    @property
    def key(self) -> str:
        return self.cluster_key or "-".join(["cluster", *self.zones, self.domain])


def text_of(plan: Plan, *, file: str = "cluster.toml") -> str:
    """The file. It passes `openclust lint` and is taken by `openclust start --config`."""
    parts = [_head(plan, file)]
    parts += [_broker(plan, "cluster.primaries", f"p{i + 1}", i) for i in range(plan.primaries)]
    parts.append(_TOPOLOGY)
    parts += [_broker(plan, "topology.secondaries", f"s{i + 1}", i) for i in range(plan.secondaries)]
    parts += _ignored(plan)
    return "\n".join(parts)


def survives(primaries: int) -> int:
    """The most primaries that may be lost before no root can be elected."""
    return (primaries - 1) // 2


def _head(plan: Plan, file: str) -> str:
    count, lost = plan.primaries, survives(plan.primaries)
    counted = f"{count} primaries: a root is elected as long as {count - lost} reach each other, so {lost} may be lost."
    if count == 1:
        counted = "One primary: a root, as long as it is there. Three survive the loss of one."
    elif count % 2 == 0:
        counted += f" {count - 1} would survive as many."
    return f"""\
# {counted}
# Change the addresses, then look whether it is sound, and start each broker with its own name:
#
#     openclust lint {file}
#     openclust start --config {file} --name p1
#
# A secondary needs no entry here to join; the entries below tell the tools what to expect:
#
#     openclust start --cluster-key KEY --join p1.{plan.domain}:{PEER_PORT} ... (docs/configuration.md)

# Names the cluster; no password. Clients may give it to be sure where they are.
cluster_key = {_quoted(plan.key)}

[cluster]
# What brokers prove to each other, in a file of its own, the same for all: openssl rand -hex 32 > cluster.secret
secret_file = "cluster.secret"
# Where each broker keeps its vote and its store: a vote must outlive a restart.
data_dir = "/var/lib/openclust"
# Three missed mean that a primary is gone; a new root is there after four at most. Five times the one-way latency
# between primaries is the least.
heartbeat_ms = 100

# Where each primary is: for clients, for the other brokers, and its HTTP API. Beside that may stand host, rack, zone
# and region, and what it bears: connections, memory_mb, cores, bandwidth_mbit, weight. Any may become root: make them
# alike.
"""


def _ignored(plan: Plan) -> list[str]:
    """Entries of `[[topology.ignore]]` for findings that any file of this plan has, with the reason."""
    count = plan.primaries
    asked = f"openclust topology new was asked for {count} primar{'y' if count == 1 else 'ies'}"
    found = []
    if count < 3:
        found.append(("OC401", asked, "With three primaries any one may be lost; take this out then."))
    largest = -(-count // len(plan.zones)) if plan.zones else 0
    if largest > 1 and 2 * largest >= count:
        comment = "One zone that is lost may take the root for good. Spread over more zones, and take this out then."
        found.append(("OC403", f"{asked} over {few(plan.zones)}", comment))
    return [
        f"# {comment}\n[[topology.ignore]]\nrule = {_quoted(rule)}\nreason = {_quoted(reason)}\n"
        for rule, reason, comment in found
    ]


_TOPOLOGY = """\
# What the tools want to know; a broker needs none of it.
[topology]
# The longest the cluster may be without a root.
failover_ms = 1000
# Clients at one time, Mbit/s of all of them, and of it what is published to shared queues: say so, and lint tells
# whether it is borne after a loss.
#clients = 10000
#client_mbit = 500
#shared_mbit = 50
"""


def _broker(plan: Plan, section: str, name: str, index: int) -> str:
    host = f"{name}.{plan.domain}"
    lines = [
        f"[{section}.{name}]",
        f'client = "{host}:{CLIENT_PORT}"',
        f'peer = "{host}:{PEER_PORT}"',
        f'http = "{host}:{HTTP_PORT}"',
    ]
    if plan.zones:
        lines.append(f"zone = {_quoted(plan.zones[index % len(plan.zones)])}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A basic string of TOML. The text must be printable."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
