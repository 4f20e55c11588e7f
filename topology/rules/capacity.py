"""OC6: whether the cluster has the capacity for the expected load, also after a loss."""

from __future__ import annotations

from collections.abc import Iterator

from topology.model.capacity import (
    bandwidth,
    clients,
    clients_at_most,
    connections,
    connections_in_memory,
    is_active_passive,
)
from topology.model.graph import Model
from topology.model.loss import Loss, LossKind, losses
from topology.model.words import few, number
from topology.rules.finding import Found, Severity
from topology.rules.rule import rule

AFTER: tuple[LossKind, ...] = ("broker", "host", "rack", "zone")


def _worst(model: Model, of: dict[str, float]) -> Iterator[tuple[Loss, float]]:
    """For each kind the loss that leaves the least. A loss that takes everything is reported by another rule."""
    total = sum(of.values())
    worst: dict[str, tuple[float, Loss]] = {}
    for loss in losses(model, AFTER):
        taken = sum(of[name] for name in loss.brokers)
        if len(loss.brokers) < len(of) and (loss.kind not in worst or taken > worst[loss.kind][0]):
            worst[loss.kind] = (taken, loss)
    told: set[frozenset[str]] = set()
    for taken, loss in worst.values():
        if loss.brokers not in told:
            told.add(loss.brokers)
            yield loss, total - taken


def _what(loss: Loss) -> str:
    return loss.text if loss.kind == "broker" else f"{loss.text} ({few(sorted(loss.brokers), 4)})"


@rule(
    "OC601",
    Severity.WARNING,
    title="More connections on a broker than work in practice",
    why="Some 60,000 is what one broker should be asked for: one address has 64,000 ports to clients behind one proxy "
    "or gateway, and heartbeats of more keep one process busy. topology.thresholds.connections_max says otherwise.",
    fix="Spread the clients over more brokers; secondaries come and go without any change to this file.",
)
def beyond_practice(model: Model) -> Iterator[Found]:
    most = model.config.topology.thresholds.connections_max
    for name, each in model.brokers.items():
        if each.connections > most:
            yield Found(
                f"{name}: more than {number(most)} connections",
                brokers=(name,),
                alike="said",
                subject=name,
            )
    if is_active_passive(model):
        return  # more brokers would not help; another rule checks the room at the root
    expected = clients(model)
    for name, share in expected.items():
        if share > most:
            yield Found(
                f"{name}: {number(share)} clients are expected on one broker, more than {number(most)}",
                brokers=(name,),
                alike=number(share),
                subject=name,
            )


@rule(
    "OC602",
    Severity.ERROR,
    title="More clients than the cluster takes",
    why="Even with all brokers up, the last clients are refused. In mode active-passive all clients go to the root, "
    "and any primary may be that: each alone must take them all.",
    fix="Add secondaries, or raise what limits them: connections of the broker, limits.connections_max, memory. With "
    "active-passive, raise the limits of the primaries, or set redirect.mode to balanced.",
)
def too_many_clients(model: Model) -> Iterator[Found]:
    wanted = model.config.topology.clients
    if is_active_passive(model):
        yield from _too_many_for_the_root(model, wanted)
        return
    takes = sum(connections(model).values())
    if model.brokers and wanted > takes:
        yield Found(
            f"{number(wanted)} clients are expected, and all {len(model.brokers)} brokers together take "
            f"{number(takes)}",
            line=model.line("topology", "clients"),
        )


def _too_many_for_the_root(model: Model, wanted: int) -> Iterator[Found]:
    for name in model.primaries:
        takes = connections(model)[name]
        if wanted > takes:
            yield Found(
                f"{number(wanted)} clients all go to the root (active-passive), and {name} as root takes "
                f"{number(takes)}",
                brokers=(name,),
                line=model.line("topology", "clients"),
                alike=number(takes),
                subject=name,
            )


@rule(
    "OC603",
    Severity.ERROR,
    title="Too little room for the clients after a loss",
    why="Clients of what is lost go to the others. Where these have no room, clients are refused, try again, and keep "
    "the rest busy doing so.",
    fix="Add secondaries outside of what may be lost, or spread the brokers more evenly.",
)
def no_room_after_a_loss(model: Model) -> Iterator[Found]:
    wanted = model.config.topology.clients
    if not wanted or is_active_passive(model) or wanted > sum(connections(model).values()):
        return
    for loss, left in _worst(model, {name: float(each) for name, each in connections(model).items()}):
        if left < wanted:
            yield Found(
                f"without {_what(loss)} there is room for {number(left)} of {number(wanted)} clients",
                brokers=tuple(sorted(loss.brokers)),
            )


