"""`--sweep subscribers=10k,100k brokers=1..16`: the cells of a grid, each a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

from openclust.shell.config.keys import did_you_mean
from openclust.shell.config.schema import ConfigError
from topology.simulate.input.layout import DESIGNS, PRIMARIES_MAX, Design, GridCell, Layout, as_design, layout_of_counts
from topology.simulate.input.layouts import resized
from topology.simulate.input.workload import Workload
from topology.simulate.input.workload_check import CLIENTS_MAX, PUBLICATIONS_MAX, publications

AXES = ("subscribers", "brokers", "primaries", "secondaries", "design", "rate")
GRAMMAR = (
    "write NAME=VALUE,VALUE or NAME=FROM..TO or NAME=FROM..TO/STEP, such as subscribers=10k,100k,1M brokers=1..16 "
    "primaries=1..5/2 secondaries=0..8 design=openclust,single rate=x0.5,x2"
)
RUNS_MAX = 1_000
BROKERS_MAX = 256
_LIMITS = {
    "subscribers": (1, CLIENTS_MAX),
    "brokers": (1, BROKERS_MAX),
    "primaries": (1, BROKERS_MAX),
    "secondaries": (0, BROKERS_MAX),
}
_RATES = (0.001, 1000.0)
_COUNT = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([kM]?)")
_RANGE = re.compile(r"(.+?)\.\.([^/]+)(?:/(.+))?")
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000}

Axes = Mapping[str, Sequence[Any]]
"""The values of each axis that is swept, in the order in which they were given."""


def parse_count(text: str) -> int:
    """The number of a text such as `100000`, `100k` or `1.5M`. Raises ValueError for other text and broken numbers."""
    match = _COUNT.fullmatch(text.strip().replace("_", ""))
    number = float(match[1]) * _UNITS[match[2]] if match else 0.5
    if number != int(number):
        raise ValueError(f"{text!r} is no whole number such as 100000, 100k or 1.5M")
    return int(number)


def parse_sweep(terms: Sequence[str]) -> dict[str, list[Any]]:
    """The axes of a grid. Raises ConfigError with all mistakes, and the grammar."""
    axes: dict[str, list[Any]] = {}
    problems: list[str] = []
    for term in [part for each in terms for part in each.split()]:
        name, equals, text = term.partition("=")
        if not equals or not text:
            problems.append(f"--sweep {term}: {GRAMMAR}")
        elif name not in AXES:
            hint = did_you_mean(name, AXES) or f"; there are {', '.join(AXES)}"
            problems.append(f"--sweep {term}: nothing is called {name!r}{hint}")
        elif name in axes:
            problems.append(f"--sweep {term}: {name} is given twice; write its values with commas")
        else:
            try:
                axes[name] = list(dict.fromkeys(_values(name, text)))
            except ValueError as error:
                problems.append(f"--sweep {term}: {error}; {GRAMMAR}")
    if "brokers" in axes and ("primaries" in axes or "secondaries" in axes):
        problems.append("--sweep: brokers are primaries and secondaries together; sweep either, not both")
    if problems:
        raise ConfigError(*problems)
    return axes


def runs_of(
    axes: Axes, workload: Workload, *, base: Layout | None = None, designs: Sequence[Design] = ("openclust",)
) -> list[GridCell]:
    """The cells, without duplicates: with the design `single` the number of other brokers makes no difference.

    Without a `base` (the layout of a cluster file) an axis must give the number of brokers.
    """
    if base is None and not axes.keys() & {"brokers", "primaries", "secondaries"}:
        raise ConfigError("name a cluster file, or say how many brokers there are: --sweep brokers=1..8")
    if "subscribers" in axes and not workload.subscriber_count:
        raise ConfigError("--sweep subscribers: the workload has no [[subscribers]]")
    cells = list(_cells(axes, base))
    wanted = [cast(Design, each) for each in axes.get("design", designs)]
    subscribers = axes.get("subscribers", [workload.subscriber_count])
    rates = axes.get("rate", [1.0])
    _check_size(workload, rates, len(cells) * len(wanted) * len(subscribers) * len(rates))
    layouts = list(dict.fromkeys(as_design(each, design) for design, each in product(wanted, cells)))
    found = product(subscribers, rates, layouts)
    return [GridCell(number=n, layout=each, subscribers=many, rate=rate) for n, (many, rate, each) in enumerate(found)]


def shown(axes: Axes) -> dict[str, list[str]]:
    """The grid as the summary has it."""
    return {name: [f"{each:g}" if name == "rate" else str(each) for each in values] for name, values in axes.items()}


def _check_size(workload: Workload, rates: Sequence[float], count: int) -> None:
    if count > RUNS_MAX:
        raise ConfigError(f"--sweep: {count:,} runs are more than {RUNS_MAX:,}; take larger steps")
    sent = publications(workload) * max(rates)
    if sent > PUBLICATIONS_MAX:
        text = f"{sent:,.0f} publications are more than {PUBLICATIONS_MAX:,}"
        raise ConfigError(f"--sweep rate: x{max(rates):g}: {text}; take a lower rate or a shorter duration_s")


def _cells(axes: Axes, base: Layout | None) -> Iterator[Layout]:
    """The layouts, before a design is laid on them."""
    model = base or layout_of_counts(1, 0)
    firsts = len(model.primaries)
    others = len(model.sites) - firsts
    if "brokers" in axes:
        for count in axes["brokers"]:
            primaries = min(count, max(PRIMARIES_MAX, firsts))
            primaries -= primaries % 2 == 0  # an even number survives no more than the odd one below it
            yield resized(model, primaries, count - primaries)
        return
    for primaries, secondaries in product(axes.get("primaries", [firsts]), axes.get("secondaries", [others])):
        yield resized(model, primaries, secondaries)


def _values(name: str, text: str) -> Iterator[Any]:
    for part in text.split(","):
        if name == "design":
            if part != "all" and part not in DESIGNS:
                raise ValueError(f"{part!r} is no design{did_you_mean(part, DESIGNS)}: {', '.join(DESIGNS)} or all")
            yield from DESIGNS if part == "all" else (part,)
        elif name == "rate":
            yield _rate(part)
        elif match := _RANGE.fullmatch(part):
            yield from _range(name, part, *(parse_count(each) for each in match.groups() if each is not None))
        else:
            yield _within(name, parse_count(part))


def _rate(text: str) -> float:
    low, high = _RATES
    if not re.fullmatch(r"x?\d{1,6}(\.\d{1,6})?", text) or not low <= float(text.removeprefix("x")) <= high:
        raise ValueError(f"{text!r} is no factor from x{low:g} to x{high:g}")
    return float(text.removeprefix("x"))


def _range(name: str, text: str, low: int, high: int, step: int = 1) -> range:
    _within(name, low), _within(name, high)
    if low > high or step < 1:
        raise ValueError(f"{text} has nothing in it")
    found = range(low, high + 1, step)
    if len(found) > RUNS_MAX:
        raise ValueError(f"{text} are {len(found):,} values, more than {RUNS_MAX:,}")
    return found


def _within(name: str, number: int) -> int:
    low, high = _LIMITS[name]
    if not low <= number <= high:
        raise ValueError(f"{name} are {low:,} to {high:,}, not {number:,}")
    return number
