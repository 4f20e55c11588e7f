from __future__ import annotations

from pathlib import Path

import pytest

from openclust.bench.brokers.checkout import Checkout
from openclust.bench.client.bench_errors import BenchError


def test_its_processes_take_their_packages_from_there_and_all_else_from_here(tmp_path: Path) -> None:
    (tmp_path / "before" / "openclust").mkdir(parents=True)
    (tmp_path / "before" / "openclust" / "__main__.py").touch()
    checkout = Checkout(tmp_path / "before")
    assert checkout.name == "before"
    assert checkout.environment({"HOME": "/h", "PYTHONPATH": "/ours"}) == {
        "HOME": "/h",
        "PYTHONPATH": str(tmp_path / "before"),
    }


def test_a_folder_without_an_openclust_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"there is no openclust/__main__\.py in it"):
        Checkout(tmp_path)
