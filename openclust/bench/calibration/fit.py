"""Computes costs from measured rows. A row tells how often each thing was done, and the CPU of all of it together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

SMALLEST_PIVOT = 1e-12
PASSES = 10
SMALL_ERROR = 0.03
"""Rows with a smaller error than this have equal weight; above it, twice the error halves the weight."""


class CostSample(msgspec.Struct, frozen=True, kw_only=True):
    """One measured row: `us` of CPU for `counts` of each thing."""

    name: str
    counts: dict[str, float]
    us: float


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """One measured row beside the figure that follows from the costs."""

    name: str
    measured_us: float
    fitted_us: float

    @property
    def error(self) -> float:
        """Relative: 0.1 if the figure from the costs is 10 % above the measured one."""
        return self.fitted_us / self.measured_us - 1


def fit(rows: Sequence[CostSample], known: Mapping[str, float] | None = None) -> dict[str, float]:
    """The cost of each thing that is not `known`, at least 0, with the smallest relative errors of the rows.

    Raises ValueError if the rows cannot tell two things apart.
    """
    known = known or {}
    names = sorted({name for row in rows for name in row.counts} - set(known))
    # Plain least squares would follow a single row that another load on the machine has disturbed.
    weights, costs = [1.0] * len(rows), dict.fromkeys(names, 0.0)
    for _ in range(PASSES):
        costs = _nonnegative(rows, weights, names, known)
        errors = [abs(row.error) for row in fitted(rows, {**known, **costs})]
        weights = [1 / max(error, SMALL_ERROR) for error in errors]
    return costs


def _nonnegative(
    rows: Sequence[CostSample], weights: Sequence[float], names: Sequence[str], known: Mapping[str, float]
) -> dict[str, float]:
    """Solve for the costs. A cost below 0 is set to 0, and the others are solved for again."""
    held: set[str] = set()
    while True:
        found = _solve(rows, weights, [name for name in names if name not in held], known)
        below = {name for name, cost in found.items() if cost < 0}
        if not below:
            return {name: found.get(name, 0.0) for name in names}
        held.add(min(below, key=lambda name: (found[name], name)))


def fitted(rows: Sequence[CostSample], costs: Mapping[str, float]) -> list[Fitted]:
    """Every row beside the figure that follows from these costs."""
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
    """Solve the normal equations. The few unknowns are scaled first, so that a small one keeps its digits."""
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
    """Gauss-Jordan elimination with partial pivoting."""
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
