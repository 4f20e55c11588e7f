"""The present costs of brokers on this machine, for a simulation that is compared with this machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from openclust.cli.bench.local_bench_cluster import local_clusters
from openclust.shell.config.schema import ConfigError
from topology.simulate.input.calibration import Calibration

if TYPE_CHECKING:
    from openclust.bench.calibration.parts import Effort


class CostsHere:
    """Measures costs with brokers whose data is in `data_in`, or on any disk. Failures raise ConfigError."""

    def __init__(self, data_in: Path | None, effort: Effort | None = None) -> None:
        from openclust.bench.brokers.disk import folder_on_disk
        from openclust.bench.calibration.parts import Effort
        from openclust.bench.client.bench_errors import BenchError

        self._effort = effort or Effort()
        try:
            self._folder = folder_on_disk(data_in)
        except BenchError as error:
            raise ConfigError(str(error)) from None

    def all(self) -> Calibration:
        """Measures all costs, which takes some minutes."""
        from openclust.bench.calibration.calibrating import calibrate, document
        from openclust.bench.client.bench_errors import BenchError
        from openclust.bench.report.progress_bar import Quiet

        try:
            found = calibrate(local_clusters(self._folder), self._folder, self._effort, Quiet())
        except BenchError as error:
            raise ConfigError(f"the costs of this machine: {error}") from None
        return msgspec.convert(document(found.costs), Calibration)

    def in_company(self, costs: Calibration) -> Calibration:
        """Returns `costs` with new measurements of the costs of brokers that share this machine."""
        from openclust.bench.calibration.calibrating import Calibrated, in_company
        from openclust.bench.client.bench_errors import BenchError
        from openclust.bench.report.progress_bar import Quiet

        known = {name: cost for name, cost in msgspec.structs.asdict(costs).items() if not isinstance(cost, str)}
        try:
            found = in_company(Calibrated(costs=known, rows=[]), local_clusters(self._folder), self._effort, Quiet())
        except BenchError as error:
            raise ConfigError(f"the costs of brokers that share this machine: {error}") from None
        return msgspec.structs.replace(costs, **found.costs)


def middle(costs: Sequence[Calibration]) -> Calibration:
    """The median of each cost."""
    first = msgspec.structs.asdict(costs[0])
    figures = {
        name: statistics.median(getattr(each, name) for each in costs)
        for name, value in first.items()
        if isinstance(value, float)
    }
    return msgspec.structs.replace(costs[0], **figures)
