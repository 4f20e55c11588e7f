"""Rules for a workload beyond the types of its parts: ranges, names that exist, a size that can be simulated."""

from __future__ import annotations

import msgspec

from openclust.shell.config.keys import Problems, did_you_mean
from topology.simulate.input.fault import Add, Fault, Kill, Partition, Return, parse_fault
from topology.simulate.input.workload import Clients, Publishers, Queues, Subscribers, Topics, Workload

PUBLICATIONS_MAX = 500_000_000
SUBSCRIPTIONS_MAX = 1_000_000_000
CLIENTS_MAX = 100_000_000
TOPICS_MAX = 10_000_000
BINS_MAX = 1_000_000
FAULTS_MAX = 1_000
GROUPS_MAX = 1_000
DAY_S = 86_400

Range = tuple[float, float]
_CLIENTS: dict[str, Range] = {
    "count": (1, CLIENTS_MAX),
    "join_at_s": (0, DAY_S),
    "join_over_s": (0, DAY_S),
    "latency_ms": (0, 60_000),
    "jitter_ms": (0, 60_000),
}
_SENDING: dict[str, Range] = {"rate": (0.000_001, 1_000_000), "burst": (1, 1_000_000), "size": (0, 134_217_728)}
RANGES: dict[type[msgspec.Struct], dict[str, Range]] = {
    Workload: {"duration_s": (0.001, DAY_S), "bin_ms": (1, 60_000), "seed": (0, 2**63 - 1)},
    Topics: {"count": (1, TOPICS_MAX)},
    Subscribers: {**_CLIENTS, "each": (1, 10_000), "exponent": (0, 5)},
    Publishers: {**_CLIENTS, **_SENDING, "exponent": (0, 5)},
    Queues: {
        **_SENDING,
        "count": (1, 1_000_000),
        "producers": (1, 1_000_000),
        "consumers": (1, 1_000_000),
        "work_ms": (0, 3_600_000),
        "latency_ms": (0, 60_000),
    },
}
"""The range of each number; a test sees that no number is forgotten."""

_KINDS = ("subscribers", "publishers", "queues")


def problems_of(workload: Workload) -> Problems:
    """All problems with their places. A rule on several numbers is checked only if each of them is in its range."""
    problems = _out_of_range(workload, ())
    for name, topics in workload.topics.items():
        problems += _out_of_range(topics, ("topics", name))
    for kind in _KINDS:
        groups = getattr(workload, kind)
        for number, each in enumerate(groups):
            problems += _out_of_range(each, (kind, str(number)))
        problems += _names_of(kind, groups)
    problems += _topics_that_are_missing(workload)
    if not any(getattr(workload, kind) for kind in _KINDS):
        problems.append(((), "there is nobody in it: it needs [[subscribers]], [[publishers]] or [[queues]]"))
    faults, wrong = _faults(workload)
    problems += wrong
    if problems:
        return problems
    return [*_of_time(workload), *_of_topics(workload), *_of_size(workload), *_of_faults(workload, faults)]


def publications(workload: Workload) -> float:
    """About the number of published messages, with those to shared queues."""
    sent = sum(each.count * each.rate * max(0, workload.duration_s - each.join_at_s) for each in workload.publishers)
    return sent + sum(each.count * each.producers * each.rate * workload.duration_s for each in workload.queues)


def _out_of_range(struct: msgspec.Struct, place: tuple[str, ...]) -> Problems:
    problems: Problems = []
    for name, (low, high) in RANGES[type(struct)].items():
        value = getattr(struct, name)
        if not low <= value <= high:  # so also nan
            problems.append(((*place, name), f"allowed is {_number(low)} to {_number(high)}, not {value}"))
    return problems


def _number(number: float) -> str:
    return f"{number:.6f}" if 0 < number < 0.001 else f"{number:,g}" if number < 1 else f"{number:,.0f}"


def _names_of(kind: str, groups: tuple[Clients | Queues, ...]) -> Problems:
    problems: Problems = []
    seen: set[str] = set()
    for number, each in enumerate(groups):
        place = (kind, str(number), "name")
        if not each.name:
            problems.append((place, "must not be empty"))
        elif each.name in seen:
            problems.append((place, f"two [[{kind}]] are called {each.name!r}; give each a name of its own"))
        seen.add(each.name)
        for index, broker in enumerate(each.brokers):
            if not broker or broker in each.brokers[:index]:
                told = f"{broker!r} is there twice" if broker else "must not be empty"
                problems.append(((kind, str(number), "brokers"), told))
    if len(groups) > GROUPS_MAX:
        problems.append(((kind,), f"at most {GROUPS_MAX:,} groups, not {len(groups):,}: make those that are alike one"))
    return problems


