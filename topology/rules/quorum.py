"""OC4: how many primaries there are, where they are, and whether they have the same settings."""

from __future__ import annotations

from collections.abc import Iterator

from openclust.shell.config.checks import flattened
from topology.model.file_entries import ListedBroker
from topology.model.graph import Model
from topology.model.place import DOMAIN_KINDS, Domain
from topology.model.words import few
from topology.rules.finding import Found, Severity
from topology.rules.rule import rule

MUST_BE_THE_SAME = "cluster.heartbeat_ms"

OWN = ("name", "listen.", "tls.", "http.", "metrics.", "log.", "cluster.data_dir", "cluster.peer_", "cluster.client_")
"""Settings that are meant to differ between brokers."""


@rule(
    "OC401",
    Severity.ERROR,
    title="One or two primaries",
    why="It takes more than half of the defined primaries to elect a root. Of one, nothing is left; of two, one is "
    "exactly half: it stays root if it is, and otherwise nobody is. Two wait for each other when they start, too. "
    "With all brokers on the loopback it is a warning.",
    fix="Run three primaries, or five. The third may be a small machine of its own.",
)
def few_primaries(model: Model) -> Iterator[Found]:
    count = len(model.primaries)
    severity = Severity.WARNING if model.is_local else Severity.ERROR
    if count == 0 and (model.secondaries or model.twins):
        yield Found(
            f"there are no primaries for {few(model.secondaries)} to join",
            brokers=model.secondaries,
        )
    elif count == 1:
        yield Found(
            f"{model.primaries[0]} is the only primary: without it there is no root",
            brokers=model.primaries,
            severity=severity,
        )
    elif count == 2:
        one, other = model.primaries
        yield Found(
            f"{one} and {other} are the only primaries: when the root dies, the other cannot be elected",
            brokers=model.primaries,
            severity=severity,
        )


@rule(
    "OC402",
    Severity.WARNING,
    title="An even number of primaries",
    why="More than half must be left to elect a root, so that an even number survives no more losses than the odd one "
    "below it. When the network cuts them in two halves, a sitting root stays and no new one can be made.",
    fix="Take one out, or add one.",
)
def even_primaries(model: Model) -> Iterator[Found]:
    count = len(model.primaries)
    if count >= 4 and count % 2 == 0:
        losses = count - model.quorum
        yield Found(
            f"{count} primaries survive the loss of {losses}, as {count - 1} do; with exactly half ({count // 2}) left "
            "a root stays root, and none is elected",
            brokers=model.primaries,
        )


@rule(
    "OC403",
    Severity.ERROR,
    title="Half of the primaries or more in one failure domain",
    why="When that host, rack, zone or region is lost, no more than half are left, and nobody can be elected: one "
    "failure takes the root away for good. It is an error also where the file has too few such domains to do better, "
    "since the loss is the same.",
    fix="Spread the primaries, so that every domain has fewer than half of them: over three zones at least. Where "
    "there is no third one, have this ignored with that reason.",
)
def majority_in_one_domain(model: Model) -> Iterator[Found]:
    count = len(model.primaries)
    if count < 2 or model.is_local:
        return
    by_primaries: dict[tuple[str, ...], list[Domain]] = {}
    for domain in model.domains.values():
        inside = tuple(name for name in domain.brokers if name in model.primaries)
        if 2 * len(inside) >= count and len(inside) > 1:
            by_primaries.setdefault(inside, []).append(domain)
    for inside, (smallest, *larger) in by_primaries.items():
        left = count - len(inside)
        stays = ", though a root among the others stays" if 2 * left == count else ""
        all_there = "all" if not left else f"{len(inside)} of {count}"
        also = f", and so {'has' if len(larger) == 1 else 'have'} {few(each.text for each in larger)}" if larger else ""
        yield Found(
            f"{smallest.text} has {all_there} primaries ({few(inside)}){also}: without it nobody can be elected{stays}",
            brokers=inside,
        )


@rule(
    "OC404",
    Severity.WARNING,
    title="Primaries of unequal capability",
    why="Any primary may become root, and the root does the work of all shared queues. When the weakest is elected, "
    "the whole cluster is as weak.",
    fix="Give all primaries the same, or let what is small be a secondary.",
)
def unequal_primaries(model: Model) -> Iterator[Found]:
    units = {"connections": " connections", "memory_mb": " MB", "cores": " cores", "bandwidth_mbit": " Mbit/s"}
    primaries = [model.brokers[name] for name in model.primaries]
    share = model.config.topology.thresholds.capability_share_min
    for field, unit in units.items():
        values = {each.name: getattr(each, field) for each in primaries if getattr(each, field)}
        if values and min(values.values()) < max(values.values()) * share:
            high = max(values.values())
            strong = [name for name, value in values.items() if value == high]
            for name, value in values.items():
                if value == min(values.values()):
                    yield Found(
                        f"{name}: {value:,.0f}{unit}, where {few(strong)} {'has' if len(strong) == 1 else 'have'} "
                        f"{high:,.0f}",
                        brokers=(name,),
                        alike=field,
                        subject=name,
                    )


