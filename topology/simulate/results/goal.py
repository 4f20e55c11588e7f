"""`--goal "p99<50ms, survive=1, missed<1%"`: the conditions for a layout, and the cheapest layout that meets them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from openclust.shell.config.keys import did_you_mean
from openclust.shell.config.schema import ConfigError
from topology.simulate.input.layout import DESIGNS
from topology.simulate.results.summary import Cheapest, FaultSummary, RunSummary

_TIMES = {"us": 0.001, "ms": 1.0, "s": 1000.0, "min": 60_000.0}
_SHARES = {"": 1.0, "%": 0.01}
_RATES = {"mbit": 1.0, "gbit": 1000.0}
_SIZES = {"mb": 1.0, "gb": 1000.0}
_NUMBERS = {"": 1.0}
_TERM = re.compile(r"([\w.]+)\s*(<=|>=|<|>|=)\s*(\d{1,12}(?:\.\d{1,9})?)\s*([A-Za-z%]*)")
TERMS_MAX = 20


def _back_ms(fault: FaultSummary) -> float:
    """The time until all lost clients were back; infinite if some of them did not come back."""
    return float("inf") if fault.lost_clients and fault.back_all_ms is None else fault.back_all_ms or 0.0


class Measure(msgspec.Struct, frozen=True):
    """A figure that a goal can bound from above. The first unit whose factor is 1 is the unit of the summary."""

    units: dict[str, float]
    of: Callable[[RunSummary], float]
    told: str


MEASURES = {
    "p50": Measure(_TIMES, lambda run: run.latency.p50_ms, "the latency of half of the deliveries"),
    "p90": Measure(_TIMES, lambda run: run.latency.p90_ms, "that of 90 %"),
    "p99": Measure(_TIMES, lambda run: run.latency.p99_ms, "that of 99 %"),
    "p999": Measure(_TIMES, lambda run: run.latency.p999_ms, "that of 99.9 %"),
    "max": Measure(_TIMES, lambda run: run.latency.max_ms, "the highest latency"),
    "mean": Measure(_TIMES, lambda run: run.latency.mean_ms, "the mean latency"),
    "wait": Measure(_TIMES, lambda run: _worst(each.wait_p99_ms for each in run.queues), "p99 of shared queues"),
    "back": Measure(_TIMES, lambda run: _worst(map(_back_ms, run.faults)), "until all lost clients are back"),
    "backlog": Measure(_TIMES, lambda run: _worst(each.backlog_ms_max for each in run.brokers), "the longest backlog"),
    "cpu": Measure(_SHARES, lambda run: _worst(each.cpu_mean for each in run.brokers), "of the busiest broker's core"),
    "cpu_max": Measure(_SHARES, lambda run: _worst(each.cpu_max for each in run.brokers), "in its busiest second"),
    "missed": Measure(
        _SHARES, lambda run: run.totals.missed / run.totals.expected if run.totals.expected else 0, "of the deliveries"
    ),
    "out": Measure(_RATES, lambda run: _worst(each.out_mbit_max for each in run.brokers), "what a broker sends"),
    "memory": Measure(_SIZES, lambda run: _worst(each.memory_mb for each in run.brokers), "of the largest broker"),
    "brokers": Measure(_NUMBERS, lambda run: run.primaries + run.secondaries, "how many there are"),
}
SURVIVE = "survive"
GRAMMAR = f'write "p99<50ms, survive=1, cpu<0.7, missed<1%"; there are {", ".join(MEASURES)} and {SURVIVE}'


class Term(msgspec.Struct, frozen=True):
    """One condition. `bound` is in the summary's unit."""

    text: str
    name: str
    is_strict: bool
    bound: float

    def unmet(self, run: RunSummary) -> str:
        """The reason why the condition is not met; empty if it is met."""
        if self.name == SURVIVE:
            lost = survivable(run)
            return "" if lost >= self.bound else f"survives the loss of {lost}, wanted {self.bound:g}"
        measure = MEASURES[self.name]
        value = measure.of(run)
        if value < self.bound or (value == self.bound and not self.is_strict):
            return ""
        return f"{self.name} is {_shown(value, measure.units)}, wanted {self.text.removeprefix(self.name).strip()}"


