"""OC2: names and addresses."""

from __future__ import annotations

from collections.abc import Iterator

from topology.model.address import host_of, is_loopback, is_wildcard, normal, with_host
from topology.model.file_entries import Key, ListedBroker
from topology.model.graph import Model
from topology.model.place import DomainKind
from topology.model.words import few
from topology.rules.copies import addresses, are_copies
from topology.rules.finding import Found, Severity
from topology.rules.rule import rule

KINDS = ("client", "peer", "http")


def _addresses(broker: ListedBroker) -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        if address := getattr(broker, kind):
            yield kind, address


@rule(
    "OC201",
    Severity.ERROR,
    title="One address twice",
    why="Two listeners cannot have one address: the second broker does not start, or the others take it for the first. "
    "Hosts are compared in one spelling: capitals, localhost and IPv6 in its many forms make no difference.",
    fix="Give each listener an address of its own.",
)
def one_address_twice(model: Model) -> Iterator[Found]:
    seen: dict[str, tuple[ListedBroker, str, str]] = {}
    for broker in (*model.brokers.values(), *model.twins):
        own: dict[str, str] = {}
        for kind, address in _addresses(broker):
            one = _certain(model, address)
            if one in own:
                yield Found(
                    f"{broker.name}: its {own[one]} and its {kind} address are both {address}",
                    brokers=(broker.name,),
                    line=broker.line,
                    alike=f"{own[one]} {kind}",
                    subject=broker.name,
                )
                continue
            own[one] = kind
            other, its_kind, spelled = seen.setdefault(one, (broker, kind, address))
            if other.name == broker.name:
                continue  # the first one; or a broker in both partitions, which another rule reports
            also = f" (as {spelled})" if spelled != address else ""
            yield Found(
                f"{broker.name}: its {kind} address {address} is the {its_kind} address of {other.name} too{also}",
                brokers=(broker.name, other.name),
                line=broker.line,
                alike=one,
                subject=f"the {kind} address of {broker.name}",
            )


def _certain(model: Model, address: str) -> str:
    """The address in normal spelling, with the IP address if it is known."""
    known = (model.resolved or {}).get(host_of(address), ())
    return with_host(address, known[0]) if len(known) == 1 else normal(address)


@rule(
    "OC202",
    Severity.ERROR,
    title="One name for two things",
    why="A link that names it may mean either, and people take names that differ in capitals for one.",
    fix="Give brokers, switches, routers and networks names that differ.",
)
def one_name_for_two(model: Model) -> Iterator[Found]:
    for name in sorted(model.brokers.keys() & model.nodes.keys()):
        yield Found(
            f"{name} is a broker and a {model.nodes[name].kind}",
            brokers=(name,),
            nodes=(name,),
            line=model.nodes[name].line,
        )
    alike: dict[str, list[str]] = {}
    for name in model.brokers:
        alike.setdefault(name.lower(), []).append(name)
    for names in alike.values():
        if len(names) > 1:
            yield Found(
                f"{few(names)} differ in capitals only",
                brokers=tuple(names),
                severity=Severity.WARNING,
                line=model.brokers[names[-1]].line,
            )


@rule(
    "OC203",
    Severity.ERROR,
    title="A broker in both partitions",
    why="A broker is a primary, which votes and is on the list, or a secondary, which does not and is not. "
    "The others refuse a secondary with the name of a primary.",
    fix="Take it out of [cluster.primaries] or of [topology.secondaries].",
)
def in_both_partitions(model: Model) -> Iterator[Found]:
    for broker in model.twins:
        yield Found(
            f"{broker.name} is both a primary and a secondary",
            brokers=(broker.name,),
            line=broker.line,
        )


