"""How many examples the property tests ask for: few in `make test`, fewer in `make unit`, many in `make soak`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import SOAK_EXAMPLES, SOAK_SEEDS, examples, seeds
from tests.support.paths import ROOT


@pytest.fixture
def load_profile() -> Iterator[Callable[[str], None]]:
    loaded = os.environ.get("HYPOTHESIS_PROFILE", "fixed")
    yield settings.load_profile
    settings.load_profile(loaded)


def test_a_property_has_its_own_number_in_make_test(load_profile: Callable[[str], None]) -> None:
    load_profile("fixed")
    assert (examples(300).max_examples, examples(5).max_examples, len(seeds(20))) == (300, 5, 20)


def test_make_unit_asks_a_third_and_at_least_one(load_profile: Callable[[str], None]) -> None:
    load_profile("unit")
    assert (examples(300).max_examples, examples(5).max_examples, len(seeds(20))) == (100, 2, 7)
    assert examples(1).max_examples == len(seeds(1)) == 1


def test_make_soak_asks_many(load_profile: Callable[[str], None]) -> None:
    load_profile("soak")
    assert (examples(5).max_examples, len(seeds(20))) == (SOAK_EXAMPLES, 20 * SOAK_SEEDS)


def test_no_property_binds_make_soak_to_its_own_number() -> None:
    allowed = {Path("conftest.py"), Path("support/examples.py"), Path("test_examples.py")}
    files = {path.relative_to(ROOT / "tests"): path for path in sorted((ROOT / "tests").rglob("*.py"))}
    binding = [str(name) for name, path in files.items() if "max_examples=" in path.read_text(encoding="utf-8")]
    assert set(map(Path, binding)) <= allowed, "use tests/support/examples.py"
