"""Tests of the simulation's stages share one Spark session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.spark import spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
