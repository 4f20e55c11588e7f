"""The source tree of another openclust, whose processes are measured beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from openclust.bench.client.bench_errors import BenchError


class Checkout:
    """A folder that holds the package `openclust`. Start its processes in `folder`, with `environment`."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "openclust" / "__main__.py").is_file():
            raise BenchError(f"--compare-checkout {folder}: there is no openclust/__main__.py in it")
        self.folder = folder.resolve()

    @property
    def name(self) -> str:
        return self.folder.name

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The inherited variables; Python looks for packages in this source tree first."""
        return {**inherited, "PYTHONPATH": str(self.folder)}
