"""The summary of traces: counts times the sample, and remarks on how far to trust them."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import pandas as pd

from topology.simulate.input import units
from topology.simulate.results.summarizing import latency_of
from topology.simulate.results.summary import (
    Bottleneck,
    BrokerSummary,
    LinkSummary,
    Point,
    QueueSummary,
    RunSummary,
    Totals,
)
from topology.simulate.trace.faults import faults_of
from topology.simulate.trace.trace_reading import Begun

MB = 1e6
CLOCK_US_MIN = 1_000
"""A smaller difference of clocks is not reported."""


class Counted(NamedTuple):
    """The counts of the stages: followed messages, not yet multiplied by the sample."""

    began_us: int
    ended_us: int
    span_us: int
    lives: pd.DataFrame
    flow: pd.DataFrame
    health: pd.DataFrame
    roots: pd.DataFrame
    links: pd.DataFrame
    latencies: pd.DataFrame
    orphans: int
    queues: pd.DataFrame
    has_more_queues: bool
    publishes: int
    squares: int

    @property
    def duration_s(self) -> float:
        return (self.ended_us - self.began_us) / 1e6


class Summed(NamedTuple):
    run: RunSummary
    duration_s: float
    notes: list[str]


def summed(begun: Begun, counted: Counted) -> Summed:
    """The summary, with one run of one design."""
    timeline = _timeline(begun, counted)
    brokers = [_broker(name, begun, counted, timeline) for name in begun.roles]
    primaries = sum(role != "secondary" for role in begun.roles.values())
    latency = {int(row.bucket): int(row.deliveries) * begun.sample for row in counted.latencies.itertuples()}
    run = RunSummary(
        run=0,
        design="openclust",
        subscribers=sum(each.clients_max for each in brokers),
        rate=1.0,
        totals=_totals(begun.sample, counted),
        primaries=primaries,
        secondaries=len(begun.roles) - primaries,
        brokers=brokers,
        links=_links(begun.sample, counted),
        latency=latency_of(latency),
        faults=faults_of(counted.lives, counted.roots, timeline, began_us=counted.began_us, ended_us=counted.ended_us),
        queues=_queues(begun.sample, counted.queues),
        bottleneck=_bottleneck(brokers),
        span_s=counted.span_us / 1e6,
        timeline=timeline,
    )
    return Summed(run, counted.duration_s, _notes(begun, counted))


def _totals(sample: int, counted: Counted) -> Totals:
    flow = counted.flow.drop(columns=["broker", "span"]).sum()
    copies = int(flow["copies_out"]) * sample
    delivered = int(flow["deliveries"]) * sample
    dropped = int(flow["dropped"]) * sample
    copies_bytes = int(counted.links["bytes"].sum()) * sample if len(counted.links) else 0
    return Totals(
        publications=int(flow["published"]) * sample,
        unsent=0,
        expected=delivered + dropped,
        delivered=delivered,
        missed=dropped,
        copies=copies,
        copies_bytes=copies_bytes,
        delivered_bytes=(int(flow["out_bytes"]) * sample) - copies_bytes,
        cpu_s=float(counted.health["cpu_us"].sum()) / 1e6,
    )


def _timeline(begun: Begun, counted: Counted) -> list[Point]:
    """A point for each broker in each span from the first to the last line of its process."""
    flow = counted.flow.set_index(["broker", "span"]).to_dict("index")
    health = counted.health.set_index(["broker", "span"]).to_dict("index")
    span_s, sample = counted.span_us / 1e6, begun.sample
    last = (counted.ended_us - counted.began_us) // counted.span_us
    points = []
    clients = dict.fromkeys(begun.roles, 0)
    for span in range(last + 1):
        for name in begun.roles:
            went, was = flow.get((name, span), {}), health.get((name, span), {})
            if was:
                clients[name] = int(was["clients"])
            elif not _lives(counted, name, span):
                clients[name] = 0
            points.append(
                Point(
                    broker=name,
                    at_s=span * span_s,
                    cpu=float(was.get("cpu_us", 0)) / counted.span_us,
                    clients=clients[name],
                    attaches=int(was.get("attaches", 0)),
                    deliveries=int(went.get("deliveries", 0)) * sample,
                    copies_in=int(went.get("copies_in", 0)) * sample,
                    copies_out=int(went.get("copies_out", 0)) * sample,
                    out_mbit=_mbit(float(went.get("out_bytes", 0)) * sample, span_s),
                    backlog_ms=max(0.0, float(went.get("held_us", 0)) / 1e3),
                    missed=int(went.get("dropped", 0)) * sample,
                )
            )
    return points


def _lives(counted: Counted, name: str, span: int) -> bool:
    """Whether the broker has lines before and after the end of a span."""
    begins_us, ends_us = counted.began_us + span * counted.span_us, counted.began_us + (span + 1) * counted.span_us
    ours = counted.lives[counted.lives["broker"] == name]
    return bool(((ours["began_us"] < ends_us) & (ours["last_us"] >= begins_us)).any())


def _broker(name: str, begun: Begun, counted: Counted, timeline: list[Point]) -> BrokerSummary:
    points = [each for each in timeline if each.broker == name]
    flow = counted.flow[counted.flow["broker"] == name]
    lives = counted.lives[counted.lives["broker"] == name]
    alive_us = max(1, int((lives["last_us"] - lives["began_us"]).sum()))
    first = counted.roots[counted.roots["before"].isna() & (counted.roots["root"] != "")]
    role = begun.roles[name]
    span_s = counted.span_us / 1e6
    in_bytes = float(flow["in_bytes"].max()) if len(flow) else 0.0
    return BrokerSummary(
        name=name,
        role="root" if len(first) and first.iloc[0]["root"] == name else role,
        clients_max=int(_most(counted.health[counted.health["broker"] == name]["clients_max"])),
        publications=int(flow["published"].sum()) * begun.sample,
        deliveries=int(flow["deliveries"].sum()) * begun.sample,
        copies_in=int(flow["copies_in"].sum()) * begun.sample,
        copies_out=int(flow["copies_out"].sum()) * begun.sample,
        cpu_mean=sum(each.cpu for each in points) * counted.span_us / alive_us,
        cpu_max=max(each.cpu for each in points),
        in_mbit_max=_mbit(in_bytes * begun.sample, span_s),
        out_mbit_max=max(each.out_mbit for each in points),
        memory_mb=_most(lives["memory_bytes"]) / MB,
        backlog_ms_max=max(each.backlog_ms for each in points),
    )


def _links(sample: int, counted: Counted) -> list[LinkSummary]:
    return [
        LinkSummary(
            from_=row.sender,
            to=row.receiver,
            copies=int(row.copies) * sample,
            mbit_mean=_mbit(float(row.bytes) * sample, max(counted.duration_s, 1e-3)),
            mbit_max=_mbit(float(row.bytes_max) * sample, counted.span_us / 1e6),
        )
        for row in counted.links.sort_values(["sender", "receiver"]).itertuples()
        if row.copies
    ]


def _queues(sample: int, queues: pd.DataFrame) -> list[QueueSummary]:
    return [
        QueueSummary(
            name=row.queue,
            published=int(row.entered) * sample,
            consumed=int(row.consumed) * sample,
            wait_p50_ms=_most([row.p50_us]) / 1e3,
            wait_p99_ms=_most([row.p99_us]) / 1e3,
            backlog_max=int(row.backlog_max) * sample,
            consumers_busy=0.0,
        )
        for row in queues.itertuples()
    ]


def _bottleneck(brokers: list[BrokerSummary]) -> Bottleneck | None:
    busiest = max(brokers, key=lambda each: each.cpu_max, default=None)
    if busiest is None or not busiest.cpu_max:
        return None
    return Bottleneck(broker=busiest.name, what="cpu", used=busiest.cpu_max, room=1 / busiest.cpu_max)


def _notes(begun: Begun, counted: Counted) -> list[str]:
    notes = [_sample_note(begun.sample, counted)]
    notes.append(
        "Deliveries are to private queues and of shared ones. CPU, memory and clients are the brokers' own counts; "
        "bytes are reckoned from the sizes of bodies. A maximum is over "
        f"{units.seconds(counted.span_us / 1e6)}; backlog is the longest from handing over until written."
    )
    if len(begun.roles) > 1:
        notes.append(
            "Latencies are between brokers' clocks, as they are: on machines whose clocks differ they are off by that. "
            "They begin when a broker takes a message and end when the last bytes of that turn are with the sockets."
        )
    notes += _clock_notes(counted.links)
    notes += [
        f"{row.broker}: its trace was full {units.seconds((row.last_us - counted.began_us) / 1e6)} after the first "
        "line of all; nothing later is known of it."
        for row in counted.lives.itertuples()
        if isinstance(row.why, str) and row.why.startswith("full")
    ]
    if lost := int(counted.lives["lost"].sum()):
        notes.append(f"{lost:,} lines were not written, because a broker's disk did not keep up.")
    if counted.orphans:
        notes.append(
            f"{counted.orphans:,} followed deliveries have no publish in these traces (its broker is not among them, "
            "or the message was changed on its way: a dead letter, BCC, a delivery count); they are in no latency."
        )
    known = set(begun.roles)
    if strangers := sorted({*counted.links["sender"], *counted.links["receiver"]} - known):
        notes.append(f"There is no trace of {', '.join(strangers)}: what happened there is not known.")
    if counted.has_more_queues:
        notes.append(f"Only the {len(counted.queues)} busiest shared queues are told of.")
    return notes


def _sample_note(sample: int, counted: Counted) -> str:
    published = int(counted.lives["published"].fillna(0).sum())
    if sample == 1:
        return f"Every message was followed ({counted.publishes:,} publishes): counts are exact."
    if not counted.publishes:
        return f"One message in {sample:,} was followed, and none of those that came: counts of messages are not known."
    error = sqrt(counted.squares) / counted.publishes
    return (
        f"One message in {sample:,} was followed, {counted.publishes:,} publishes in all: counts are {sample:,} times "
        f"what was seen, +-{units.share(error)} (one standard deviation, 1/sqrt(n), where equal messages count as one "
        f"draw). The brokers themselves counted {published:,} publishes, the sample says "
        f"{counted.publishes * sample:,}."
    )


def _clock_notes(links: pd.DataFrame) -> list[str]:
    """Notes on clocks that seem to differ, if the fastest copies of both directions take the same time."""
    told = links[links["fastest_us"].notna()]
    fastest = {(row.sender, row.receiver): row.fastest_us for row in told.itertuples()}
    notes = []
    for one, other in sorted(fastest):
        if one < other and (other, one) in fastest:
            ahead_us = (fastest[one, other] - fastest[other, one]) / 2
            first, second = (other, one) if ahead_us > 0 else (one, other)
            if abs(ahead_us) >= CLOCK_US_MIN:
                notes.append(f"The clock of {first} seems to be {units.ms(abs(ahead_us) / 1e3)} ahead of {second}'s.")
    return notes


def _mbit(size: float, seconds: float) -> float:
    return size * 8 / 1e6 / seconds


def _most(values: object) -> float:
    """The largest value; 0 if there are none."""
    most = pd.Series(values, dtype="float64").max()
    return 0.0 if pd.isna(most) else float(most)