@rule(
    "OC604",
    Severity.WARNING,
    title="More connections than a broker's memory holds",
    why="An idle connection takes about 7 kB. Above limits.memory_high_watermark publishers are blocked, long before "
    "connections are refused, and messages need memory too.",
    fix="Lower what it says of its connections, or give it more memory.",
)
def beyond_memory(model: Model) -> Iterator[Found]:
    for name, broker in model.brokers.items():
        wanted = max(broker.connections, round(clients_at_most(model)[name]))
        fits = connections_in_memory(model, broker)
        if wanted > fits:
            yield Found(
                f"{name}: {number(wanted)} connections, and {number(broker.memory_mb)} MB hold {number(fits)}",
                brokers=(name,),
                alike=f"{wanted} {broker.memory_mb} {fits}",
                subject=name,
            )


@rule(
    "OC605",
    Severity.ERROR,
    title="Too little bandwidth for the clients after a loss",
    why="What the lost brokers carried goes through the others. In mode active-passive all of it goes through the "
    "root, and any primary may be that.",
    fix="Add brokers or bandwidth, or expect less traffic.",
)
def no_bandwidth_after_a_loss(model: Model) -> Iterator[Found]:
    wanted = model.config.topology.client_mbit
    if is_active_passive(model):
        for name in model.primaries:
            has = model.brokers[name].bandwidth_mbit
            if 0 < has < wanted:
                yield Found(
                    f"all {number(wanted)} Mbit/s of the clients go through the root (active-passive), and {name} as "
                    f"root has {number(has)}",
                    brokers=(name,),
                    alike=number(has),
                    subject=name,
                )
        return
    if not wanted or bandwidth(model, model.brokers) is None:
        return
    for loss, left in _worst(model, {name: each.bandwidth_mbit for name, each in model.brokers.items()}):
        if left < wanted:
            yield Found(
                f"without {_what(loss)} {number(left)} Mbit/s are left for the {number(wanted)} Mbit/s of the clients",
                brokers=tuple(sorted(loss.brokers)),
            )


@rule(
    "OC606",
    Severity.ERROR,
    title="Too little bandwidth at the root for shared queues",
    why="All messages of shared queues go through the root: once in, once out to the consumer's broker, and, of "
    "replicated queues, once to each of the other primaries.",
    fix="Give every primary more bandwidth, have fewer of them, or set x-replicate to configuration where that will "
    "do.",
)
def root_bandwidth(model: Model) -> Iterator[Found]:
    shared = model.config.topology.shared_mbit
    if not shared:
        return
    out = shared * len(model.primaries)
    for name in model.primaries:
        has = model.brokers[name].bandwidth_mbit
        if has and out > has:
            yield Found(
                f"{name} as root sends {number(out)} Mbit/s ({number(shared)} to consumers, and as much to each of "
                f"{len(model.primaries) - 1} primaries), and has {number(has)}",
                brokers=(name,),
                alike=number(has),
                subject=name,
            )


@rule(
    "OC607",
    Severity.ERROR,
    title="A way between primaries too narrow for replication",
    why="The root sends each of the other primaries all messages of replicated queues. One that cannot keep up falls "
    "behind, and counts for no confirm; with too many such, publishers wait.",
    fix="Widen the link, or expect less of shared queues.",
)
def narrow_links(model: Model) -> Iterator[Found]:
    shared = model.config.topology.shared_mbit
    if not shared:
        return
    for i, one in enumerate(model.primaries):
        for other in model.primaries[i + 1 :]:
            route = model.route(one, other)
            if route is not None and 0 < route.bandwidth_mbit < shared:
                yield Found(
                    f"{one} and {other} have {number(route.bandwidth_mbit)} Mbit/s between them, and shared queues "
                    f"need {number(shared)}",
                    brokers=(one, other),
                    links=((one, other),),
                    alike=number(route.bandwidth_mbit),
                    subject=f"{one} and {other}",
                )
