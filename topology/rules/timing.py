"""OC5: heartbeats against latencies, losses, and the time that a new root may take."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from openclust.cluster.election.view import Terms
from topology.model.graph import Model
from topology.model.network_path import NetworkPath
from topology.model.words import ms
from topology.rules.finding import Found, Severity
from topology.rules.rule import rule

RETRANSMISSION_MS = 200
"""The shortest time after which TCP on Linux retransmits a lost packet that no other packet follows."""

FAILOVER_BEATS = 4
"""A root that is cut off is missed after three heartbeats, and the vote is at the next (docs/election.md)."""


def _heartbeat_ms(model: Model) -> int:
    return model.config.cluster.heartbeat_ms


def slack_ms(model: Model) -> float:
    """The longest round trip that a root's lease allows: the lease without the time until the next heartbeat."""
    beat = _heartbeat_ms(model)
    terms = Terms(heartbeat_ms=beat, primaries=model.primaries)
    return terms.lease_ms - beat


def _between_primaries(model: Model) -> Iterator[tuple[str, str, NetworkPath]]:
    for one, other in combinations(model.primaries, 2):
        route = model.route(one, other)
        if route is not None:
            yield one, other, route


def _slowest_ms(model: Model) -> float:
    return max((route.latency_ms for _, _, route in _between_primaries(model)), default=0)


def _enough_for(latency_ms: float, share: float = 0.8) -> int:
    """The heartbeat in ms at which a round trip takes half of the slack, which is `share` of a heartbeat."""
    return max(100, int(-(-4 * latency_ms / share // 10) * 10))


@rule(
    "OC501",
    Severity.ERROR,
    title="A heartbeat too short for the latency of a link",
    why="A root serves on a lease of 1.8 heartbeats, counted from when it sent a status until the word comes back that "
    "it was heard. The next status goes one heartbeat later, so that a round trip of 0.8 heartbeats or more lets the "
    "lease lapse between two of them: the root resigns, again and again.",
    fix="Raise cluster.heartbeat_ms, for all primaries alike, to five times the one-way latency at least.",
)
def heartbeat_too_short(model: Model) -> Iterator[Found]:
    slack = slack_ms(model)
    for one, other, route in _between_primaries(model):
        if 2 * route.latency_ms >= slack:
            yield _round_trip_too_long(model, one, other, route, f"does not fit in the {ms(slack)}")


@rule(
    "OC502",
    Severity.WARNING,
    title="A heartbeat with little room above the latency of a link",
    why="A round trip takes more than half of the time that the root's lease leaves. What the network or a busy "
    "process adds now and then makes the root resign.",
    fix="Raise cluster.heartbeat_ms, for all primaries alike.",
)
def heartbeat_with_little_room(model: Model) -> Iterator[Found]:
    slack = slack_ms(model)
    share = model.config.topology.thresholds.round_trip_share_max
    of = "half" if share == 0.5 else f"{share:.0%}".replace("%", " %")
    for one, other, route in _between_primaries(model):
        if slack * share < 2 * route.latency_ms < slack:
            yield _round_trip_too_long(model, one, other, route, f"is more than {of} of the {ms(slack)}")


def _round_trip_too_long(model: Model, one: str, other: str, route: NetworkPath, complaint: str) -> Found:
    return Found(
        f"{one} and {other} are {ms(route.latency_ms)} apart: a round trip of {ms(2 * route.latency_ms)} {complaint} "
        f"that a heartbeat of {_heartbeat_ms(model)} ms leaves; {_enough_for(route.latency_ms)} ms would do",
        brokers=(one, other),
        links=((one, other),),
        line=model.line("cluster", "heartbeat_ms"),
        alike=ms(route.latency_ms),
        subject=f"{one} and {other}",
    )


@rule(
    "OC503",
    Severity.ERROR,
    title="A heartbeat too long for the failover that is wanted",
    why="A root that is cut off without a word is missed after three heartbeats and followed by another within a "
    "fourth.",
    fix="Lower cluster.heartbeat_ms to a quarter of topology.failover_ms, less the latency; or allow more time.",
)
def heartbeat_too_long(model: Model) -> Iterator[Found]:
    wanted = model.config.topology.failover_ms
    if not wanted or len(model.primaries) < 2:
        return
    beat = _heartbeat_ms(model)
    slowest = _slowest_ms(model)
    takes = FAILOVER_BEATS * beat + 2 * slowest
    if takes > wanted:
        lower = int((wanted - 2 * slowest) / FAILOVER_BEATS)
        way_out = f"{lower} ms would do" if lower >= 20 else "no heartbeat would do"
        yield Found(
            f"a new root may take {ms(takes)} with a heartbeat of {beat} ms, and {wanted} ms are wanted; {way_out}",
            brokers=model.primaries,
            line=model.line("topology", "failover_ms"),
        )


@rule(
    "OC504",
    Severity.WARNING,
    title="A link that loses packets, and a lease that does not outlast that",
    why="TCP sends a lost packet again after 200 ms and a round trip, when nothing follows it sooner. Where the lease "
    "leaves less, one lost packet makes a root resign that has no support to spare.",
    fix="Mend the link, or raise cluster.heartbeat_ms.",
)
def losses(model: Model) -> Iterator[Found]:
    slack = slack_ms(model)
    for one, other, route in _between_primaries(model):
        takes = RETRANSMISSION_MS + 2 * route.latency_ms
        if route.loss > 0 and takes >= slack:
            yield Found(
                f"{one} and {other} lose {route.loss:.2g} of their packets: sending again takes {ms(takes)}, and the "
                f"root's lease leaves {ms(slack)}",
                brokers=(one, other),
                links=((one, other),),
                alike=f"{route.loss:.2g} {ms(takes)}",
                subject=f"{one} and {other}",
            )


@rule(
    "OC505",
    Severity.WARNING,
    title="Work that gives up before a new root can be there",
    why="Declares, publishes and the like that need the root wait cluster.root_wait_ms for one, and then fail with "
    "506.",
    fix="Raise cluster.root_wait_ms well above four heartbeats.",
)
def impatient(model: Model) -> Iterator[Found]:
    wait, takes = model.config.cluster.root_wait_ms, FAILOVER_BEATS * _heartbeat_ms(model)
    if len(model.primaries) > 1 and wait < takes:
        yield Found(
            f"shared work waits {wait} ms for a root, and a new one may take {takes} ms",
            line=model.line("cluster", "root_wait_ms"),
        )