@rule(
    "OC204",
    Severity.ERROR,
    title="A wildcard as an address that others are to dial",
    why="0.0.0.0 and :: are every address of the machine that listens, and no address to dial: peers and clients that "
    "are sent there reach themselves or nobody.",
    fix="Write the address that others reach, and set cluster.peer_listen and cluster.client_listen to the wildcard.",
)
def wildcards(model: Model) -> Iterator[Found]:
    for broker in model.brokers.values():
        for kind, address in _addresses(broker):
            if is_wildcard(address):
                yield Found(
                    f"{broker.name}: nobody can dial its {kind} address {address}",
                    brokers=(broker.name,),
                    alike=kind,
                    subject=f"{broker.name} ({address})",
                )


@rule(
    "OC205",
    Severity.ERROR,
    title="A loopback address in a cluster of several hosts",
    why="A broker on another machine that dials it reaches itself.",
    fix="Write the address by which the other machines reach this broker.",
)
def loopback_among_hosts(model: Model) -> Iterator[Found]:
    if model.is_local:
        return
    for broker in model.brokers.values():
        for kind, address in _addresses(broker):
            if is_loopback(address) and kind != "http":
                yield Found(
                    f"{broker.name}: its {kind} address {address} is on the loopback, and other brokers are not",
                    brokers=(broker.name,),
                    alike=kind,
                    subject=f"{broker.name} ({address})",
                )


@rule(
    "OC206",
    Severity.INFO,
    title="A cluster on one machine",
    why="All brokers are on the loopback, so the machine is what fails. Good to try things out; rules about failure "
    "domains and secrets are not applied.",
    fix="For more than a trial, put the primaries on machines of their own.",
)
def all_on_one_machine(model: Model) -> Iterator[Found]:
    if model.is_local and len(model.brokers) > 1:
        yield Found(f"all {len(model.brokers)} brokers are on this machine", brokers=tuple(model.brokers))


@rule(
    "OC207",
    Severity.WARNING,
    title="One host under two names",
    why="Brokers with one IP address or host name that are said to be on different hosts fail together all the same.",
    fix="Give them the same host, or take `host` out: it is that of the peer address by itself.",
)
def one_host_under_two_names(model: Model) -> Iterator[Found]:
    if model.is_local:
        return
    by_address: dict[str, list[ListedBroker]] = {}
    for broker in model.brokers.values():
        host = model.names.get(host_of(broker.peer), host_of(broker.peer))
        if host and not is_wildcard(broker.peer):
            by_address.setdefault(host, []).append(broker)
    for address, brokers in by_address.items():
        on = [model.places.within(each.key, "host") for each in brokers]
        hosts = list(dict.fromkeys(each.name for each in on if each is not None))
        if len(hosts) > 1:
            names = tuple(each.name for each in brokers)
            yield Found(f"{few(names)} are all at {address}, but said to be on hosts {few(hosts)}", brokers=names)


@rule(
    "OC208",
    Severity.WARNING,
    title="One place in several spellings",
    why="Names of places are compared without capitals and without spaces around them, so that these count as one "
    "place here. Whoever looks for the brokers of a zone by its name finds some of them only.",
    fix="Write the name alike everywhere; `openclust lint` names those that differ from the most used spelling.",
)
def places_badly_written(model: Model) -> Iterator[Found]:
    for domain in model.domains.values():
        usual, *others = domain.spellings
        for spelling, users in others:
            brokers = tuple(name for kind, name in users if kind == "broker")
            nodes = tuple(name for kind, name in users if kind == "node")
            yield Found(
                f"{domain.kind} {usual[0]!r} is written {spelling!r} by {few((*brokers, *nodes))}: one place",
                brokers=brokers,
                nodes=nodes,
                line=_line_of_place(model, users[0], domain.kind),
            )


def _line_of_place(model: Model, thing: Key, kind: DomainKind) -> int:
    what, name = thing
    if what == "node":
        return model.line("topology", "nodes", name, kind)
    section = ("cluster", "primaries") if model.brokers[name].is_primary else ("topology", "secondaries")
    return model.line(*section, name, kind)


