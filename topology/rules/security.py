"""OC7: secrets, encryption, and addresses that strangers on the network can reach."""

from __future__ import annotations

from collections.abc import Iterator

from topology.model.graph import Model
from topology.model.words import few, ms
from topology.rules.copies import are_copies, have_primaries
from topology.rules.finding import Found, Severity
from topology.rules.rule import rule

WELL_KNOWN = frozenset(
    {
        *("demo", "local", "test", "dev", "bench", "example", "default", "cluster", "changeme", "openclust"),
        *("k", "key", "my-cluster", "mycluster", "rabbitmq"),
    }
)
"""Cluster keys of our examples, and words that people often choose."""


@rule(
    "OC701",
    Severity.ERROR,
    title="No secret, with peers beyond the loopback",
    why="Without a secret or certificates a broker admits peers from its own machine only, so that this cluster never "
    "comes together.",
    fix='Write secret_file = "cluster.secret" in [cluster] (or secret), or give peer_cert, peer_key and peer_ca. Where '
    "OPENCLUST_CLUSTER_SECRET is set on all brokers, have this ignored with that reason.",
)
def no_secret(model: Model) -> Iterator[Found]:
    cluster = model.config.cluster
    if model.is_local or len(model.brokers) < 2 or cluster.secret or cluster.secret_file or _has_tls(model):
        return
    yield Found(
        f"{few(model.brokers)} have no secret to prove themselves with",
        brokers=tuple(model.brokers),
        line=model.line("cluster"),
    )


@rule(
    "OC702",
    Severity.WARNING,
    title="A link over a WAN without TLS",
    why="Messages and the addresses of all brokers cross it readable, and who changes them on the way is not noticed. "
    "The secret itself is never sent.",
    fix="Give all brokers peer_cert, peer_key and peer_ca, or have this ignored where the way is a private tunnel.",
)
def wan_without_tls(model: Model) -> Iterator[Found]:
    if _has_tls(model):
        return
    for one, other in model.logical_pairs():
        if reason := _wan(model, one, other):
            yield Found(
                f"{one} and {other} are linked over a WAN ({reason}) without TLS",
                brokers=(one, other),
                links=((one, other),),
                alike=reason,
                subject=f"{one} and {other}",
            )


def _wan(model: Model, one: str, other: str) -> str:
    """The reason why the path between two brokers counts as a WAN; empty if it does not."""
    ours, its = (model.places.within(("broker", name), "region") for name in (one, other))
    if ours is not None and its is not None and ours != its:
        return f"regions {ours.name} and {its.name}"
    route = model.route(one, other)
    if route is None:
        return ""
    wan = next((name for name in route.through if model.nodes[name].kind == "wan"), "")
    if wan:
        return f"through {wan}"
    far_ms = model.config.topology.thresholds.wan_latency_ms
    return f"{ms(far_ms)} or more" if route.latency_ms >= far_ms else ""


@rule(
    "OC703",
    Severity.WARNING,
    title="A cluster key that others have too",
    why="The key is what keeps clusters and clients apart. One from an example, or an empty one, is somebody else's as "
    "well.",
    fix="Choose a name for this cluster: what it is for, and where.",
)
def well_known_key(model: Model) -> Iterator[Found]:
    key = model.config.cluster_key
    if not model.is_local and key.lower() in WELL_KNOWN:
        yield Found(f"the cluster key {key!r} is one that others have too", line=model.line("cluster_key"))


@rule(
    "OC704",
    Severity.ERROR,
    title="Two clusters with one key",
    why="Brokers and clients take one for the other. Brokers that meet refuse to link once both clusters have had a "
    "root, and until then may join the wrong one.",
    fix="Give each cluster a key of its own.",
    needs="other files",
)
def shared_key(model: Model) -> Iterator[Found]:
    ours = model.config
    for other in model.others:
        theirs = other.config
        is_shared = bool(ours.cluster_key) and ours.cluster_key == theirs.cluster_key
        if is_shared and have_primaries(ours, theirs) and not are_copies(ours, theirs):
            yield Found(
                f"the cluster key {ours.cluster_key!r} is that of {other.file} too",
                line=model.line("cluster_key"),
                alike="key",
                subject=other.file,
            )


@rule(
    "OC705",
    Severity.WARNING,
    title="The secret in the file itself",
    why="Files like this one are kept in repositories and shown around.",
    fix="Put it into a file of its own that only the broker's user can read, and name it with secret_file.",
)
def secret_in_the_open(model: Model) -> Iterator[Found]:
    if model.config.cluster.secret:
        yield Found("cluster.secret stands in the file", line=model.line("cluster", "secret"))


@rule(
    "OC706",
    Severity.ERROR,
    title="Anybody is let in as guest",
    why="Without a users file there is one user, guest with the password guest, who may do everything; and this file "
    "lets it in from other machines.",
    fix="Name a users file (openclust users add NAME --file users.json), or leave auth.guest_from_loopback_only on.",
)
def open_to_guests(model: Model) -> Iterator[Found]:
    auth = model.config.auth
    if not auth.guest_from_loopback_only and auth.users_file is None and not (model.is_local and model.brokers):
        yield Found("guest is let in from anywhere", line=model.line("auth", "guest_from_loopback_only"))


def _has_tls(model: Model) -> bool:
    cluster = model.config.cluster
    return bool(cluster.peer_cert and cluster.peer_key and cluster.peer_ca)
