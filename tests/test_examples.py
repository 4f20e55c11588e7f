"""How many examples the property tests ask for: few in `make test`, many in `make soak`."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

from tests.support.examples import SOAK_EXAMPLES, examples
from tests.support.paths import ROOT


def test_a_property_has_its_own_number_in_make_test_and_the_profiles_in_make_soak() -> None:
    loaded = os.environ.get("HYPOTHESIS_PROFILE", "fixed")
    try:
        settings.load_profile("fixed")
        assert examples(300).max_examples == 300
        assert examples(5).max_examples == 5
        settings.load_profile("soak")
        assert examples(5).max_examples == SOAK_EXAMPLES
    finally:
        settings.load_profile(loaded)


def test_no_property_binds_make_soak_to_its_own_number() -> None:
    allowed = {Path("conftest.py"), Path("support/examples.py"), Path("test_examples.py")}
    files = {path.relative_to(ROOT / "tests"): path for path in sorted((ROOT / "tests").rglob("*.py"))}
    binding = [str(name) for name, path in files.items() if "max_examples=" in path.read_text(encoding="utf-8")]
    assert set(map(Path, binding)) <= allowed, "use tests/support/examples.py"