@rule(
    "OC209",
    Severity.WARNING,
    title="One host in two places",
    why="A machine stands in one rack, and so in one zone and one region. Where the file says otherwise of brokers of "
    "one host, one of them is elsewhere than it says, and what is lost with its zone is counted wrongly.",
    fix="Correct the place, or the address or host, of one of the brokers.",
)
def one_host_in_two_places(model: Model) -> Iterator[Found]:
    for host in model.domains.values():
        for kind in ("region", "zone", "rack") if host.kind == "host" and len(host.brokers) > 1 else ():
            here: dict[Key, list[str]] = {}
            for name in host.brokers:
                if place := model.places.within(("broker", name), kind):
                    here.setdefault(place.key, []).append(name)
            if len(here) > 1:
                told = ", ".join(f"{kind} {name} ({few(brokers)})" for (_, name), brokers in here.items())
                yield Found(
                    f"{host.text} is said to be in {told}",
                    brokers=tuple(name for brokers in here.values() for name in brokers),
                )
                break


@rule(
    "OC210",
    Severity.WARNING,
    title="One address by name and by number",
    why="An entry that has an IP address and a name says that both are of one machine. Where another entry has the "
    "same port there, by the other of the two, both brokers want one address.",
    fix="Give each listener an address of its own. With --resolve the resolver is asked, which is certain; where the "
    "name is of another interface, have this ignored with that reason.",
)
def one_address_by_name_and_number(model: Model) -> Iterator[Found]:
    seen: dict[str, tuple[ListedBroker, str, str]] = {}
    for broker in model.brokers.values():
        for kind, address in _addresses(broker):
            host = host_of(address)
            one = with_host(address, model.names[host]) if host in model.names else normal(address)
            other, its_kind, its_address = seen.setdefault(one, (broker, kind, address))
            if other.name != broker.name and _certain(model, address) != _certain(model, its_address):
                yield Found(
                    f"{broker.name}: its {kind} address {address} is the {its_kind} address {its_address} of "
                    f"{other.name}, by what the entries say of their machines",
                    brokers=(broker.name, other.name),
                )


@rule(
    "OC212",
    Severity.WARNING,
    title="A name that does not resolve",
    why="The resolver of the machine that asked knows no address for it, or did not answer in ten seconds. Brokers and "
    "clients that ask the same one cannot dial it.",
    fix="Correct the name, or ask where the names of these machines are known.",
    needs="resolver",
)
def names_unknown(model: Model) -> Iterator[Found]:
    for broker in model.brokers.values():
        for kind, address in _addresses(broker):
            host = host_of(address)
            if (model.resolved or {}).get(host) == ():
                yield Found(
                    f"{broker.name}: the host of its {kind} address {address} has no address that is known here",
                    brokers=(broker.name,),
                    alike="unknown",
                    subject=f"the {kind} address of {broker.name}",
                )


@rule(
    "OC211",
    Severity.ERROR,
    title="Two clusters at one address",
    why="Two files of different clusters give one address to a broker of each. Only one of them can listen there; "
    "peers and clients of the other are refused, or are in the wrong cluster. On the loopback it is a warning, since "
    "they may be of other machines, or not run together.",
    fix="Give one of the brokers another address. If both files are of one cluster, give them one cluster key.",
    needs="other files",
)
def two_clusters_at_one_address(model: Model) -> Iterator[Found]:
    for other in model.others:
        if are_copies(model.config, other.config):
            continue
        theirs = addresses(other.config)
        for one, (name, kind, address) in addresses(model.config).items():
            if one in theirs and not is_wildcard(address):
                its_name, its_kind, _ = theirs[one]
                yield Found(
                    f"{name}: its {kind} address {address} is the {its_kind} address of {its_name} in {other.file}, "
                    f"of the cluster {other.config.cluster_key!r}",
                    brokers=(name,),
                    severity=Severity.WARNING if is_loopback(address) else Severity.ERROR,
                    alike=other.file,
                    subject=f"the {kind} address of {name}",
                )
