"""Reads a workload file: TOML with the names of `workload`. One error names all problems, each with file and line."""

from __future__ import annotations

from pathlib import Path

import msgspec

from openclust.shell.config.keys import KeyPath, Problems, convert_nested, did_you_mean
from openclust.shell.config.load import line_of, read_toml
from openclust.shell.config.schema import ConfigError
from topology.simulate.input.fault import Add, Fault, Partition, parse_fault
from topology.simulate.input.layout import Layout
from topology.simulate.input.workload import Workload
from topology.simulate.input.workload_check import problems_of


class WorkloadFile(msgspec.Struct, frozen=True):
    """A workload, and the line of each of its parts."""

    workload: Workload
    file: str
    lines: dict[KeyPath, int]

    def told(self, path: KeyPath, text: str) -> str:
        return _told(self.file, self.lines, path, text)


def read_workload(path: str | Path) -> Workload:
    """The workload of the file. Raises ConfigError with all problems."""
    return read_workload_file(path).workload


def read_workload_file(path: str | Path) -> WorkloadFile:
    """As `read_workload`, with the lines, for `check_against`."""
    document, lines = read_toml(Path(path), "workload file")
    problems: Problems = []
    workload = convert_nested(Workload, document, problems)
    if not problems:
        problems = problems_of(workload)
    if problems:
        raise ConfigError(*dict.fromkeys(_told(str(path), lines, where, text) for where, text in problems))
    if not workload.name:
        workload = msgspec.structs.replace(workload, name=Path(path).stem)
    return WorkloadFile(workload, str(path), lines)


def check_against(found: WorkloadFile, *layouts: Layout) -> None:
    """Raises ConfigError if a group or a fault names a broker that no layout has, or a fault adds one that exists."""
    there = sorted({name for each in layouts for name in each.names})
    faults = [parse_fault(each) for each in found.workload.faults]
    added = {each.broker for each in faults if isinstance(each, Add)}
    known = sorted({*there, *added})
    problems: Problems = []
    for kind in ("subscribers", "publishers", "queues"):
        for number, group in enumerate(getattr(found.workload, kind)):
            problems += [
                ((kind, str(number), "brokers"), f"the group {group.name!r} knows {_unknown(name, known)}")
                for name in group.brokers
                if name not in known
            ]
    for number, fault in enumerate(faults):
        where: KeyPath = ("faults", str(number))
        if isinstance(fault, Add) and fault.broker in there:
            problems.append((where, f"add {fault.broker}: there is a broker of this name already; add one that is new"))
        problems += [(where, f"names {_unknown(name, known)}") for name in brokers_of(fault) if name not in known]
    if problems:
        raise ConfigError(*dict.fromkeys(found.told(where, text) for where, text in problems))


def brokers_of(fault: Fault) -> tuple[str, ...]:
    """The brokers that a fault names."""
    return (*fault.sides[0], *fault.sides[1]) if isinstance(fault, Partition) else (fault.broker,)


def _unknown(name: str, known: list[str]) -> str:
    hint = did_you_mean(name, known)
    return f"an unknown broker, {name!r}{hint}{' (' if hint else '; '}there are {', '.join(known)}{')' if hint else ''}"


def _told(file: str, lines: dict[KeyPath, int], path: KeyPath, text: str) -> str:
    line = line_of(lines, path)
    place = f"{file} line {line}" if line else file
    shown = ".".join(each if each.isprintable() and each else repr(each) for each in path)
    return f"{place}: {shown}: {text}" if shown else f"{place}: {text}"
