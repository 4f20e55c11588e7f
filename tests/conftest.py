"""What holds for all tests."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import SOAK_EXAMPLES, TEST_EXAMPLES, UNIT_SHARE

# How long an example takes says more of the machine than of the code: a pause of it is no failure.
fixed = settings(deadline=None, print_blob=True, derandomize=True, max_examples=TEST_EXAMPLES)
settings.register_profile("fixed", fixed)
settings.register_profile("unit", fixed, max_examples=TEST_EXAMPLES // UNIT_SHARE)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=SOAK_EXAMPLES)
# `make test` asks the same examples each time, so that it fails for a change and not for a draw.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logged goes from a worker process to the first one as UTF-8: a lone surrogate would end the run."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


# Imports and collection leave next to no garbage. The tests of clusters leave much, and memory enough for all of it:
# each whole collection would look at all that is alive.
gc.disable()


def pytest_collection_finish() -> None:
    """All that was imported and collected stays: the garbage collector need not look at it again with each test."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


ONLY_SOCKETS = re.compile(r"^pytestmark = pytest\.mark\.sockets\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make unit` need not import a file that is marked `sockets` as a whole, and the client libraries with it."""
    if not config.option.markexpr.startswith("not sockets and ") or collection_path.suffix != ".py":
        return None
    return bool(ONLY_SOCKETS.search(collection_path.read_text(encoding="utf-8"))) or None
