"""OC8: how a running cluster differs from its file (`openclust lint --live URL FILE`)."""

from __future__ import annotations

from collections.abc import Iterator

from topology.model.address import normal
from topology.model.graph import Model
from topology.model.words import few
from topology.rules.finding import Found, Severity
from topology.rules.rule import rule


@rule(
    "OC801",
    Severity.ERROR,
    title="Another cluster than that of the file",
    why="The broker that was asked has another cluster key, or none of its brokers is in the file.",
    fix="Look at the URL, and at which file this is.",
    needs="running cluster",
)
def another_cluster(model: Model) -> Iterator[Found]:
    live, key = model.live, model.config.cluster_key
    if live is None:
        return
    if key and key != live.cluster_key:
        yield Found(f"{live.name} is of the cluster {live.cluster_key!r}, the file of {key!r}", brokers=(live.name,))
    if model.brokers and not {each.name for each in live.brokers} & set(model.brokers):
        yield Found(f"none of the brokers that {live.name} knows is in the file", brokers=(live.name,))


@rule(
    "OC802",
    Severity.ERROR,
    title="Lists of primaries that differ",
    why="Primaries with different lists refuse to link, and count other majorities. One that is restarted with this "
    "file stays alone.",
    fix="Bring the file and the brokers to the same list, one broker after another.",
    needs="running cluster",
)
def other_primaries(model: Model) -> Iterator[Found]:
    if model.live is None:
        return
    running = model.live.of("primary")
    missing = [name for name in model.primaries if name not in running]
    unknown = [name for name in running if name not in model.primaries]
    if missing:
        yield Found(
            f"{few(missing)}: primaries of the file, and none of the running cluster",
            brokers=tuple(missing),
        )
    if unknown:
        yield Found(f"{few(unknown)}: primaries of the running cluster, and not of the file", brokers=tuple(unknown))


@rule(
    "OC803",
    Severity.ERROR,
    title="A primary that is not there",
    why="Each one that is missing brings the cluster nearer to having no root.",
    fix="Start it, or see with openclust why-no-root and its log why the others do not hear it.",
    needs="running cluster",
)
def primaries_missing(model: Model) -> Iterator[Found]:
    if model.live is None:
        return
    absent = [name for name, each in model.live.of("primary").items() if not each.online]
    if absent:
        count = len(model.live.of("primary"))
        yield Found(f"{few(absent)} of {count} primaries cannot be heard by {model.live.name}", brokers=tuple(absent))


@rule(
    "OC804",
    Severity.WARNING,
    title="A secondary that is expected and not there",
    why="The capacity that the file counts on is not there.",
    fix="Start it, or take it out of [topology.secondaries].",
    needs="running cluster",
)
def secondaries_missing(model: Model) -> Iterator[Found]:
    if model.live is None:
        return
    running = model.live.of("secondary")
    absent = [name for name in model.secondaries if name not in running or not running[name].online]
    if absent:
        yield Found(f"{few(absent)} did not join", brokers=tuple(absent))


@rule(
    "OC805",
    Severity.INFO,
    title="A secondary that the file does not expect",
    why="Secondaries come and go as they like. What this file says of capacity leaves it out.",
    fix="Add it to [topology.secondaries] if it is to stay.",
    needs="running cluster",
)
def secondaries_unknown(model: Model) -> Iterator[Found]:
    if model.live is None:
        return
    known = {*model.secondaries, *model.primaries}
    names = [name for name, each in model.live.of("secondary").items() if each.online and name not in known]
    if names:
        yield Found(f"{few(names)} joined, and the file does not know of that", brokers=tuple(names))


@rule(
    "OC806",
    Severity.ERROR,
    title="An address that differs from the file",
    why="Clients are sent to the running address; whoever reads the file looks elsewhere. The next restart changes it.",
    fix="Restart the broker with this file, or correct the file.",
    needs="running cluster",
)
def other_addresses(model: Model) -> Iterator[Found]:
    if model.live is None:
        return
    for each in model.live.brokers:
        broker = model.brokers.get(each.name)
        if broker is None:
            continue
        for kind, said, runs in (
            ("client", broker.client, each.address),
            ("http", broker.http, each.http.partition("//")[2].partition("/")[0]),
        ):
            if said and runs and normal(said) != normal(runs):
                yield Found(f"{each.name}: its {kind} address is {runs}, and {said} in the file", brokers=(each.name,))


@rule(
    "OC807",
    Severity.ERROR,
    title="A cluster without a root",
    why="Shared queues stand still, and nothing can be declared.",
    fix="openclust why-no-root says who stands in the way.",
    needs="running cluster",
)
def no_root(model: Model) -> Iterator[Found]:
    if model.live is not None and not model.live.root:
        yield Found(f"{model.live.name} knows of no root", brokers=(model.live.name,))