class Goal(msgspec.Struct, frozen=True):
    text: str
    terms: tuple[Term, ...]

    def met_by(self, run: RunSummary) -> tuple[bool, str]:
        """Whether a run meets the goal, and the reasons if not."""
        unmet = [why for each in self.terms if (why := each.unmet(run))]
        return not unmet, "; ".join(unmet)


def parse_goal(text: str) -> Goal:
    """Raises ConfigError with all mistakes and the grammar."""
    terms: list[Term] = []
    problems: list[str] = []
    parts = [each.strip() for each in text.split(",") if each.strip()]
    for part in parts[:TERMS_MAX]:
        try:
            terms.append(_term(part))
        except ValueError as error:
            problems.append(f"--goal {part}: {error}")
    if not parts:
        problems.append(f"--goal {text!r} wants nothing: {GRAMMAR}")
    if len(parts) > TERMS_MAX:
        problems.append(f"--goal: at most {TERMS_MAX} conditions, not {len(parts)}")
    if problems:
        raise ConfigError(*problems)
    return Goal(", ".join(each.text for each in terms), tuple(terms))


def cheapest(runs: Sequence[RunSummary], goal: Goal) -> list[Cheapest]:
    """For each number of subscribers and each rate: the layout with the fewest brokers, then the lowest p99."""
    found: list[Cheapest] = []
    for subscribers, rate in sorted({(each.subscribers, each.rate) for each in runs}):
        rivals = [each for each in runs if (each.subscribers, each.rate) == (subscribers, rate)]
        best = min((each for each in rivals if goal.met_by(each)[0]), key=_cost, default=None)
        if best is not None:
            why = f"{_layout(best)}: p99 {best.latency.p99_ms:.3g} ms, survives the loss of {survivable(best)}"
        else:
            nearest = min(rivals, key=lambda each: (goal.met_by(each)[1].count(";"), each.latency.p99_ms, _cost(each)))
            many = "the only layout does not meet it" if len(rivals) == 1 else f"none of {len(rivals)} layouts meets it"
            why = f"{many}; nearest is {_layout(nearest)}: {goal.met_by(nearest)[1]}"
        found.append(Cheapest(subscribers=subscribers, rate=rate, run=best.run if best else None, why=why))
    return found


def survivable(run: RunSummary) -> int:
    """The number of brokers, whichever they are, that a layout can lose and still have a root (or an active member).

    openclust elects with more than half of the defined primaries. Of the other designs any survivor carries on.
    """
    if run.design == "openclust":
        return run.primaries - (run.primaries // 2 + 1)
    return run.primaries + run.secondaries - 1


def _cost(run: RunSummary) -> tuple[float, ...]:
    known = (*DESIGNS, run.design)
    return (run.primaries + run.secondaries, run.latency.p99_ms, known.index(run.design), run.run)


def _layout(run: RunSummary) -> str:
    count = run.primaries + run.secondaries
    return f"{count} broker{'s' if count != 1 else ''} ({run.design}, {run.primaries} + {run.secondaries})"


def _worst(values: object) -> float:
    return float(max(values, default=0))  # type: ignore[call-overload]


def _term(text: str) -> Term:
    match = _TERM.fullmatch(text)
    if match is None:
        raise ValueError(f"that is no condition; {GRAMMAR}")
    name, sign, number, unit = match.groups()
    if name == SURVIVE:
        if sign not in ("=", ">=") or unit or float(number) != int(float(number)):
            raise ValueError("write survive=1, for any one broker")
        return Term(text, name, False, float(number))
    if name not in MEASURES:
        hint = did_you_mean(name, MEASURES) or f"; {GRAMMAR}"
        raise ValueError(f"nothing is called {name!r}{hint}")
    units = MEASURES[name].units
    if sign not in ("<", "<="):
        raise ValueError(f"a goal is a bound from above: {name}<{number}{unit}")
    factor = units.get(unit.lower())
    if factor is None:
        wanted = " or ".join(f"{number}{each}" for each in units)
        raise ValueError(f"{name} is {MEASURES[name].told}: write {wanted}")
    return Term(text, name, sign == "<", float(number) * factor)


def _shown(value: float, units: dict[str, float]) -> str:
    if "%" in units:
        return f"{value * 100:.3g} %"
    unit = next(each for each, factor in units.items() if factor == 1)
    return f"{value:.4g} {unit}".rstrip()
