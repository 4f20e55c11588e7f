"""What holds for all tests."""

from __future__ import annotations

import gc

from hypothesis import settings

# How long an example takes says more of the machine than of the code: a pause of it is no failure.
settings.register_profile("here", deadline=None, print_blob=True)
settings.load_profile("here")


def pytest_collection_finish() -> None:
    """All that was imported and collected stays: the garbage collector need not look at it again with each test."""
    gc.collect()
    gc.freeze()
