"""A running API for the tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.manage.running_api import RunningApi, running_api


@pytest.fixture
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running