@rule(
    "OC405",
    Severity.WARNING,
    title="Some brokers say where they stand, and some do not",
    why="What is lost with a zone or a rack can only be told of brokers whose zone or rack is known; of the others it "
    "is assumed that they go on.",
    fix="Write the same kinds of place for all primaries, and for all secondaries.",
)
def half_placed(model: Model) -> Iterator[Found]:
    for names in (model.primaries, model.secondaries):
        brokers: list[ListedBroker] = [model.brokers[name] for name in names]
        for kind in DOMAIN_KINDS[1:]:
            without = [each.name for each in brokers if model.places.within(each.key, kind) is None]
            for name in without if len(without) < len(brokers) else ():
                yield Found(
                    f"{name} has no {kind}, and others have one",
                    brokers=(name,),
                    alike=f"{kind} {model.brokers[name].partition}",
                    subject=name,
                )


@rule(
    "OC406",
    Severity.WARNING,
    title="More primaries than are of use",
    why="The root sends all definitions and the messages of replicated queues to every primary, half of which must "
    "have them before a publisher's confirm. Each primary also links to all others.",
    fix="Let the others be secondaries, which take clients as well: nine primaries survive the loss of four.",
)
def many_primaries(model: Model) -> Iterator[Found]:
    most = model.config.topology.thresholds.primaries_max
    if len(model.primaries) > most:
        yield Found(
            f"{len(model.primaries)} primaries: more than {most} make all of them slower",
            brokers=model.primaries,
        )


@rule(
    "OC407",
    Severity.ERROR,
    title="Primaries with different heartbeats",
    why="A root counts on how long the others wait, so that primaries with different heartbeats refuse to link.",
    fix="Take cluster.heartbeat_ms out of [topology.settings] and set it once, in [cluster].",
)
def different_heartbeats(model: Model) -> Iterator[Found]:
    beats: dict[object, list[str]] = {}
    for name in model.primaries:
        beats.setdefault(model.setting(name, MUST_BE_THE_SAME), []).append(name)
    if len(beats) > 1:
        told = ", ".join(f"{few(names)} {beat} ms" for beat, names in beats.items())
        odd = min(beats.values(), key=len)
        yield Found(
            f"the heartbeats differ, so that these do not link: {told}",
            brokers=tuple(name for names in beats.values() for name in names),
            line=model.line("topology", "settings", odd[0]),
        )


@rule(
    "OC408",
    Severity.WARNING,
    title="A setting that differs between primaries",
    why="Any primary may become root. What clients can do would hang on which one is.",
    fix="Set it for all alike, outside of [topology.settings].",
)
def different_settings(model: Model) -> Iterator[Found]:
    own = {name: flattened(model.config.topology.settings.get(name, {})) for name in model.primaries}
    for dotted in sorted({key for table in own.values() for key in table}):
        if dotted == MUST_BE_THE_SAME or dotted.startswith(OWN):
            continue
        values: dict[str, list[str]] = {}
        for name in model.primaries:
            values.setdefault(str(model.setting(name, dotted)), []).append(name)
        if len(values) > 1:
            odd = min(values.values(), key=len)
            shown = ", ".join(f"{few(names)} {value[:40]}" for value, names in values.items())
            yield Found(
                f"{dotted} differs: {shown}", brokers=tuple(odd), line=model.line("topology", "settings", odd[0])
            )


@rule(
    "OC409",
    Severity.INFO,
    title="No primary says where it stands",
    why="What fails together cannot be judged: all primaries may stand in one rack or zone, whose loss would take the "
    "root away, and nothing here would tell.",
    fix='Write zone = "..." for each broker, and rack or region where you know them.',
)
def nothing_to_judge(model: Model) -> Iterator[Found]:
    keys = [model.brokers[name].key for name in model.primaries]
    if len(keys) < 3 or model.is_local:
        return
    if not any(model.places.within(key, kind) for key in keys for kind in DOMAIN_KINDS[1:]):
        yield Found(
            f"no rack, zone or region is said of {few(model.primaries)}: what they would be lost with cannot be judged",
            brokers=model.primaries,
        )


@rule(
    "OC410",
    Severity.WARNING,
    title="Primaries without a data directory",
    why="A vote must outlive a restart: a primary that forgets it may vote twice in an epoch, and two roots could be "
    "elected. Durable queues are in memory only, so that a restart of all brokers loses them.",
    fix='Write data_dir = "/var/lib/openclust" in [cluster]. Where every broker is started with --data-dir, have this '
    "ignored with that reason.",
)
def no_data_directory(model: Model) -> Iterator[Found]:
    if model.is_local or len(model.primaries) < 2:
        return
    for name in model.primaries:
        if not model.setting(name, "cluster.data_dir"):
            yield Found(
                f"{name} has no cluster.data_dir: its vote and its durable queues do not outlive a restart",
                brokers=(name,),
                line=model.line("cluster"),
                alike="none",
                subject=name,
            )
