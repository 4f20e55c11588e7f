"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.support.examples import SOAK_EXAMPLES

# How long an example takes says more of the machine than of the code: a pause of it is no failure.
settings.register_profile("fixed", deadline=None, print_blob=True, derandomize=True, max_examples=50)
settings.register_profile("soak", deadline=None, print_blob=True, max_examples=SOAK_EXAMPLES)
# `make test` asks the same examples each time, so that it fails for a change and not for a draw.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logged goes from a worker process to the first one as UTF-8: a lone surrogate would end the run."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_collection_finish() -> None:
    """All that was imported and collected stays: the garbage collector need not look at it again with each test."""
    gc.collect()
    gc.freeze()
