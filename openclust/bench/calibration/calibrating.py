"""This machine's costs of a broker, for `openclust simulate --calibration`: measured, computed and written as JSON.

The fields are those of `topology.simulate.input.calibration.Calibration`, which says what each of them means.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec
import psutil

from openclust import __version__
from openclust.bench.brokers.bench_cluster import MakeCluster
from openclust.bench.calibration.connections import crowd
from openclust.bench.calibration.election_time import elections
from openclust.bench.calibration.fit import CostSample, Fitted, fit, fitted
from openclust.bench.calibration.parts import Effort, Rows, fanout, members, persist, relay, shared
from openclust.bench.calibration.with_background_load import company, hop_us
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.report.progress_bar import Quiet

DIGITS = 3
PARTS = 8
ATTEMPTS = 3
COMPANY = "company_"
"""The names of the costs of brokers that share a machine begin with this."""


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """The costs, and all measured rows, each beside the figure that follows from the costs."""

    costs: dict[str, float]
    rows: list[Fitted]

    @property
    def error(self) -> float:
        """The root of the mean square of the rows' relative errors."""
        return math.sqrt(sum(row.error**2 for row in self.rows) / len(self.rows))


def calibrate(make: MakeCluster, data_in: Path, effort: Effort, watcher: Quiet) -> Calibrated:
    """Measure all costs. It takes two to four minutes, and starts all brokers itself, with their data in `data_in`."""
    found = Calibrated(costs={}, rows=[])
    for step in (
        (lambda: fanout(effort, watcher), lambda: relay(effort, make, watcher)),
        (lambda: members(effort, make, watcher),),
    ):
        found = _add_costs(step, found, watcher)
    found = in_company(found, make, effort, watcher)
    for step in (
        (lambda: shared(effort, make, watcher), lambda: persist(effort, data_in, watcher)),
        (lambda: crowd(effort, make, watcher), lambda: elections(effort, make, watcher)),
    ):
        found = _add_costs(step, found, watcher)
    return found


def in_company(before: Calibrated, make: MakeCluster, effort: Effort, watcher: Quiet) -> Calibrated:
    """The same costs with those of brokers that share a machine measured anew. It takes some 45 seconds."""
    alone = {name: cost for name, cost in before.costs.items() if not name.startswith(COMPANY)}
    found = _add_costs((lambda: company(effort, make, watcher),), Calibrated(costs=alone, rows=before.rows), watcher)
    costs = dict(found.costs)
    costs["company_hop_us"] = hop_us(costs)
    del costs["company_remote_us"]
    return Calibrated(costs=costs, rows=found.rows)


def _add_costs(parts: Sequence[Callable[[], Rows]], before: Calibrated, watcher: Quiet) -> Calibrated:
    """Measure these parts, and compute from them the costs that `before` does not have."""
    rows: list[CostSample] = []
    costs = dict(before.costs)
    for part in parts:
        found = _measured_with_retries(part)
        rows += found.rows
        costs |= found.figures
        watcher.finished_round()
    try:
        costs |= fit(rows, costs)
    except ValueError as error:
        raise BenchError(f"the costs cannot be told apart: {error}") from None
    return Calibrated(costs=costs, rows=[*before.rows, *fitted(rows, costs)])


def _measured_with_retries(part: Callable[[], Rows]) -> Rows:
    """Measure a part; again if it fails, because on a busy machine a cluster may lose its root."""
    for _ in range(ATTEMPTS - 1):
        try:
            return part()
        except BenchError:
            continue
    return part()


def document(costs: Mapping[str, float]) -> dict[str, object]:
    """The calibration file: costs with few digits, bytes as whole numbers, the machine and the date."""
    rounded = {
        name: round(value) if name.endswith("_bytes") else round(value, DIGITS) for name, value in sorted(costs.items())
    }
    return {"measured": date.today().isoformat(), "machine": machine(), "version": __version__, **rounded}


def machine() -> str:
    """Processor, cores and Python of this machine, in one line."""
    cores = psutil.cpu_count() or 1
    gigabytes = round(psutil.virtual_memory().total / 1e9)
    kernel = ".".join(platform.release().split(".")[:2])
    return (
        f"{_processor()}, {cores} core{'s' if cores != 1 else ''}, {gigabytes} GB, "
        f"{platform.system()} {kernel}, {platform.python_implementation()} {platform.python_version()}"
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    virtual = "virtual machine on " if "hypervisor" in facts.get("flags", "").split() else ""
    return virtual + (facts.get("model name") or platform.processor() or platform.machine())