def _topics_that_are_missing(workload: Workload) -> Problems:
    problems: Problems = []
    for kind in ("subscribers", "publishers"):
        for number, each in enumerate(getattr(workload, kind)):
            if each.topics not in workload.topics:
                there = f"there are {', '.join(workload.topics)}" if workload.topics else "there are none"
                hint = did_you_mean(each.topics, workload.topics) or f"; {there}"
                problems.append(((kind, str(number), "topics"), f"there is no [topics.{each.topics}]{hint}"))
    return problems


def _faults(workload: Workload) -> tuple[list[Fault], Problems]:
    faults: list[Fault] = []
    problems: Problems = []
    if len(workload.faults) > FAULTS_MAX:
        return [], [(("faults",), f"at most {FAULTS_MAX:,}, not {len(workload.faults):,}")]
    for number, text in enumerate(workload.faults):
        place = ("faults", str(number))
        try:
            fault = parse_fault(text)
        except ValueError as error:
            problems.append((place, str(error)))
            continue
        except OverflowError:  # more digits than a float has room for
            problems.append((place, "the time is out of all bounds"))
            continue
        faults.append(fault)
        if isinstance(fault, Partition):
            if not all(fault.sides):
                problems.append((place, "a partition has brokers on both sides"))
            if fault.until_ms <= fault.at_ms:
                problems.append((place, "a partition lasts a millisecond at least"))
    return faults, problems


def _of_time(workload: Workload) -> Problems:
    problems: Problems = []
    if workload.duration_ms % workload.bin_ms:
        text = f"the duration of {workload.duration_s:g} s is no multiple of {workload.bin_ms} ms"
        problems.append((("bin_ms",), text))
    elif workload.duration_ms // workload.bin_ms > BINS_MAX:
        text = f"{workload.duration_ms // workload.bin_ms:,} bins are more than {BINS_MAX:,}: make them longer"
        problems.append((("bin_ms",), text))
    for kind in ("subscribers", "publishers"):
        for number, each in enumerate(getattr(workload, kind)):
            if each.join_at_s >= workload.duration_s:
                text = f"they join at {each.join_at_s:g} s, and the run ends at {workload.duration_s:g} s (duration_s)"
                problems.append(((kind, str(number), "join_at_s"), text))
    return problems


def _of_topics(workload: Workload) -> Problems:
    problems: Problems = []
    if workload.topic_count > TOPICS_MAX:
        problems.append((("topics",), f"{workload.topic_count:,} topics are more than {TOPICS_MAX:,}"))
    for number, each in enumerate(workload.subscribers):
        count = workload.topics[each.topics].count
        if each.each > count:
            text = f"each of them wants {each.each:,} topics, and [topics.{each.topics}] has {count:,}"
            problems.append((("subscribers", str(number), "each"), text))
    return problems


def _of_size(workload: Workload) -> Problems:
    problems: Problems = []
    clients = sum(each.count for each in workload.groups)
    if clients > CLIENTS_MAX:
        problems.append(((), f"{clients:,} clients are more than {CLIENTS_MAX:,}"))
    wanted = sum(each.count * each.each for each in workload.subscribers)
    if wanted > SUBSCRIPTIONS_MAX:
        problems.append((("subscribers",), f"{wanted:,} subscriptions are more than {SUBSCRIPTIONS_MAX:,}"))
    sent = publications(workload)
    if sent > PUBLICATIONS_MAX:
        way_out = "take a lower rate, fewer publishers or a shorter duration_s"
        problems.append((("duration_s",), f"{sent:,.0f} publications are more than {PUBLICATIONS_MAX:,}: {way_out}"))
    return problems


def _of_faults(workload: Workload, faults: list[Fault]) -> Problems:
    """Checks faults in the order of time: a broker that is down cannot be killed, one that is up cannot return."""
    problems: Problems = []
    down: set[str] = set()
    added = {each.broker: each.at_ms for each in faults if isinstance(each, Add)}
    seen: set[str] = set()
    for number, fault in sorted(enumerate(faults), key=lambda one: one[1].at_ms):
        place = ("faults", str(number))
        if fault.at_ms >= workload.duration_ms:
            text = f"{fault.at_ms / 1000:g} s is after the end, at {workload.duration_s:g} s (duration_s)"
            problems.append((place, text))
        names = (*fault.sides[0], *fault.sides[1]) if isinstance(fault, Partition) else (fault.broker,)
        problems += [
            (place, f"{each} is added later, at {added[each] / 1000:g} s")
            for each in names
            if fault.at_ms < added.get(each, 0)
        ]
        match fault:
            case Kill(name) if name in down:
                problems.append((place, f"{name} is dead already"))
            case Kill(name):
                down.add(name)
            case Return(name) if name not in down:
                problems.append((place, f'{name} runs already: "start" is for one that was killed before'))
            case Return(name):
                down.discard(name)
            case Add(name) if name in seen:
                problems.append((place, f'{name} is added twice: after a "kill", "start" brings it back'))
            case Add(name):
                seen.add(name)
            case Partition():
                pass
    return problems
