"""Costs solved for from what was measured: each row says how often each thing was done, and what all of it took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

SMALLEST_PIVOT = 1e-12
PASSES = 10
SMALL_ERROR = 0.03
"""Rows that are as near as this count alike; of others, those that are twice as far count half as much."""


class CostSample(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was measured: `us` of CPU, for so many of each thing."""

    name: str
    counts: dict[str, float]
    us: float


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """One row beside what the costs say it should be."""

    name: str
    measured_us: float
    fitted_us: float

    @property
    def error(self) -> float:
        """Of 1: 0.1 is a fit that is 10 % above what was measured."""
        return self.fitted_us / self.measured_us - 1


def fit(rows: Sequence[CostSample], known: Mapping[str, float] | None = None) -> dict[str, float]:
    """The cost of each thing that is not `known`, none below 0, so that the rows' relative errors are small.

    ValueError where the rows do not tell two things apart.
    """
    known = known or {}
    names = sorted({name for row in rows for name in row.counts} - set(known))
    # Least squares alone would follow the one row that something else on the machine disturbed.
    weights, costs = [1.0] * len(rows), dict.fromkeys(names, 0.0)
    for _ in range(PASSES):
        costs = _nonnegative(rows, weights, names, known)
        errors = [abs(row.error) for row in fitted(rows, {**known, **costs})]
        weights = [1 / max(error, SMALL_ERROR) for error in errors]
    return costs


def _nonnegative(
    rows: Sequence[CostSample], weights: Sequence[float], names: Sequence[str], known: Mapping[str, float]
) -> dict[str, float]:
    """A cost that comes out below 0 is held at 0, and the others are solved for again."""
    held: set[str] = set()
    while True:
        found = _solve(rows, weights, [name for name in names if name not in held], known)
        below = {name for name, cost in found.items() if cost < 0}
        if not below:
            return {name: found.get(name, 0.0) for name in names}
        held.add(min(below, key=lambda name: (found[name], name)))


def fitted(rows: Sequence[CostSample], costs: Mapping[str, float]) -> list[Fitted]:
    """Every row with what these costs say of it."""
    return [
        Fitted(
            name=row.name,
            measured_us=row.us,
            fitted_us=sum(count * costs[name] for name, count in row.counts.items()),
        )
        for row in rows
    ]


def _solve(
    rows: Sequence[CostSample], weights: Sequence[float], names: Sequence[str], known: Mapping[str, float]
) -> dict[str, float]:
    """By the normal equations: a handful of unknowns, which are scaled first so that none is lost beside another."""
    scaled = [[row.counts.get(name, 0.0) / row.us for name in names] for row in rows]
    targets = [1 - sum(known.get(name, 0.0) * count for name, count in row.counts.items()) / row.us for row in rows]
    lengths = [sum(line[at] ** 2 for line in scaled) ** 0.5 for at in range(len(names))]
    for name, length in zip(names, lengths, strict=True):
        if not length:
            raise ValueError(f"no row says anything of {name}")
    scaled = [[value / length for value, length in zip(line, lengths, strict=True)] for line in scaled]
    every = range(len(names))
    matrix = [
        [sum(weight * line[a] * line[b] for weight, line in zip(weights, scaled, strict=True)) for b in every]
        + [sum(weight * line[a] * value for weight, line, value in zip(weights, scaled, targets, strict=True))]
        for a in every
    ]
    return {name: value / length for name, value, length in zip(names, _eliminate(matrix, names), lengths, strict=True)}


def _eliminate(matrix: list[list[float]], names: Sequence[str]) -> list[float]:
    """Gauss and Jordan, with the largest pivot first."""
    size = len(matrix)
    for column in range(size):
        best = max(range(column, size), key=lambda row: abs(matrix[row][column]))
        if abs(matrix[best][column]) < SMALLEST_PIVOT:
            raise ValueError(f"the rows do not tell {names[column]} from the others")
        matrix[column], matrix[best] = matrix[best], matrix[column]
        pivot = matrix[column]
        for row in range(size):
            if row != column and (factor := matrix[row][column] / pivot[column]):
                matrix[row] = [value - factor * of for value, of in zip(matrix[row], pivot, strict=True)]
    return [matrix[row][size] / matrix[row][row] for row in range(size)]
